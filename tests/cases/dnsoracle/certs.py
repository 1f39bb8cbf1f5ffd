"""A throw-away CA and server certificate for TLS cases."""
import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def make_certs(directory, names):
    """Write ca.pem, cert.pem and key.pem for the given DNS names / IP addresses."""
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)

    def build(subject, issuer, key, signer, ca, sans=()):
        b = (x509.CertificateBuilder()
             .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
             .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
             .public_key(key.public_key()).serial_number(x509.random_serial_number())
             .not_valid_before(now - day).not_valid_after(now + 30 * day)
             .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True))
        if sans:
            b = b.add_extension(x509.SubjectAlternativeName(list(sans)), critical=False)
        return b.sign(signer, hashes.SHA256())

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    sans = []
    for n in names:
        try:
            sans.append(x509.IPAddress(ipaddress.ip_address(n)))
        except ValueError:
            sans.append(x509.DNSName(n))
    ca = build("dnsoracle CA", "dnsoracle CA", ca_key, ca_key, True)
    leaf = build(names[0], "dnsoracle CA", key, ca_key, False, sans)
    pem = serialization.Encoding.PEM
    _write(os.path.join(directory, "ca.pem"), ca.public_bytes(pem))
    cert = _write(os.path.join(directory, "cert.pem"), leaf.public_bytes(pem))
    priv = _write(os.path.join(directory, "key.pem"), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return cert, priv
