"""Asks by general HTTP clients that have stacks of their own: niquests (qh3) and curl_cffi (BoringSSL and ngtcp2).

A line says which client, which version of HTTP the server chose, the status, and the answer.
"""

import base64
import os

import curl_cffi
import dns.message
import niquests
from curl_cffi import CurlHttpVersion

CA = os.environ["CA"]
URL = f"https://127.0.0.1:{os.environ['HTTPS']}/dns-query"
HEADERS = {"content-type": "application/dns-message", "accept": "application/dns-message"}


def wire():
    """A query for www.example.test with ID 0."""
    query = dns.message.make_query("www.example.test", "A")
    query.id = 0
    return query.to_wire()


def answer(body):
    """The addresses in a response."""
    return [rr.to_text() for rrset in dns.message.from_wire(body).answer for rr in rrset]


def by_niquests():
    """POST over each version of HTTP, with the other two turned off."""
    for version in (1, 2, 3):
        others = {f"disable_http{other}": True for other in (1, 2, 3) if other != version}
        with niquests.Session(**others) as session:
            if version == 3:
                # Without a record of HTTP/3 it would begin with TCP.
                session.quic_cache_layer.add_domain("127.0.0.1", int(os.environ["HTTPS"]))
            response = session.post(URL, data=wire(), headers=HEADERS, verify=CA, timeout=10)
            print("niquests", response.http_version, response.status_code, *answer(response.content))


def by_curl_cffi():
    """GET and POST over each version of HTTP, as a browser's network stack."""
    versions = {"1": CurlHttpVersion.V1_1, "2": CurlHttpVersion.V2_0, "3": CurlHttpVersion.V3ONLY}
    for version, number in versions.items():
        words = {"http_version": number, "verify": CA, "timeout": 10, "impersonate": "chrome"}
        text = base64.urlsafe_b64encode(wire()).rstrip(b"=").decode()
        got = curl_cffi.get(f"{URL}?dns={text}", headers={"accept": HEADERS["accept"]}, **words)
        print("curl_cffi get", version, got.http_version, got.status_code, *answer(got.content))
        head = curl_cffi.head(f"{URL}?dns={text}", **words)
        print("curl_cffi head", version, head.http_version, head.status_code, head.headers["content-length"], len(head.content))
        got = curl_cffi.post(URL, data=wire(), headers=HEADERS, **words)
        print("curl_cffi post", version, got.http_version, got.status_code, *answer(got.content))


if __name__ == "__main__":
    by_niquests()
    by_curl_cffi()
