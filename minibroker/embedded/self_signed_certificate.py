"""A certificate for tests, which clients must trust explicitly."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from pcli.codec.errors import LocalError


class CertificateFiles(NamedTuple):
    """The files of a certificate."""

    certificate: Path
    key: Path


def create(folder: Path, host: str) -> CertificateFiles:
    """Create a self-signed certificate for ``host`` and for localhost, valid for a year, in a folder.

    Raises LocalError if the package cryptography is not installed.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise LocalError("tls=True creates a certificate: pip install 'pulsar-pcli[crypto]'") from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pcli mini-broker")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    for address in ("127.0.0.1", "::1", host):
        try:
            names.append(x509.IPAddress(ip_address(address)))
        except ValueError:
            if address:
                names.append(x509.DNSName(address))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = CertificateFiles(folder / "certificate.pem", folder / "key.pem")
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.touch(mode=0o600)
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
