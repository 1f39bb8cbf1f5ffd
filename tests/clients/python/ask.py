"""Asks by dnspython over each transport; a line says which, the response code, the flags and the addresses.

ask.py NAME TYPE TRANSPORT...    of udp, tcp, tls, h1, h1-get, h2, h2-get, h3, h3-get, quic
"""

import os
import sys

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
from dns.query import HTTPVersion

HERE = "127.0.0.1"
CA, NAME = os.environ["CA"], os.environ["NAME"]
DNS, TLS, HTTPS = (int(os.environ[key]) for key in ("DNS", "TLS", "HTTPS"))
VERSIONS = {"h1": HTTPVersion.HTTP_1, "h2": HTTPVersion.HTTP_2, "h3": HTTPVersion.HTTP_3}


def ask(query, transport):
    """Sends a query over a transport and gives the response."""
    if transport == "udp":
        return dns.query.udp(query, HERE, port=DNS, timeout=5)
    if transport == "tcp":
        return dns.query.tcp(query, HERE, port=DNS, timeout=5)
    if transport == "tls":
        return dns.query.tls(query, HERE, port=TLS, timeout=5, server_hostname=NAME, verify=CA)
    if transport == "quic":
        return dns.query.quic(query, HERE, port=TLS, timeout=5, server_hostname=NAME, verify=CA)
    version, _, method = transport.partition("-")
    return dns.query.https(
        query,
        f"https://{HERE}:{HTTPS}/dns-query",
        timeout=5,
        post=method != "get",
        verify=CA,
        http_version=VERSIONS[version],
    )


def main(name, kind, *transports):
    """Asks for a name of a type over all the transports."""
    for transport in transports:
        query = dns.message.make_query(name, kind, use_edns=0, payload=1232)
        response = ask(query, transport)
        data = sorted(
            text if kind == "A" else f"{len(text)}"
            for rrset in response.answer
            for text in (rr.to_text() for rr in rrset)
        )
        flags = dns.flags.to_text(response.flags).lower().replace(" ", ",")
        print(transport, dns.rcode.to_text(response.rcode()), flags, *data)


if __name__ == "__main__":
    main(*sys.argv[1:])
