"""Sends DNS messages with one peculiarity each, and judges the replies.

plain.py udp|tcp|tls
"""

import socket
import ssl
import struct
import sys
import time

from probe import ANY, CA, HERE, ID, OPT, PORTS, SERVER, TXT, WWW, Reply, Verdicts, header, labels, message, opt, option

FORMERR, NXDOMAIN, NOTIMP, REFUSED, NOTAUTH, BADVERS = 1, 3, 4, 5, 9, 16
SILENCE = None
PATIENCE = 0.5


def connect(transport):
    """A stream to the gateway."""
    port = PORTS["TLS" if transport == "tls" else "DNS"]
    stream = socket.create_connection((HERE, port), timeout=5)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if transport == "tls":
        context = ssl.create_default_context(cafile=CA)
        context.set_alpn_protocols(["dot"])
        stream = context.wrap_socket(stream, server_hostname=SERVER)
    return stream


def framed(octets):
    """A message with its length (RFC 1035 section 4.2.2)."""
    return struct.pack("!H", len(octets)) + octets


def exactly(stream, count):
    """So many octets, or what there was before the end."""
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            break
        data += part
    return data


def receive(stream, patience=5):
    """The next message of a stream; nothing at its end, or if there is none in time."""
    stream.settimeout(patience)
    try:
        length = exactly(stream, 2)
        return exactly(stream, struct.unpack("!H", length)[0]) if len(length) == 2 else None
    except (TimeoutError, OSError):
        return None


def closed(stream, patience):
    """Whether the other side closes in time."""
    stream.settimeout(patience)
    try:
        return stream.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def ask(transport, octets):
    """Sends a message and gives the reply's octets."""
    if transport != "udp":
        with connect(transport) as stream:
            stream.sendall(framed(octets))
            return receive(stream, PATIENCE if len(octets) < 13 or octets[2] & 0x80 else 5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((HERE, PORTS["DNS"]))
        sock.settimeout(PATIENCE)
        sock.send(octets)
        try:
            return sock.recv(65535)
        except TimeoutError:
            return None


LONGEST, LONGER = (b"".join(bytes([size]) + b"a" * size for size in (63, 63, 63, last)) + labels("example.test") for last in (48, 49))
LOOP = b"\x01a\xc0\x0c"

# Case, message, and the response codes of which one is right; silence is none.
CODES = [
    ("MSG-01 a response", message(flags=0x8100), [SILENCE]),
    ("MSG-02 eleven octets", header()[:11], [SILENCE]),
    ("MSG-02 a header that promises a question", header(), [FORMERR]),
    ("MSG-02 a name that ends too soon", header() + b"\x07examp", [FORMERR]),
    ("MSG-03 two questions", message(count=2, extra=labels("a.test") + b"\0\1\0\1"), [FORMERR]),
    ("MSG-03 no question", header(questions=0), [FORMERR]),
    ("MSG-04 a label of 64 octets", message(b"\x40" + b"a" * 64 + b"\0"), [FORMERR]),
    ("MSG-04 a label of the kind 0x80", message(b"\x80a\0"), [FORMERR]),
    ("MSG-04 a name of 256 octets", message(LONGER), [FORMERR]),
    ("MSG-04 a name of 255 octets", message(LONGEST), [NXDOMAIN]),
    ("MSG-04 a name far too long", message((b"\x3f" + b"a" * 63) * 5 + b"\0"), [FORMERR]),
    ("MSG-04 a pointer to itself", message(b"\xc0\x0c"), [FORMERR]),
    ("MSG-04 a pointer that loops", message(LOOP), [FORMERR]),
    ("MSG-04 a pointer forward", message(b"\xc0\x20"), [FORMERR]),
    ("MSG-06 zero in a label", message(b"\x03a\0b" + labels("example.test")), [NXDOMAIN]),
    ("MSG-06 a dot in a label", message(b"\x03a.b" + labels("example.test")), [NXDOMAIN]),
    ("MSG-06 an octet above 127", message(b"\x03a\xc4b" + labels("example.test")), [NXDOMAIN]),
    *((f"MSG-07 opcode {code}", message(flags=code << 11 | 0x01F0), [NOTIMP]) for code in (1, 2, 3, *range(6, 16))),
    # Plugins that make answers, as `template` of this gateway does, make one for NOTIFY too.
    ("NTF-01 NOTIFY from a stranger", message("example.test", 6, flags=4 << 11), [0, REFUSED, NOTAUTH, NOTIMP]),
    ("UPD-01 UPDATE", message("example.test", 6, flags=5 << 11), [REFUSED, NOTIMP]),
    ("MSG-09 an answer in the query", header(answers=1) + labels("www.example.test") + b"\0\1\0\1" + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\x09", [0, FORMERR]),
    ("MSG-10 octets behind the message", message(extra=b"\xff" * 8), [0]),
    ("MSG-11 a type that nobody knows", message(kind=65280), [0]),
    ("MSG-12 type 0", message(kind=0), [0, FORMERR, NOTIMP, REFUSED]),
    ("MSG-12 type OPT", message(kind=OPT), [0, FORMERR, NOTIMP, REFUSED]),
    ("MSG-12 type TSIG", message(kind=250), [0, FORMERR, NOTIMP, REFUSED]),
    *((f"MSG-13 class {klass}", message(klass=klass), [REFUSED]) for klass in (2, 4, 254, 255)),
    ("ID-01 version.bind", message("version.bind", TXT, 3), [REFUSED]),
    ("EDNS-02 two OPT records", message(extra=opt() + opt(), more=2), [FORMERR]),
    ("EDNS-02 an OPT record with an owner", message(extra=opt(owner=labels("a")), more=1), [FORMERR]),
    ("EDNS-03 version 1", message(extra=opt(version=1), more=1), [BADVERS]),
    ("EDNS-08 an option past the end", message(extra=opt(b"\0\x03\0\x09"), more=1), [FORMERR]),
    ("EDNS-08 half an option", message(extra=opt(b"\0\x03\0"), more=1), [FORMERR]),
    ("COOK-03 a cookie of seven octets", message(extra=opt(option(10, b"c" * 7)), more=1), [0, FORMERR]),
]


def codes(transport, verdicts):
    """Every case of the table."""
    for case, octets, want in CODES:
        raw = ask(transport, octets)
        if raw is None:
            verdicts.judge(case, SILENCE in want, "silence")
            continue
        reply = Reply(raw)
        right = reply.rcode in want and reply.ident == ID and "qr" in reply.bits
        right &= reply.opcode == octets[2] >> 3 & 15 and ("rd" in reply.bits) == bool(octets[2] & 1)
        right &= "z" not in reply.bits and "tc" not in reply.bits
        if reply.rcode == NOTIMP:
            right &= not {"aa", "ra", "ad", "cd"} & reply.bits
        if reply.rcode in (0, NXDOMAIN):
            right &= octets[12:].startswith(reply.question) and reply.counts[0] == 1
        verdicts.judge(case, right, f"rcode {reply.rcode} {sorted(reply.bits)} {reply.counts}")


def details(transport, verdicts):
    """What is in a reply besides its code."""

    def look(case, octets, right):
        raw = ask(transport, octets)
        reply = raw and Reply(raw)
        verdicts.judge(case, reply is not None and right(reply), raw and f"{len(raw)} octets, rcode {reply.rcode}, options {reply.options}")

    stream, encrypted = transport != "udp", transport == "tls"
    mixed = message("wWw.ExAmPlE.TeSt")
    look("MSG-05 letter case comes back", mixed, lambda r: r.question == mixed[12:] and r.answers() == [WWW])
    look("MSG-08 Z, AD and CD", message(flags=0x0170), lambda r: "z" not in r.bits and r.answers() == [WWW])
    look("EDNS-01 no OPT without one", message(), lambda r: r.opts == 0 and r.answers() == [WWW])
    look("EDNS-01 an OPT for one", message(extra=opt(), more=1), lambda r: r.opts == 1 and r.version == 0)
    look("EDNS-03 BADVERS is empty", message(extra=opt(version=9), more=1), lambda r: r.rcode == BADVERS and r.version == 0 and not r.records and r.opts == 1)
    unknown = option(65001, b"abc") + option(65002)
    look("EDNS-04 unknown options are not echoed", message(extra=opt(unknown), more=1), lambda r: not {65001, 65002} & set(r.options) and r.answers() == [WWW])
    look("EDNS-04 unknown flags are cleared, DO comes back", message(extra=opt(flags=0xFFFF), more=1), lambda r: r.edns_flags == 0x8000)
    look("EDNS-05 a size below 512", message(extra=opt(size=100), more=1), lambda r: r.answers() == [WWW])
    serial = b"\xc0\x0c\0\6\0\1\0\0\0\0\0\x16\0\0" + b"\0" * 20
    look("XFR-02 AXFR gives no zone away", message("example.test", 252), lambda r: not r.counts[1])
    look("XFR-01 IXFR gives no zone away", header(authorities=1) + labels("example.test") + b"\0\xfb\0\1" + serial, lambda r: not r.counts[1])
    for size in (0, 512, 1232, 4096, 65535):
        words = {"extra": opt(size=size), "more": 1} if size else {}
        big = message("big.example.test", TXT, **words)
        if stream:
            look(f"EDNS-09 a size of {size} does not bind a stream", big, lambda r: len(r.answers(TXT)) == 2 and "tc" not in r.bits)
        else:
            most = min(max(size, 512), 1232)
            look(f"EDNS-06 a size of {size} cuts the reply", big, lambda r, most=most: len(r.octets) <= most and "tc" in r.bits)
    keepalive = message(extra=opt(option(11)), more=1)
    if stream:
        look("KEEP-02 the time that an idle connection has", keepalive, lambda r: len(r.options.get(11, b"")) == 2)
    else:
        look("KEEP-01 no keepalive over UDP", keepalive, lambda r: 11 not in r.options)
    look("KEEP-03 a client's time is not taken", message(extra=opt(option(11, b"\x12\x34")), more=1), lambda r: r.options.get(11) != b"\x12\x34")
    padded = message(extra=opt(option(12, b"\0" * 20)), more=1)
    if encrypted:
        look("PAD-01 PAD-02 padded for padding", padded, lambda r: 12 in r.options and len(r.octets) % 468 == 0 and not any(r.options[12]))
        look("PAD-03 not padded without OPT", message(), lambda r: r.opts == 0)
    else:
        look("PAD-03 no padding in clear", padded, lambda r: 12 not in r.options)
    look("NSID-01 no name unless there is one", message(extra=opt(option(3)), more=1), lambda r: 3 not in r.options)
    subnet = option(8, b"\0\1\x18\0\xc6\x33\x64")
    look("ECS-01 no subnet, or the scope 0", message(extra=opt(subnet), more=1), lambda r: r.options.get(8, b"\0\0\0\0")[3] == 0)
    strange = b"".join(option(code) for code in (2, 9, 13, 14, 18))
    look("EXP-01 options of others are ignored", message(extra=opt(strange), more=1), lambda r: not r.options and r.answers() == [WWW])
    cookie = b"\1\2\3\4\5\6\7\x08"
    look("COOK-02 a client's cookie is not echoed bare", message(extra=opt(option(10, cookie)), more=1), lambda r: r.options.get(10) != cookie and r.answers() == [WWW])
    refused = "www.elsewhere.invalid"
    look("EDE-R1 no extended error without OPT", message(refused), lambda r: r.opts == 0 and r.rcode != 0)
    look("EDE-R3 an extended error is UTF-8 without NUL", message(refused, extra=opt(), more=1), lambda r: r.rcode != 0 and b"\0" not in r.options.get(15, b"  ")[2:].decode().encode())
    query = message(kind=ANY)
    look("ANY-01 UDP-01 ANY does not amplify", query, lambda r: len(r.octets) < 4 * len(query))


def streams(transport, verdicts):
    """What only streams have."""
    with connect(transport) as stream:
        stream.sendall(b"".join(framed(message(f"q{n}.load.test", ident=n)) for n in range(50)))
        seen = {Reply(receive(stream)).ident for _ in range(50)}
        verdicts.judge("TCP-02 fifty at once", seen == set(range(50)), len(seen))
        for octet in framed(message()):
            stream.sendall(bytes([octet]))
            time.sleep(0.001)
        verdicts.judge("TCP-03 octet by octet", Reply(receive(stream)).answers() == [WWW])
        stream.sendall(framed(message("q1.load.test")) + framed(message()))
        both = [Reply(receive(stream)).question for _ in range(2)]
        verdicts.judge("TCP-11 one ID twice", len(set(both)) == 2)
    if transport == "tcp":
        with connect(transport) as stream:
            stream.sendall(b"".join(framed(message(ident=n)) for n in range(10)))
            stream.shutdown(socket.SHUT_WR)
            seen = [receive(stream) for _ in range(10)]
            verdicts.judge("TCP-07 half-closed", all(seen) and closed(stream, 3))
    for case, octets in (("length 0", b"\0\0"), ("length 3", b"\0\3abc"), ("garbage", b"GET / HTTP/1.1\r\n\r\n")):
        with connect(transport) as stream:
            stream.sendall(octets)
            begin = time.monotonic()
            verdicts.judge(f"TCP-10 {case}", closed(stream, 15), f"{time.monotonic() - begin:.1f} s")
    if transport == "tls":
        with socket.create_connection((HERE, PORTS["TLS"]), timeout=5) as stream:
            stream.sendall(framed(message()))
            # An alert at most, in a record of its kind (RFC 8446 section 5.1).
            got = exactly(stream, 100)
            verdicts.judge("DOT-01 no clear text", got[:1] in (b"", b"\x15"), got)


def main(transport):
    """Runs all that is for a transport."""
    verdicts = Verdicts()
    codes(transport, verdicts)
    details(transport, verdicts)
    if transport != "udp":
        streams(transport, verdicts)
    verdicts.judge("and a good query is still answered", Reply(ask(transport, message())).answers() == [WWW])
    verdicts.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
