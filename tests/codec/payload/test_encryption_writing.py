"""Encryption, verified with the decryption module, which vectors of the Java client verify.
tests/interop/test_equal_producing.py verifies it with the clients."""

from __future__ import annotations

import datetime
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from pcli.codec.errors import LocalError
from pcli.codec.payload.encryption import PrivateKeys, is_encrypted
from pcli.codec.payload.encryption_writing import PublicKeys
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

KINDS = {
    "RSA 2048": lambda: rsa.generate_private_key(65537, 2048),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
}


def private(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public(key):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def certificate(key):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "reader")])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + datetime.timedelta(days=1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture(params=KINDS)
def key(request):
    return KINDS[request.param]()


def test_encrypt_and_decrypt(key, meta):
    keys, metadata = PublicKeys({"mine": public(key)}), meta()
    closed = keys.close(metadata, b"secret")
    assert is_encrypted(metadata)
    assert [wrapped.key for wrapped in metadata.encryption_keys] == ["mine"]
    assert len(metadata.encryption_param) == 12
    assert closed != b"secret"
    assert len(closed) == len(b"secret") + 16
    assert PrivateKeys([private(key)]).open(metadata, closed) == b"secret"


@pytest.mark.parametrize("form", ["certificate", "parameters"])
def test_forms_of_a_public_key(form, meta):
    key, metadata = KINDS["P-256"](), meta()
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    pem = certificate(key) if form == "certificate" else parameters + public(key)
    closed = PublicKeys({"mine": pem}).close(metadata, b"secret")
    assert PrivateKeys([private(key)]).open(metadata, closed) == b"secret"


def test_several_readers_with_separate_keys(meta):
    made = {name: make() for name, make in KINDS.items()}
    metadata = meta()
    closed = PublicKeys({name: public(key) for name, key in made.items()}).close(metadata, b"secret")
    assert [wrapped.key for wrapped in metadata.encryption_keys] == sorted(made)
    for key in made.values():
        assert PrivateKeys([private(key)]).open(metadata, closed) == b"secret"
    stranger = PrivateKeys([private(KINDS["P-256"]())])
    assert isinstance(stranger.open(metadata, closed), Problem)


def test_a_data_key_is_reused_and_a_nonce_is_not(meta):
    key = KINDS["P-256"]()
    keys = PublicKeys({"mine": public(key)})
    metadata = [meta() for _ in range(3)]
    payloads = [keys.close(metadata[0], b"0"), keys.close(metadata[1], b"1")]
    keys.renew()
    payloads.append(keys.close(metadata[2], b"2"))
    assert metadata[0].encryption_keys == metadata[1].encryption_keys
    assert metadata[1].encryption_keys != metadata[2].encryption_keys
    assert len({one.encryption_param for one in metadata}) == 3
    reader = PrivateKeys([private(key)])
    assert [reader.open(*pair) for pair in zip(metadata, payloads)] == [b"0", b"1", b"2"]


def test_encrypting_twice_lists_the_keys_once(meta):
    key, metadata = KINDS["P-256"](), meta()
    keys = PublicKeys({"mine": public(key)})
    keys.close(metadata, b"chunk 0")
    closed = keys.close(metadata, b"chunk 1")
    assert len(metadata.encryption_keys) == 1
    assert PrivateKeys([private(key)]).open(metadata, closed) == b"chunk 1"


@pytest.mark.parametrize("pem", [b"", b"no key", private(KINDS["P-256"]())])
def test_unusable_public_keys(pem, meta):
    metadata = meta()
    with pytest.raises(LocalError, match="public key mine is not a public key"):
        PublicKeys({"mine": pem}).close(metadata, b"secret")
    assert metadata == meta()


def test_an_unsupported_key_type():
    with pytest.raises(LocalError, match="neither RSA nor elliptic"):
        PublicKeys({"mine": public(ed25519.Ed25519PrivateKey.generate())}).renew()


def test_without_cryptography_the_extra_is_named(monkeypatch):
    pem = public(KINDS["P-256"]())
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(LocalError, match=r"pulsar-pcli\[crypto\]"):
        PublicKeys({"mine": pem}).close(pb.MessageMetadata(), b"secret")
