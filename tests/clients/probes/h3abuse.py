"""Does to HTTP/3 what RFC 9114 forbids and what attackers do, within bounds, and judges what the gateway does about it."""

import asyncio

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import encode_uint_var
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived, StreamReset
from pylsqpack import Encoder

from probe import PORTS, SERVER, WWW, Reply, Verdicts
from web import ask, quic

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
CONTROL, PUSH, QPACK_ENCODER, QPACK_DECODER = 0, 1, 2, 3
# Error codes (RFC 9114 section 8.1, RFC 9204 section 6).
STREAM_CREATION, CLOSED_CRITICAL, FRAME_UNEXPECTED, FRAME_ERROR, EXCESSIVE_LOAD = 0x103, 0x104, 0x105, 0x106, 0x107
ID_ERROR, SETTINGS_ERROR, MISSING_SETTINGS, REQUEST_CANCELLED, REQUEST_INCOMPLETE, MESSAGE_ERROR = 0x108, 0x109, 0x10A, 0x10C, 0x10D, 0x10E
QPACK_DECOMPRESSION, QPACK_ENCODER_STREAM = 0x200, 0x201
GET = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlBHRlc3QAAAEAAQ"


class Talk(QuicConnectionProtocol):
    """A connection whose frames are made by hand."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.data, self.ended, self.resets, self.end = {}, set(), {}, None
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        """Notes an event."""
        if isinstance(event, StreamDataReceived):
            self.data[event.stream_id] = self.data.get(event.stream_id, b"") + event.data
            if event.end_stream:
                self.ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, ConnectionTerminated):
            self.end = event.error_code
        self.news.set()

    async def until(self, look, patience=4.0):
        """Waits until something is so; says whether it came."""
        try:
            async with asyncio.timeout(patience):
                while not look():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            pass
        return bool(look())

    def send(self, octets, end=False, stream=None, unidirectional=False):
        """Sends octets on a stream, a new one if none is given, and gives its number."""
        if stream is None:
            stream = self._quic.get_next_available_stream_id(unidirectional)
        self._quic.send_stream_data(stream, octets, end)
        self.transmit()
        return stream

    def control(self, octets=None):
        """Opens the control stream."""
        return self.send(number(CONTROL) + (frame(SETTINGS) if octets is None else octets), unidirectional=True)

    async def outcome(self, stream, patience=4.0):
        """What came of a request: the code that the connection or the stream ended with, or 0 for a response."""
        await self.until(lambda: self.end is not None or stream in self.resets or stream in self.ended, patience)
        if self.end is not None:
            return self.end
        return self.resets.get(stream, 0 if stream in self.ended else None)


def number(value):
    """A number of variable length (RFC 9000 section 16)."""
    return encode_uint_var(value)


def frame(kind, payload=b""):
    """A frame (RFC 9114 section 7.1)."""
    return number(kind) + number(len(payload)) + payload


def block(*more, method="GET", path=GET):
    """A field section without the dynamic table."""
    pseudo = [(":method", method), (":scheme", "https"), (":authority", f"{SERVER}:{PORTS['HTTPS']}"), (":path", path)]
    encoded = [(name.encode(), value.encode()) for name, value in pseudo + list(more)]
    return Encoder().encode(0, encoded)[1]


def request(*more, **words):
    """The headers of a request."""
    return frame(HEADERS, block(*more, **words))


# Case, what goes on the control stream, and the codes of which one ends the connection.
CONTROLS = [
    ("no settings first", frame(GOAWAY, number(0)), [MISSING_SETTINGS]),
    ("settings twice", frame(SETTINGS) + frame(SETTINGS), [FRAME_UNEXPECTED]),
    ("data on the control stream", frame(SETTINGS) + frame(DATA, b"x"), [FRAME_UNEXPECTED]),
    ("headers on the control stream", frame(SETTINGS) + request(), [FRAME_UNEXPECTED]),
    ("a frame of HTTP/2", frame(SETTINGS) + frame(6, b"12345678"), [FRAME_UNEXPECTED]),
    ("a setting of HTTP/2", frame(SETTINGS, number(2) + number(1)), [SETTINGS_ERROR]),
]

# Case, what goes on a request's stream, and the outcomes that are right; 0 is a response.
REQUESTS = [
    ("a request", request(), [0]),
    ("an unknown frame before it", frame(0x21, b"grease") + request() + frame(0x40, b"more"), [0]),
    ("data before headers", frame(DATA, b"x") + request(), [FRAME_UNEXPECTED]),
    ("settings on a request", frame(SETTINGS), [FRAME_UNEXPECTED]),
    ("a push promise", frame(PUSH_PROMISE, number(0) + block()), [FRAME_UNEXPECTED, ID_ERROR]),
    ("a frame of HTTP/2", frame(8, b"\0\0\0\1"), [FRAME_UNEXPECTED]),
    ("nothing", b"", [REQUEST_INCOMPLETE]),
    ("half a frame", request()[:-5], [FRAME_ERROR, REQUEST_INCOMPLETE]),
    ("fields that cannot be decoded", frame(HEADERS, b"\xff" * 20), [QPACK_DECOMPRESSION]),
    ("an entry of a table that is not there", frame(HEADERS, b"\x02\0\x80"), [QPACK_DECOMPRESSION]),
    ("no path", frame(HEADERS, Encoder().encode(0, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a")])[1]), [MESSAGE_ERROR, 0]),
    ("upper case in a name", request(("X-Upper", "1")), [MESSAGE_ERROR, 0]),
    ("a header of connections", request(("connection", "keep-alive")), [MESSAGE_ERROR, 0]),
    ("a length that is wrong", request(("content-type", "application/dns-message"), ("content-length", "5"), method="POST", path="/dns-query") + frame(DATA, b"x" * 40), [MESSAGE_ERROR, 0]),
    ("headers of 60 kB", request(*((f"x-{n}", "a" * 4000) for n in range(15))), [0, MESSAGE_ERROR, EXCESSIVE_LOAD, REQUEST_CANCELLED]),
]


async def rules(verdicts):
    """What RFC 9114 forbids (DOH-24)."""
    for case, octets, want in CONTROLS:
        async with quic(Talk) as one:
            one.control(octets)
            await one.until(lambda one=one: one.end is not None)
            verdicts.judge(f"DOH-24 {case}", one.end in want, one.end and hex(one.end))
    for case, octets, want in REQUESTS:
        async with quic(Talk) as one:
            one.control()
            stream = one.send(octets, end=True)
            outcome = await one.outcome(stream)
            right = outcome in want
            if outcome == 0 and want != [0]:
                # A response that refuses, not an answer.
                right &= WWW not in one.data.get(stream, b"")
            verdicts.judge(f"DOH-24 {case}", right, outcome and hex(outcome))
    async with quic(Talk) as one:
        one.control()
        one.control()
        await one.until(lambda: one.end is not None)
        verdicts.judge("DOH-24 two control streams", one.end == STREAM_CREATION, one.end)
    async with quic(Talk) as one:
        stream = one.control()
        one.send(b"", end=True, stream=stream)
        await one.until(lambda: one.end is not None)
        verdicts.judge("DOH-24 the control stream ends", one.end == CLOSED_CRITICAL, one.end)
    async with quic(Talk) as one:
        one.control()
        one.send(number(PUSH) + number(0), unidirectional=True)
        # The library that the gateway has for HTTP/3 passes it over (RFC 9114 section 6.2.2 would end the connection).
        outcome = await one.outcome(one.send(request(), end=True))
        verdicts.judge("DOH-24 a push stream of a client", outcome in (0, STREAM_CREATION), outcome)
    async with quic(Talk) as one:
        one.control()
        one.send(number(0x21) + b"unknown", unidirectional=True)
        verdicts.judge("DOH-24 an unknown stream is passed over", await one.outcome(one.send(request(), end=True)) == 0, one.end)
    async with quic(Talk) as one:
        one.control()
        stream = one.send(request(method="POST", path="/dns-query"))
        other = one.send(request(), end=True)
        verdicts.judge("DOH-24 a request without an end holds up no other", await one.outcome(other) == 0)
        ended = await one.outcome(stream, 20)
        verdicts.judge("SLOW-01 and does not stay for ever", ended is not None, ended)


async def settings(verdicts):
    """What the gateway grants (DOH-24)."""
    async with quic(Talk) as one:
        one.control()
        await one.outcome(one.send(request(), end=True))
        found = {}
        for data in one.data.values():
            if data[:2] == bytes([CONTROL, SETTINGS]):
                found = dict(pairs(data[3 : 3 + data[2]]))
        verdicts.judge("DOH-24 the size of headers is bounded", 0 < found.get(6, 1 << 62) <= 1 << 16, found)
        verdicts.judge("DOH-24 the dynamic table is small, streams that it blocks are few", found.get(1, 0) <= 4096 and found.get(7, 0) <= 100, found)


def pairs(octets):
    """Numbers of variable length by twos."""
    numbers = []
    while octets:
        size = 1 << (octets[0] >> 6)
        numbers.append(int.from_bytes(octets[:size], "big") & ((1 << (8 * size - 2)) - 1))
        octets = octets[size:]
    return zip(numbers[::2], numbers[1::2])


async def abuse(verdicts):
    """What makes work (Q-06)."""
    async with quic(Talk) as one:
        one.control()
        headers = request()
        for turn in range(4000):
            stream = one._quic.get_next_available_stream_id()
            one._quic.send_stream_data(stream, headers, False)
            one._quic.reset_stream(stream, REQUEST_CANCELLED)
            if turn % 50 == 0:
                one.transmit()
                await asyncio.sleep(0.005)
            if one.end is not None:
                break
        one.transmit()
        await one.until(lambda: one.end is not None)
        verdicts.judge("Q-06 who resets everything is sent away", one.end == EXCESSIVE_LOAD, one.end)
    floods = {
        "MAX_PUSH_ID": lambda n: frame(MAX_PUSH_ID, number(n)),
        "CANCEL_PUSH": lambda n: frame(CANCEL_PUSH, number(0)),
        "GOAWAY": lambda n: frame(GOAWAY, number(0)),
        "reserved frames": lambda n: frame(0x21 + 0x1F * (n % 7), b""),
    }
    for case, make in floods.items():
        async with quic(Talk) as one:
            stream = one.control()
            for turn in range(100):
                one.send(b"".join(make(turn * 100 + n) for n in range(100)), stream=stream)
                await asyncio.sleep(0.001)
                if one.end is not None:
                    break
            # Sent away or not, it has cost nothing that others would feel.
            outcome = one.end if one.end is not None else await one.outcome(one.send(request(), end=True))
            verdicts.judge(f"Q-06 ten thousand of {case}", outcome is not None, outcome and hex(outcome))
    async with quic(Talk) as one:
        one.control()
        stream = one.send(request(method="POST", path="/dns-query"))
        for _ in range(200):
            try:
                one.send(frame(DATA) * 100, stream=stream)
            except (RuntimeError, ValueError):
                # It was asked to stop, and has.
                break
            await asyncio.sleep(0.0005)
            if one.end is not None or stream in one.resets:
                break
        ended = await one.outcome(stream, 20)
        verdicts.judge("Q-06 twenty thousand empty frames of data", ended is not None, ended and hex(ended))
    async with quic(Talk) as one:
        one.control()
        # A table of 4 GiB, and an entry in one that is not there.
        one.send(number(QPACK_ENCODER) + b"\x3f" + b"\xff" * 4 + b"\x0f", unidirectional=True)
        # There is no table at all, and what is said of it is not read (RFC 9204 section 4.3.1 would end the connection).
        outcome = await one.outcome(one.send(request(), end=True))
        verdicts.judge("Q-06 a table larger than allowed", outcome in (0, QPACK_ENCODER_STREAM), outcome and hex(outcome))


async def run(verdicts):
    """Runs all."""
    for part in (rules, settings, abuse):
        await part(verdicts)


def main():
    """Runs all, and asks once more."""
    verdicts = Verdicts()
    asyncio.run(run(verdicts))
    response = ask("h3", "GET", GET)
    verdicts.judge("and a good query is still answered", response.status == 200 and Reply(response.body).answers() == [WWW])
    verdicts.end()


if __name__ == "__main__":
    main()
