"""One request over HTTP/1.1, HTTP/2 or HTTP/3, each on a connection of its own: `ask(version, method, path, headers, body)`."""

import asyncio
import http.client
import ssl
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events
import h2.settings
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

from probe import CA, HERE, PORTS, SERVER

import socket


@dataclass
class Response:
    """A response; status 0 if there is none, then the body says why."""

    status: int
    headers: dict
    body: bytes


def tls(alpn):
    """A TLS stream to the listener for HTTPS."""
    context = ssl.create_default_context(cafile=CA)
    context.set_alpn_protocols([alpn])
    stream = socket.create_connection((HERE, PORTS["HTTPS"]), timeout=10)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = context.wrap_socket(stream, server_hostname=SERVER)
    assert stream.selected_alpn_protocol() == alpn
    return stream


def ask(version, method, path, headers=(), body=None):
    """Asks, and gives the response."""
    return {"h1": by_h1, "h2": by_h2, "h3": by_h3}[version](method, path, dict(headers), body)


def by_h1(method, path, headers, body):
    """Over HTTP/1.1."""
    connection = http.client.HTTPConnection(HERE, PORTS["HTTPS"])
    connection.sock = tls("http/1.1")
    try:
        connection.request(method, path, body, headers)
    except OSError:
        # The response may come before the request is out.
        pass
    try:
        response = connection.getresponse()
        return Response(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    except (OSError, http.client.HTTPException) as error:
        return Response(0, {}, repr(error).encode())
    finally:
        connection.close()


def fields(method, path, headers):
    """The fields of a request for HTTP/2 and HTTP/3."""
    pseudo = [(":method", method), (":scheme", "https"), (":authority", f"{SERVER}:{PORTS['HTTPS']}"), (":path", path)]
    return pseudo + [(name.lower(), value) for name, value in headers.items()]


def by_h2(method, path, headers, body):
    """Over HTTP/2."""
    with tls("h2") as stream:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        state.initiate_connection()
        state.send_headers(1, fields(method, path, headers), end_stream=body is None)
        response, rest = Response(0, {}, b""), body or b""
        ended = False
        sent_end = body is None
        while not ended:
            while not sent_end:
                room = min(state.local_flow_control_window(1), state.max_outbound_frame_size)
                if rest and not room:
                    break
                part, rest = rest[:room], rest[room:]
                sent_end = not rest
                state.send_data(1, part, end_stream=sent_end)
            try:
                stream.sendall(state.data_to_send())
                data = stream.recv(65536)
            except OSError as error:
                response.body = response.body or repr(error).encode()
                break
            if not data:
                break
            for event in state.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    response.headers = dict(event.headers)
                    response.status = int(response.headers.pop(":status"))
                elif isinstance(event, h2.events.DataReceived):
                    response.body += event.data
                    state.acknowledge_received_data(event.flow_controlled_length, 1)
                elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset, h2.events.ConnectionTerminated)):
                    ended = True
                    if not response.status:
                        response.body = repr(event).encode()
        return response


class Talk(QuicConnectionProtocol):
    """A connection of HTTP/3 that notes what comes."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.h3 = None
        self.responses, self.ended, self.end = {}, set(), None
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        """Notes an event."""
        if isinstance(event, ConnectionTerminated):
            self.end = event.error_code
        if isinstance(event, StreamReset):
            self.ended.add(event.stream_id)
        if self.h3 is not None:
            for one in self.h3.handle_event(event):
                response = self.responses.setdefault(one.stream_id, Response(0, {}, b""))
                if isinstance(one, HeadersReceived):
                    response.headers = {k.decode(): v.decode() for k, v in one.headers}
                    response.status = int(response.headers.pop(":status"))
                elif isinstance(one, DataReceived):
                    response.body += one.data
                if getattr(one, "stream_ended", False):
                    self.ended.add(one.stream_id)
        self.news.set()

    async def until(self, look, patience=5.0):
        """Waits until something is so; says whether it came."""
        try:
            async with asyncio.timeout(patience):
                while not look():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            pass
        return bool(look())


def quic(make=Talk):
    """A connection for HTTP/3, to be entered."""
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name=SERVER)
    configuration.load_verify_locations(CA)
    return connect(HERE, PORTS["HTTPS"], configuration=configuration, create_protocol=make)


async def request(one, method, path, headers, body):
    """Asks on a connection of HTTP/3."""
    if one.h3 is None:
        one.h3 = H3Connection(one._quic)
    stream = one._quic.get_next_available_stream_id()
    encoded = [(k.encode(), v.encode()) for k, v in fields(method, path, headers)]
    one.h3.send_headers(stream, encoded, end_stream=body is None)
    if body is not None:
        one.h3.send_data(stream, body, end_stream=True)
    one.transmit()
    await one.until(lambda: stream in one.ended or one.end is not None)
    return one.responses.get(stream, Response(0, {}, f"closed: {one.end}".encode()))


def by_h3(method, path, headers, body):
    """Over HTTP/3."""

    async def run():
        async with quic() as one:
            return await request(one, method, path, headers, body)

    return asyncio.run(run())
