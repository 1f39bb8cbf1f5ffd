"""Asks by DNS over HTTPS in every way that RFC 8484 knows or forbids, and judges status, headers and answer.

doh.py h1|h2|h3
"""

import base64
import re
import socket
import sys

from probe import PORTS, SERVER, TXT, WWW, Reply, Verdicts, message, opt, option
from web import ask, tls

PATH = "/dns-query"
MEDIA = "application/dns-message"
POST = {"content-type": MEDIA, "accept": MEDIA}
GET = {"accept": MEDIA}


def text(octets):
    """A message as GET carries it."""
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def question(name="www.example.test", kind=1, **more):
    """A query with ID 0."""
    return message(name, kind, ident=0, **more)


WHOLE = question()
# A query whose encoding has a letter of each alphabet: option 65001 with 0xFB 0xFF.
ODD = question(extra=opt(option(65001, b"\xfb\xef\xbe\xff\xff\xff\xff")), more=1)


def statuses(version, verdicts):
    """Requests, and the statuses of which one is right."""
    std = base64.b64encode(ODD).rstrip(b"=").decode()
    padded = base64.urlsafe_b64encode(WHOLE + b"\0").decode()
    assert re.search("[+/]", std) and padded.endswith("=")
    get = f"{PATH}?dns={text(WHOLE)}"
    table = [
        ("DOH-02 other parameters before", "GET", f"{PATH}?ct&x=1&dns={text(WHOLE)}", GET, None, [200]),
        ("DOH-02 other parameters behind", "GET", f"{get}&ct=application/dns-message&y", GET, None, [200]),
        ("DOH-02 no parameter", "GET", PATH, GET, None, [400]),
        ("DOH-02 an empty parameter", "GET", f"{PATH}?dns=", GET, None, [400]),
        ("DOH-02 no base64url", "GET", f"{PATH}?dns=!!!!", GET, None, [400]),
        ("DOH-02 the parameter twice", "GET", f"{get}&dns={text(WHOLE)}", GET, None, [400]),
        ("DOH-03 with padding", "GET", f"{PATH}?dns={padded}", GET, None, [400]),
        ("DOH-03 the standard alphabet", "GET", f"{PATH}?dns={std}", GET, None, [400]),
        ("DOH-03 the alphabet for URLs", "GET", f"{PATH}?dns={text(ODD)}", GET, None, [200]),
        ("DOH-04 letter case of the media type", "POST", PATH, {"content-type": "Application/DNS-Message"}, WHOLE, [200]),
        ("DOH-04 a media type with a parameter", "POST", PATH, {"content-type": f"{MEDIA}; x=1"}, WHOLE, [200]),
        ("DOH-04 another media type", "POST", PATH, {"content-type": "text/plain"}, WHOLE, [415]),
        ("DOH-04 no media type", "POST", PATH, {}, WHOLE, [415]),
        ("DOH-05 no Accept", "GET", get, {}, None, [200]),
        ("DOH-05 Accept anything", "GET", get, {"accept": "*/*"}, None, [200]),
        ("DOH-05 Accept something else", "GET", get, {"accept": "text/html"}, None, [200, 406]),
        ("DOH-06 PUT", "PUT", PATH, POST, WHOLE, [405]),
        ("DOH-06 DELETE", "DELETE", PATH, {}, None, [405]),
        ("DOH-06 TRACE", "TRACE", PATH, {}, None, [405]),
        ("DOH-06 a method nobody knows", "BREW", PATH, {}, None, [405, 501]),
        ("DOH-06 OPTIONS", "OPTIONS", PATH, {}, None, [200, 204, 405]),
        ("DOH-07 a body of 70,000 octets", "POST", PATH, POST, WHOLE + bytes(70000), [413]),
        ("DOH-07 a body of eleven octets", "POST", PATH, POST, WHOLE[:11], [400]),
        ("DOH-07 an empty body", "POST", PATH, POST, b"", [400]),
        ("DOH-07 a message of eleven octets", "GET", f"{PATH}?dns={text(WHOLE[:11])}", GET, None, [400]),
        ("DOH-07 a target of 12 kB", "GET", f"{PATH}?dns={text(WHOLE)}&x={'a' * 12000}", GET, None, [414, 431]),
        ("DOH-07 headers of 40 kB", "GET", get, {f"x-{n}": "a" * 4000 for n in range(10)}, None, [431, 0]),
        ("MSG-01 a response", "POST", PATH, POST, question(flags=0x8100), [400]),
        ("DOH-11 another path", "GET", f"/other?dns={text(WHOLE)}", GET, None, [404]),
        ("DOH-11 the root", "GET", f"/?dns={text(WHOLE)}", GET, None, [404]),
        ("DOH-11 a slash more", "GET", f"{PATH}/?dns={text(WHOLE)}", GET, None, [404]),
        ("DOH-11 letter case of the path", "GET", f"/DNS-Query?dns={text(WHOLE)}", GET, None, [404]),
        ("DOH-11 a path with dots", "GET", f"/x/..{PATH}?dns={text(WHOLE)}", GET, None, [404]),
    ]
    for case, method, path, headers, body, want in table:
        response = ask(version, method, path, headers, body)
        right = response.status in want
        if response.status == 405:
            right &= {"GET", "POST"} <= set(response.headers.get("allow", "").replace(" ", "").split(","))
        if response.status == 200 and method in ("GET", "POST"):
            right &= Reply(response.body).answers() == [WWW]
        if response.status == 404:
            right &= b"dns-query" not in response.body
        verdicts.judge(case, right, f"{response.status} {response.body[:80] if response.status != 200 else ''}")


def post(version, octets):
    """Asks by POST."""
    return ask(version, "POST", PATH, POST, octets)


def age(response):
    """How long a response may be kept; nothing if it may not."""
    control = response.headers.get("cache-control", "")
    if "no-store" in control:
        return None
    return int(re.search(r"max-age=(\d+)", control)[1]) if "max-age" in control else -1


def answers(version, verdicts):
    """What is in the responses."""
    responses = [ask(version, "GET", f"{PATH}?dns={text(WHOLE)}", GET), post(version, WHOLE)]
    verdicts.judge("DOH-01 GET and POST say the same", all(r.status == 200 for r in responses) and responses[0].body == responses[1].body)
    one = responses[0]
    verdicts.judge("DOH-15 media type and length", one.headers.get("content-type") == MEDIA and int(one.headers.get("content-length", 0)) == len(one.body), one.headers)
    verdicts.judge("DOH-15 nothing that tells more", not {"set-cookie", "server", "etag", "x-powered-by"} & set(one.headers))
    verdicts.judge("DOH-22 no other site may ask", "access-control-allow-origin" not in one.headers)
    verdicts.judge("DOH-09 kept as long as the TTL", age(one) == 300, one.headers.get("cache-control"))
    gone = post(version, question("x.gone.test"))
    verdicts.judge("DOH-08 NXDOMAIN is 200", gone.status == 200 and Reply(gone.body).rcode == 3)
    verdicts.judge("DOH-09 a denial is kept as long as its SOA says", age(gone) in range(0, 61), gone.headers.get("cache-control"))
    refused = post(version, question("www.elsewhere.invalid"))
    verdicts.judge("DOH-08 a failure is 200", refused.status == 200 and Reply(refused.body).rcode in (2, 5), refused.status)
    verdicts.judge("DOH-09 a failure is not kept", age(refused) in (None, 0), refused.headers.get("cache-control"))
    for ident in (0, 0x1234):
        response = post(version, message(ident=ident))
        verdicts.judge(f"DOH-13 the ID {ident} comes back", response.status == 200 and Reply(response.body).ident == ident)
    large = post(version, question("big.example.test", TXT, extra=opt(size=512), more=1))
    reply = Reply(large.body)
    verdicts.judge("DOH-14 EDNS-09 a large reply is whole", len(reply.answers(TXT)) == 2 and "tc" not in reply.bits, len(large.body))
    transfer = post(version, question("example.test", 252))
    verdicts.judge("DOH-12 AXFR gives no zone away", transfer.status in (200, 400) and (transfer.status == 400 or not Reply(transfer.body).counts[1]))
    padded = Reply(post(version, question(extra=opt(option(12, bytes(40))), more=1)).body)
    verdicts.judge("PAD-01 PAD-02 padded for padding", 12 in padded.options and len(padded.octets) % 468 == 0, len(padded.octets))
    keepalive = Reply(post(version, question(extra=opt(option(11)), more=1)).body)
    verdicts.judge("KEEP-04 no keepalive of TCP", 11 not in keepalive.options)
    unreadable = post(version, question()[:20])
    verdicts.judge("DOH-07 half a message", unreadable.status == 400 or (unreadable.status == 200 and Reply(unreadable.body).rcode == 1), unreadable.status)
    if version == "h3":
        # aioquic takes a length without a body for a fault; tests/clients/python/web.py asks in this way.
        return
    head = ask(version, "HEAD", f"{PATH}?dns={text(WHOLE)}", GET)
    verdicts.judge("DOH-06 HEAD is GET without its body", head.status == 200 and not head.body and head.headers.get("content-length") == one.headers.get("content-length"), head.headers)
    verdicts.judge("DOH-16 HTTP/3 is told of", f'h3=":{PORTS["HTTPS"]}"' in one.headers.get("alt-svc", ""), one.headers.get("alt-svc"))


def raw(octets, patience=3):
    """Sends octets as HTTP/1.1 and gives all that comes back, and whether the connection was closed."""
    with tls("http/1.1") as stream:
        stream.settimeout(patience)
        data = b""
        try:
            stream.sendall(octets)
            while part := stream.recv(65536):
                data += part
        except (TimeoutError, socket.timeout):
            return data, False
        except OSError:
            pass
        return data, True


def smuggling(verdicts):
    """Requests that two parsers could read in two ways (DOH-19, SMUG-01): refused, and the connection with them."""
    host, kind = f"Host: {SERVER}\r\n", f"Content-Type: {MEDIA}\r\n"
    chunked = f"{len(WHOLE):x}\r\n".encode() + WHOLE + b"\r\n0\r\n\r\n"
    second = f"GET /second HTTP/1.1\r\n{host}\r\n".encode()
    length = f"Content-Length: {len(WHOLE)}\r\n"

    def begin(*headers, line=f"POST {PATH} HTTP/1.1"):
        return "".join([f"{line}\r\n", host, *headers, "\r\n"]).encode()

    bad = [
        ("CL.TE", begin(kind, "Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n") + chunked + second),
        ("TE.CL", begin(kind, "Transfer-Encoding: chunked\r\n", length) + chunked + second),
        ("TE.TE", begin(kind, "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n") + chunked + second),
        ("TE unknown", begin(kind, "Transfer-Encoding: xchunked\r\n") + chunked + second),
        ("two lengths", begin(kind, length, "Content-Length: 3\r\n") + WHOLE + second),
        ("a length with a sign", begin(kind, f"Content-Length: +{len(WHOLE)}\r\n") + WHOLE + second),
        ("a length that is none", begin(kind, "Content-Length: 0x10\r\n") + WHOLE + second),
        ("a folded line", begin(kind, length, "X-A: b\r\n c\r\n") + WHOLE + second),
        ("a space before the colon", begin(kind, f"Content-Length : {len(WHOLE)}\r\n") + WHOLE + second),
        ("a space in a name", begin(kind, length, "X A: b\r\n") + WHOLE + second),
        ("NUL in a value", begin(kind, length, "X-A: b\0c\r\n") + WHOLE + second),
        ("a chunk with a bad size", begin(kind, "Transfer-Encoding: chunked\r\n") + b"zz\r\n" + second),
        ("two hosts", begin(f"Host: other.test\r\n", kind, length) + WHOLE + second),
        ("no host", f"GET {PATH}?dns={text(WHOLE)} HTTP/1.1\r\n\r\n".encode() + second),
        ("no version", f"GET {PATH}?dns={text(WHOLE)}\r\n\r\n".encode() + second),
        ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)),
    ]
    for case, octets in bad:
        data, closed = raw(octets)
        # One response at most, which is no answer, and none to what came behind.
        right = closed and data.count(b"HTTP/1.1 ") <= 1 and (not data or b" 4" in data[:13] or b" 5" in data[:13])
        verdicts.judge(f"SMUG-01 {case}", right, f"{data[:40]} closed={closed}")
    data, _ = raw(begin(kind, "Transfer-Encoding: chunked\r\n", "Connection: close\r\n") + chunked)
    verdicts.judge("DOH-19 a chunked body", data.startswith(b"HTTP/1.1 200") and data.endswith(WWW), data[:40])
    get = f"GET {PATH}?dns={text(WHOLE)} HTTP/1.1"
    data, closed = raw(begin(line=get) + begin(line=get) + begin("Connection: close\r\n", line=get))
    verdicts.judge("DOH-19 three requests in a row", data.count(b"HTTP/1.1 200") == 3 and closed, data.count(b"HTTP/1.1 200"))
    data, closed = raw(begin(line=get.replace("1.1", "1.0")))
    verdicts.judge("DOH-19 HTTP/1.0", b" 200" in data[:13] and closed, data[:40])
    absolute = f"GET https://{SERVER}{PATH}?dns={text(WHOLE)} HTTP/1.1"
    data, _ = raw(begin("Connection: close\r\n", line=absolute))
    verdicts.judge("DOH-20 the target as a URL", data.startswith(b"HTTP/1.1 200"), data[:40])
    upgrade = ("Connection: Upgrade, HTTP2-Settings, close\r\n", "Upgrade: h2c\r\n", "HTTP2-Settings: AAMAAABkAARAAAAA\r\n")
    data, _ = raw(begin(*upgrade, line=get))
    verdicts.judge("DOH-19 no upgrade", b" 101" not in data[:13], data[:40])
    data, _ = raw(begin(kind, length, "Expect: 100-continue\r\n", "Connection: close\r\n") + WHOLE)
    verdicts.judge("DOH-19 Expect: 100-continue", data.endswith(WWW), data[:40])
    data, closed = raw(begin(kind, length) + WHOLE[:5], 15)
    verdicts.judge("SLOW-01 half a body is not waited for for ever", closed, data[:40])


def main(version):
    """Runs all for a version of HTTP."""
    verdicts = Verdicts()
    statuses(version, verdicts)
    answers(version, verdicts)
    if version == "h1":
        smuggling(verdicts)
    response = post(version, WHOLE)
    verdicts.judge("and a good query is still answered", response.status == 200 and Reply(response.body).answers() == [WWW])
    verdicts.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
