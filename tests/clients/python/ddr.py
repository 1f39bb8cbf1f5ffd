"""Finds the encrypted resolvers of a clear one by Discovery of Designated Resolvers, verified (RFC 9462 section 4.2), and asks each.

A line for each says what it is and what it answers.
"""

import os

import dns.message
import dns.query
import dns.resolver

# The discovery verifies against the system's authorities; here the one of the test takes their place.
os.environ["SSL_CERT_FILE"] = os.environ["CA"]


def main():
    """Discovers and asks."""
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = int(os.environ["DNS"])
    resolver.try_ddr(lifetime=10)
    for server in resolver.nameservers:
        # aioquic has authorities of its own.
        server.verify = os.environ["CA"]
        query = dns.message.make_query("www.example.test", "A")
        response = server.query(query, timeout=5, source=None, source_port=0, max_size=False)
        addresses = [rr.to_text() for rrset in response.answer for rr in rrset]
        print(server.kind(), server, *addresses)


if __name__ == "__main__":
    main()
