"""Does to HTTP/2 what attackers do, within bounds, and judges: who only makes work is sent away, and others are served on.

h2abuse.py [CASE...]
"""

import select
import socket
import struct
import sys
import time

from hpack import Encoder

from probe import HERE, PORTS, SERVER, WWW, Reply, Verdicts, message
from web import ask, tls

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
GET = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlBHRlc3QAAAEAAQ"
QUERY = message(ident=0)


def frame(kind, flags=0, stream=0, payload=b""):
    """A frame (RFC 9113 section 4.1)."""
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


class Attack:
    """A connection whose frames are made by hand."""

    def __init__(self, settings=b""):
        self.stream = tls("h2")
        self.stream.setblocking(False)
        self.encoder = Encoder()
        self.encoder.header_table_size = 4096
        self.seen, self.rest, self.gone, self.code = {}, b"", False, None
        self.resets, self.statuses = {}, {}
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def send(self, octets, patience=5, read=True):
        """Sends, and reads meanwhile; says whether the other side still takes it."""
        end = time.monotonic() + patience
        while octets and not self.gone:
            try:
                octets = octets[self.stream.send(octets) :]
            except (BlockingIOError, OSError) as error:
                if "Want" in type(error).__name__ or isinstance(error, BlockingIOError):
                    select.select([self.stream], [self.stream], [], 0.05)
                else:
                    self.gone = True
            if read:
                self.read()
            if time.monotonic() > end:
                return False
        return not self.gone

    def read(self):
        """Takes what has come."""
        while not self.gone:
            try:
                data = self.stream.recv(1 << 16)
            except OSError as error:
                if "Want" not in type(error).__name__ and not isinstance(error, BlockingIOError):
                    self.gone = True
                return
            if not data:
                self.gone = True
                return
            self.rest += data
            while len(self.rest) >= 9:
                length = int.from_bytes(self.rest[:3], "big")
                if len(self.rest) < 9 + length:
                    break
                kind, stream = self.rest[3], int.from_bytes(self.rest[5:9], "big") & 0x7FFFFFFF
                payload, self.rest = self.rest[9 : 9 + length], self.rest[9 + length :]
                self.seen[kind] = self.seen.get(kind, 0) + 1
                if kind == GOAWAY:
                    self.code = int.from_bytes(payload[4:8], "big")
                elif kind == RST_STREAM:
                    self.resets[stream] = int.from_bytes(payload, "big")
                elif kind == HEADERS:
                    self.statuses[stream] = payload[:1]

    def wait(self, look, patience=5.0):
        """Waits until something is so; says whether it came."""
        end = time.monotonic() + patience
        while not look() and time.monotonic() < end and not self.gone:
            select.select([self.stream], [], [], 0.05)
            self.read()
        self.read()
        return look()

    def over(self, patience=5.0):
        """Whether the connection is ended in time."""
        return self.wait(lambda: self.gone or self.code is not None, patience)

    def block(self, method="GET", path=GET, *more):
        """A header block."""
        pseudo = [(":method", method), (":scheme", "https"), (":authority", SERVER), (":path", path)]
        return self.encoder.encode(pseudo + list(more))

    def get(self, stream, flags=END_STREAM | END_HEADERS):
        """A request by GET."""
        return frame(HEADERS, flags, stream, self.block())

    def post(self, stream, *more):
        """The headers of a request by POST."""
        return frame(HEADERS, END_HEADERS, stream, self.block("POST", "/dns-query", ("content-type", "application/dns-message"), *more))


def streams(count):
    """The numbers of a client's streams."""
    return range(1, 2 * count, 2)


def rapid_reset():
    """CVE-2023-44487 (H2-01)."""
    one = Attack()
    for stream in streams(4000):
        if not one.send(one.get(stream) + frame(RST_STREAM, 0, stream, struct.pack("!I", 8))):
            break
    return one.over(), one


def made_you_reset():
    """CVE-2025-8671: a window of zero makes the server reset the stream (H2-02)."""
    one = Attack()
    for stream in streams(4000):
        if not one.send(one.post(stream) + frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", 0))):
            break
    return one.over(), one


def continuation_flood():
    """Headers without an end (H2-03)."""
    one = Attack()
    one.send(frame(HEADERS, END_STREAM, 1, one.block()))
    for number in range(1000):
        block = Encoder().encode([(f"x-{number}", "a" * 1000)])
        if not one.send(frame(CONTINUATION, 0, 1, block)):
            break
    return one.over(), one


def continuation_empty():
    """Headers without an end whose pieces are empty (H2-03)."""
    one = Attack()
    one.send(frame(HEADERS, END_STREAM, 1, one.block()))
    for _ in range(200):
        if not one.send(frame(CONTINUATION, 0, 1) * 100):
            break
    return one.over(), one


def empty_data():
    """Frames of data without data (H2-04)."""
    one = Attack()
    one.send(one.post(1))
    for _ in range(200):
        if not one.send(frame(DATA, 0, 1) * 100):
            break
    return one.over(), one


def flood(kind, payload, count=20000):
    """A frame that wants an answer, again and again, without reading the answers (H2-05)."""
    one = Attack()
    for _ in range(count // 100):
        if not one.send(frame(kind, 0, 0, payload) * 100, 2, read=False):
            break
    return one.over(15), one


def priority_flood():
    """Priorities of streams that do not exist; harmless, but a good client's next request is answered (H2-05)."""
    one = Attack()
    for stream in streams(10000):
        if not one.send(frame(PRIORITY, 0, stream, struct.pack("!IB", 0, 16))):
            break
    one.send(one.get(20001))
    return one.wait(lambda: 20001 in one.statuses or one.gone or one.code is not None), one


def window_updates():
    """Windows opened octet by octet (H2-05)."""
    one = Attack()
    for _ in range(200):
        if not one.send(frame(WINDOW_UPDATE, 0, 0, struct.pack("!I", 1)) * 100):
            break
    one.send(one.get(1))
    return one.wait(lambda: 1 in one.statuses or one.gone or one.code is not None), one


def zero_window():
    """Many requests, and no room for their answers (H2-05)."""
    one = Attack(struct.pack("!HI", 4, 0))
    for stream in streams(500):
        if not one.send(one.get(stream)):
            break
    return one.over(40), one


def hpack_bomb():
    """A field of 4 kB in the table, referred to again and again (H2-06)."""
    one = Attack()
    one.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, one.block("GET", GET, ("x-bomb", "a" * 3900))))
    # The newest entry of the dynamic table has index 62 (RFC 7541 section 2.3.3).
    bomb = one.block() + bytes([0x80 | 62]) * 16000
    for stream in streams(50)[1:]:
        if not one.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, bomb)):
            break
    done = one.wait(lambda: one.gone or one.code is not None or len(one.resets) + len(one.statuses) >= 50)
    # 0x88 is the status 200 in the static table.
    return done and all(code != b"\x88" for stream, code in one.statuses.items() if stream != 1), one


def large_headers():
    """A request with 9 kB of headers, then one with 64 kB (H2-06)."""
    one = Attack()
    one.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, one.block("GET", GET, ("x-a", "b" * 9000))))
    answered = one.wait(lambda: one.statuses.get(1) == b"\x88")
    block = one.block("GET", GET, *((f"x-{n}", "c" * 4000) for n in range(16)))
    parts = [block[at : at + 16000] for at in range(0, len(block), 16000)]
    one.send(frame(HEADERS, END_STREAM, 3, parts[0]))
    for part in parts[1:]:
        one.send(frame(CONTINUATION, END_HEADERS if part is parts[-1] else 0, 3, part))
    refused = one.wait(lambda: 3 in one.statuses or 3 in one.resets or one.gone or one.code is not None)
    return answered and refused and one.statuses.get(3) != b"\x88", one


def open_posts():
    """Requests whose bodies never come: those beyond the limit are refused, the others end (H2-07)."""
    one = Attack()
    # Waits for the server's settings, which state the limit.
    one.wait(lambda: SETTINGS in one.seen)
    for stream in streams(1500):
        if not one.send(one.post(stream)):
            break
    refused = one.wait(lambda: 7 in one.resets.values() or one.gone or one.code is not None, 5)
    ended = one.wait(lambda: one.gone or one.code is not None or len(one.resets) + len(one.statuses) >= 1500, 30)
    return refused and ended, one


FIELDS = [
    ("upper case in a name", ("X-Upper", "1")),
    ("connection", ("connection", "keep-alive")),
    ("transfer-encoding", ("transfer-encoding", "chunked")),
    ("te other than trailers", ("te", "gzip")),
    ("a line break in a value", ("x-a", "b\r\nc: d")),
    ("NUL in a value", ("x-a", "b\0c")),
    ("a length that is wrong", ("content-length", "3")),
    ("a second path", (":path", "/other")),
    ("a pseudo-header nobody knows", (":proto", "x")),
]


def malformed():
    """Fields that HTTP/2 forbids (SMUG-02): the stream ends without an answer, or with a refusal."""
    wrong = []
    for case, field in FIELDS:
        one = Attack()
        one.encoder.encode([])
        one.send(one.post(1, field) + frame(DATA, END_STREAM, 1, QUERY))
        one.wait(lambda: 1 in one.resets or 1 in one.statuses or one.gone or one.code is not None)
        # 0x88 is the status 200 in the static table.
        if not (1 in one.resets or one.gone or one.code is not None) and one.statuses.get(1) in (None, b"\x88"):
            wrong.append(case)
        one.stream.close()
    one.code = wrong
    return not wrong, one


def clear_text():
    """HTTP/2 without TLS at the port of TLS (DOH-20)."""
    with socket.create_connection((HERE, PORTS["HTTPS"]), timeout=10) as stream:
        stream.sendall(PREFACE + frame(SETTINGS))
        try:
            data = stream.recv(100)
        except OSError:
            data = b""
    # Nothing, or an alert of TLS.
    return data[:1] in (b"", b"\x15"), None


CASES = {
    "H2-01 rapid reset": rapid_reset,
    "H2-02 made you reset": made_you_reset,
    "H2-03 continuation flood": continuation_flood,
    "H2-03 empty continuations": continuation_empty,
    "H2-04 empty data": empty_data,
    "H2-05 settings flood": lambda: flood(SETTINGS, struct.pack("!HI", 3, 100)),
    "H2-05 ping flood": lambda: flood(PING, b"12345678"),
    "H2-05 priority flood": priority_flood,
    "H2-05 window updates": window_updates,
    "H2-05 no window": zero_window,
    "H2-06 header bomb": hpack_bomb,
    "H2-06 large headers": large_headers,
    "H2-07 open posts": open_posts,
    "SMUG-02 malformed fields": malformed,
    "DOH-20 in clear": clear_text,
}


def main(*names):
    """Runs the cases, all without names."""
    verdicts = Verdicts()
    for case, attack in CASES.items():
        if names and not any(name in case for name in names):
            continue
        begin = time.monotonic()
        right, one = attack()
        seen = one and f"code {one.code}, closed {one.gone}, frames {one.seen}, {len(one.resets)} resets"
        verdicts.judge(case, right, f"{time.monotonic() - begin:.1f} s: {seen}")
        if one:
            one.stream.close()
        response = ask("h2", "GET", GET)
        verdicts.judge("H2-08 a good client is served after it", response.status == 200 and Reply(response.body).answers() == [WWW])
    verdicts.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
