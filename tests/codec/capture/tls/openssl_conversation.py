"""A program that prints a TLS conversation of two endpoints in memory as JSON: FOLDER, cipher suite of TLS 1.2."""

from __future__ import annotations

import datetime
import json
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

ROUNDS = 20
PING = bytes.fromhex("00000009000000050812920100")
"""A frame."""


def certificate(folder: Path) -> Path:
    """Write a self-signed certificate with its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .sign(key, hashes.SHA256())
    )
    path = folder / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def main(folder: Path, suite: str) -> None:
    """Run a handshake and an exchange of messages of growing sizes."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate(folder))
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.keylog_filename = str(folder / "keys.log")
    if suite:
        client.set_ciphers(suite)
        server.set_ciphers(suite)
    received = {end: ssl.MemoryBIO() for end in (True, False)}
    written = {end: ssl.MemoryBIO() for end in (True, False)}
    ends = {
        True: client.wrap_bio(received[True], written[True], server_side=False),
        False: server.wrap_bio(received[False], written[False], server_side=True),
    }
    pieces: list[tuple[bool, str]] = []

    def transfer(end: bool) -> None:
        data = written[end].read()
        if data:
            pieces.append((end, data.hex()))
            received[not end].write(data)

    for _ in range(4):
        for end in (True, False):
            with suppress(ssl.SSLWantReadError):
                ends[end].do_handshake()
            transfer(end)
    sent = {True: b"", False: b""}
    for number in range(ROUNDS):
        for end in (True, False):
            data = PING * (1 + number**2)
            ends[end].write(data)
            transfer(end)
            sent[end] += data
            got = b""
            while len(got) < len(data):
                got += ends[not end].read()
    print(
        json.dumps(
            {
                "suite": ends[True].cipher()[0],
                "pieces": pieces,
                "client": sent[True].hex(),
                "server": sent[False].hex(),
            }
        )
    )


main(Path(sys.argv[1]), sys.argv[2])
