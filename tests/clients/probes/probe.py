"""What the probes share: messages octet by octet, and a list of verdicts."""

import os
import struct
import sys

HERE = "127.0.0.1"
CA, SERVER = os.environ.get("CA", ""), os.environ.get("NAME", "")
PORTS = {key: int(os.environ.get(key, "0")) for key in ("DNS", "TLS", "HTTPS", "GRPC")}
ID = 0x1234
OPT, ANY, A, TXT = 41, 255, 1, 16


def labels(name):
    """A name on the wire, from text without escapes."""
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def opt(options=b"", size=1232, version=0, flags=0, owner=b"\0"):
    """An OPT record (RFC 6891 section 6.1.2)."""
    return owner + struct.pack("!HHBBHH", OPT, size, 0, version, flags, len(options)) + options


def option(code, data=b""):
    """An EDNS option."""
    return struct.pack("!HH", code, len(data)) + data


def message(name="www.example.test", kind=A, klass=1, flags=0x0100, extra=b"", more=0, ident=ID, count=1):
    """A query; `extra` follows the question and holds `more` additional records."""
    raw = name if isinstance(name, bytes) else labels(name)
    return header(flags, count, 0, 0, more, ident) + raw + struct.pack("!HH", kind, klass) + extra


def header(flags=0x0100, questions=1, answers=0, authorities=0, additionals=0, ident=ID):
    """A message's header."""
    return struct.pack("!6H", ident, flags, questions, answers, authorities, additionals)


class Reply:
    """A reply, taken apart by hand; a malformed one raises."""

    def __init__(self, octets):
        self.octets = octets
        self.ident, flags, *self.counts = struct.unpack("!6H", octets[:12])
        self.flags = flags
        self.opcode = flags >> 11 & 15
        self.rcode = flags & 15
        self.bits = {name for name, bit in BITS.items() if flags & bit}
        self.options, self.opts, self.size, self.version, self.edns_flags = {}, 0, None, None, None
        at = 12
        begin = at
        for _ in range(self.counts[0]):
            at = self.skip(at) + 4
        self.question = octets[begin:at]
        self.records = []
        for section in (1, 2, 3):
            for _ in range(self.counts[section]):
                at = self.record(at, section)
        if at != len(octets):
            raise ValueError(f"{len(octets) - at} octets behind the message")

    def skip(self, at):
        """The place behind a name."""
        while True:
            length = self.octets[at]
            if length >= 0xC0:
                if (length & 0x3F) << 8 | self.octets[at + 1] >= at:
                    raise ValueError("a pointer that does not point back")
                return at + 2
            at += 1 + length
            if not length:
                return at

    def record(self, at, section):
        """Reads a record and gives the place behind it."""
        at = self.skip(at)
        kind, klass, ttl, length = struct.unpack("!HHIH", self.octets[at : at + 10])
        data = self.octets[at + 10 : at + 10 + length]
        if len(data) != length:
            raise ValueError("a record that ends too soon")
        if kind == OPT:
            self.opts += 1
            self.rcode |= ttl >> 24 << 4
            self.size, self.version, self.edns_flags = klass, ttl >> 16 & 255, ttl & 0xFFFF
            while data:
                code, size = struct.unpack("!HH", data[:4])
                self.options[code], data = data[4 : 4 + size], data[4 + size :]
        else:
            self.records.append((section, kind, klass, ttl, data))
        return at + 10 + length

    def answers(self, kind=A):
        """The data of the answer section's records of a type."""
        return [data for section, rtype, _, _, data in self.records if section == 1 and rtype == kind]


BITS = {"qr": 0x8000, "aa": 0x0400, "tc": 0x0200, "rd": 0x0100, "ra": 0x0080, "z": 0x0040, "ad": 0x0020, "cd": 0x0010}
WWW = bytes([127, 0, 0, 80])


class Verdicts:
    """Counts what was right and says what was not."""

    def __init__(self):
        self.good = self.bad = 0

    def judge(self, case, right, seen=""):
        """Notes one case."""
        if right:
            self.good += 1
        else:
            self.bad += 1
        print("ok " if right else "BAD", case, seen, flush=True)

    def end(self):
        """Says the sums, and ends with a status that tells whether all was right."""
        print(f"{self.good} right, {self.bad} wrong")
        sys.exit(1 if self.bad or not self.good else 0)
