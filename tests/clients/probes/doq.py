"""Speaks DNS over QUIC as RFC 9250 forbids it, and as it demands it, and judges what the gateway does.

A protocol error closes the connection with DOQ_PROTOCOL_ERROR; an answer would be wrong (section 4.3.3).
"""

import asyncio
import contextlib
import struct

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StopSendingReceived, StreamDataReceived, StreamReset

from probe import CA, HERE, PORTS, SERVER, TXT, WWW, Reply, Verdicts, message, opt, option

NO_ERROR, PROTOCOL_ERROR, CANCELLED = 0, 2, 3
# An alert of TLS in a CONNECTION_CLOSE (RFC 9001 section 4.8).
NO_APPLICATION_PROTOCOL = 0x100 + 120
STREAM_LIMIT_ERROR = 4


class Talk(QuicConnectionProtocol):
    """A connection that notes what comes."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.data, self.ended, self.resets, self.stops = {}, set(), {}, {}
        self.alpn = self.end = None
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        """Notes an event."""
        if isinstance(event, HandshakeCompleted):
            self.alpn = event.alpn_protocol
        elif isinstance(event, StreamDataReceived):
            self.data[event.stream_id] = self.data.get(event.stream_id, b"") + event.data
            if event.end_stream:
                self.ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, StopSendingReceived):
            self.stops[event.stream_id] = event.error_code
        elif isinstance(event, ConnectionTerminated):
            self.end = event.error_code
        self.news.set()

    async def until(self, look, patience=3.0):
        """Waits until something is so; says whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not look():
                    self.news.clear()
                    await self.news.wait()
        return bool(look())

    def send(self, octets, end=True, stream=None):
        """Sends octets on a stream, a new one if none is given, and gives its number."""
        stream = self._quic.get_next_available_stream_id() if stream is None else stream
        self._quic.send_stream_data(stream, octets, end)
        self.transmit()
        return stream

    async def reply(self, stream, patience=3.0):
        """The reply on a stream, taken apart; nothing if the stream does not end with one."""
        await self.until(lambda: stream in self.ended or self.end is not None, patience)
        data = self.data.get(stream, b"")
        if stream not in self.ended or len(data) < 2 or struct.unpack("!H", data[:2])[0] != len(data) - 2:
            return None
        return Reply(data[2:])


def framed(octets):
    """A message with its length."""
    return struct.pack("!H", len(octets)) + octets


def query(*words, **more):
    """A query with ID 0 (RFC 9250 section 4.2.1), with its length."""
    return framed(message(*words, ident=0, **more))


@contextlib.asynccontextmanager
async def talk(alpn=("doq",), **more):
    """A connection; nothing if the handshake fails, with the error in its place."""
    words = {"is_client": True, "alpn_protocols": list(alpn) or None, "server_name": SERVER, "idle_timeout": 20}
    configuration = QuicConfiguration(**{**words, **more})
    configuration.load_verify_locations(CA)
    protocols = []

    def make(*words, **more):
        protocols.append(Talk(*words, **more))
        return protocols[-1]

    try:
        async with connect(HERE, PORTS["TLS"], configuration=configuration, create_protocol=make) as one:
            yield one, None
            one.close()
    except ConnectionError:
        yield None, protocols[0].end


async def good(verdicts):
    """What a client may do."""
    async with talk() as (one, _):
        reply = await one.reply(one.send(query()))
        verdicts.judge("DOQ-02 DOQ-05 a query is answered with ID 0 and the stream ends", reply and reply.answers() == [WWW] and reply.ident == 0)
        verdicts.judge("DOQ-01 the protocol is doq", one.alpn == "doq", one.alpn)
        streams = [one.send(query(f"q{number}.load.test")) for number in range(50)]
        replies = [await one.reply(stream) for stream in streams]
        verdicts.judge("DOQ-02 fifty streams at once", all(r and r.rcode == 0 for r in replies))
        large = await one.reply(one.send(query("big.example.test", TXT, extra=opt(size=512), more=1)))
        verdicts.judge("DOQ-13 EDNS-09 a large reply is whole", large and len(large.answers(TXT)) == 2 and "tc" not in large.bits)
        padded = await one.reply(one.send(query(extra=opt(option(12, b"\0" * 30)), more=1)))
        verdicts.judge("DOQ-10 PAD-01 padded for padding", padded and 12 in padded.options and not any(padded.options[12]), padded and len(padded.octets))
        padded = await one.reply(one.send(query(extra=opt(), more=1)))
        verdicts.judge("PAD-04 padded whenever there is EDNS", padded and len(padded.octets) % 468 == 0, padded and len(padded.octets))
        plain = await one.reply(one.send(query()))
        verdicts.judge("PAD-03 not without", plain and plain.opts == 0)
        whole = query("q1.load.test")
        stream = one.send(whole[:1], end=False)
        for octet in whole[1:]:
            await asyncio.sleep(0.002)
            one.send(bytes([octet]), end=False, stream=stream)
        one.send(b"", stream=stream)
        slow = await one.reply(stream)
        verdicts.judge("DOQ-02 octet by octet", slow and slow.rcode == 0)
        for code in (1, 2, 6, 15):
            answer = await one.reply(one.send(query(flags=code << 11)))
            verdicts.judge(f"DOQ-07 opcode {code} is answered by DNS", answer and answer.rcode == 4)
        for code, name in ((4, "NOTIFY"), (5, "UPDATE")):
            answer = await one.reply(one.send(query("example.test", 6, flags=code << 11)))
            verdicts.judge(f"DOQ-07 {name} is answered by DNS", answer is not None and answer.opcode == code, answer and answer.rcode)
        answer = await one.reply(one.send(query("example.test", 252)))
        verdicts.judge("DOQ-14 AXFR gives no zone away", answer is not None and not answer.counts[1])
        answer = await one.reply(one.send(query("www.elsewhere.invalid", extra=opt(), more=1)))
        verdicts.judge("DOQ-07 a failure is an answer", answer is not None and answer.rcode != 0)
        verdicts.judge("and all on one connection", one.end is None, one.end)


async def held(verdicts):
    """A query whose stream stays open holds up no other (DOQ-03)."""
    async with talk() as (one, _):
        stream = one.send(query(), end=False)
        other = await one.reply(one.send(query("q1.load.test")))
        verdicts.judge("DOQ-03 a stream without an end holds up no other", other and other.rcode == 0)
        one.send(b"", stream=stream)
        reply = await one.reply(stream)
        verdicts.judge("DOQ-03 and is answered at its end", reply and reply.answers() == [WWW])


FORBIDDEN = [
    ("an ID that is not zero", framed(message())),
    ("the end inside the message", query()[:-3]),
    ("the end inside the length", b"\0"),
    ("two queries", query() + query("q1.load.test")),
    ("octets behind the query", query() + b"x"),
    ("an empty stream", b""),
    ("a length of zero", b"\0\0"),
    ("keepalive of TCP", query(extra=opt(option(11)), more=1)),
    ("a response", query(flags=0x8100)),
]


async def forbidden(verdicts):
    """What a client may not do on a stream (DOQ-04)."""
    for case, octets in FORBIDDEN:
        async with talk() as (one, _):
            stream = one.send(octets)
            await one.until(lambda one=one: one.end is not None)
            right = one.end == PROTOCOL_ERROR and not one.data.get(stream)
            verdicts.judge(f"DOQ-04 {case}", right, f"{one.end}, {one.data.get(stream)}")
    async with talk() as (one, _):
        stream = one._quic.get_next_available_stream_id(is_unidirectional=True)
        # aioquic would wait for room that never comes; a hostile client does not.
        one._quic._remote_max_streams_uni, one._quic._remote_max_stream_data_uni = 10, 1 << 16
        one.send(query(), stream=stream)
        await one.until(lambda: one.end is not None)
        verdicts.judge("DOQ-04 a unidirectional stream", one.end in (PROTOCOL_ERROR, STREAM_LIMIT_ERROR), one.end)
    async with talk() as (one, _):
        stream = one.send(framed(b"\0\0\1\0\0\1" + b"\0" * 6 + b"\x40junk"))
        reply = await one.reply(stream)
        verdicts.judge("DOQ-07 a malformed message is FORMERR or the end", (reply and reply.rcode == 1) or one.end == PROTOCOL_ERROR, reply and reply.rcode)


async def cancelled(verdicts):
    """Queries that the client gives up (DOQ-06)."""
    async with talk() as (one, _):
        stream = one.send(query()[:10], end=False)
        one._quic.reset_stream(stream, CANCELLED)
        one.transmit()
        await one.until(lambda: stream in one.resets or stream in one.ended, 2)
        verdicts.judge("DOQ-06 a reset stream is reset, not answered", not one.data.get(stream) and one.end is None, one.resets)
        reply = await one.reply(one.send(query()))
        verdicts.judge("DOQ-06 and the connection lives on", reply and reply.answers() == [WWW])
    async with talk() as (one, _):
        for _ in range(3000):
            stream = one._quic.get_next_available_stream_id()
            one._quic.send_stream_data(stream, b"\0", False)
            one._quic.reset_stream(stream, CANCELLED)
            if stream % 400 == 0:
                one.transmit()
                await asyncio.sleep(0.005)
            if one.end is not None:
                break
        one.transmit()
        await one.until(lambda: one.end is not None, 5)
        verdicts.judge("DOQ-06 Q-06 who resets everything is sent away", one.end == 4, one.end)


async def handshakes(verdicts):
    """What is agreed on before there are queries (DOQ-01, Q-05)."""
    for alpn in (["h3"], ["doq-i11"], ["dot"], []):
        async with talk(alpn) as (one, error):
            verdicts.judge(f"DOQ-01 protocols {alpn} are refused", one is None and error == NO_APPLICATION_PROTOCOL, error)
    async with talk(["h3", "doq"]) as (one, _):
        verdicts.judge("DOQ-01 doq among others", one is not None and one.alpn == "doq")
    async with talk(server_name=None) as (one, _):
        verdicts.judge("TLS-05 without a name it is an address", one is not None and bool(await one.reply(one.send(query()))))
    async with talk(original_version=0x1A2A3A4A, supported_versions=[0x1A2A3A4A, 1]) as (one, _):
        verdicts.judge("Q-05 another version is negotiated", one is not None and bool(await one.reply(one.send(query()))))


def initial(size):
    """A first packet of a client, too short to be answered or just not (RFC 9000 section 14.1)."""
    buffer = Buffer(capacity=size)
    buffer.push_uint8(0xC3)
    buffer.push_uint32(0x1A2A3A4A)
    buffer.push_uint8(8)
    buffer.push_bytes(b"12345678")
    buffer.push_uint8(8)
    buffer.push_bytes(b"87654321")
    buffer.push_bytes(bytes(size - buffer.tell()))
    return buffer.data


async def datagrams(verdicts):
    """Datagrams of nobody (Q-01, Q-04)."""
    loop = asyncio.get_running_loop()
    for size, answered in ((1199, False), (1200, True)):
        heard = loop.create_future()

        class Ear(asyncio.DatagramProtocol):
            def datagram_received(self, data, addr, heard=heard):
                if not heard.done():
                    heard.set_result(data)

        transport, _ = await loop.create_datagram_endpoint(Ear, remote_addr=(HERE, PORTS["TLS"]))
        transport.sendto(initial(size))
        done, _ = await asyncio.wait([heard], timeout=1)
        right = bool(done) == answered and (not done or len(heard.result()) <= 3 * size)
        verdicts.judge(f"Q-01 a first datagram of {size} octets", right, done and len(heard.result()))
        for length in (1, 21, 40, 43, 300):
            transport.sendto(bytes([0x40]) + bytes(range(1, 256))[: length - 1])
        await asyncio.sleep(0.2)
        transport.close()


async def many(verdicts):
    """More streams than there is room for (Q-02)."""
    async with talk() as (one, _):
        room = one._quic._remote_max_streams_bidi
        verdicts.judge("Q-02 room for streams is bounded", 1 < room <= 1000, room)
        verdicts.judge("Q-02 none for unidirectional ones", one._quic._remote_max_streams_uni == 0, one._quic._remote_max_streams_uni)
        data = one._quic._remote_max_data
        verdicts.judge("Q-02 room for data is bounded", data <= 16 << 20, data)
        streams = [one.send(query(f"q{number}.load.test")) for number in range(2000)]
        answers = [await one.reply(stream, 20) for stream in streams]
        verdicts.judge("DOQ-12 two thousand queries on one connection", all(a and a.rcode == 0 for a in answers))


async def main():
    """Runs all."""
    verdicts = Verdicts()
    for part in (good, held, forbidden, cancelled, handshakes, datagrams, many):
        await part(verdicts)
    async with talk() as (one, _):
        reply = await one.reply(one.send(query()))
        verdicts.judge("and a good query is still answered", reply and reply.answers() == [WWW])
    verdicts.end()


if __name__ == "__main__":
    asyncio.run(main())
