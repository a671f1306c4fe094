"""Decryption of payloads that MessageCryptoBc of the Java client encrypted (java_vectors.json). test_truth.py reads
captures of the Python client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.payload.encryption import PrivateKeys, is_encrypted
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

CASES = ["RSA 2048", "P-256", "P-256, explicit parameters", "P-521"]

Case = tuple[bytes, pb.MessageMetadata, bytes]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, java: dict[str, Any]) -> Case:
    return read_case(java, request.param)


def read_case(java: dict[str, Any], name: str) -> Case:
    one = java["encryption"]["cases"][name]
    metadata = pb.MessageMetadata.FromString(bytes.fromhex(one["metadata"]))
    return one["private_key"].encode(), metadata, bytes.fromhex(one["payload"])


def pem(key: Any, protection: KeySerializationEncryption | None = None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection or NoEncryption())  # type: ignore[no-any-return]


def test_decrypts_payloads_of_the_java_client(case: Case, java: dict[str, Any]) -> None:
    key, metadata, payload = case
    assert is_encrypted(metadata)
    assert PrivateKeys([key]).open(metadata, payload) == java["encryption"]["plain"].encode()


def test_the_same_key_as_pkcs8(case: Case, java: dict[str, Any]) -> None:
    key, metadata, payload = case
    keys = PrivateKeys([pem(load_pem_private_key(key, None))])
    assert keys.open(metadata, payload) == java["encryption"]["plain"].encode()


def test_the_matching_key_is_found_among_others(java: dict[str, Any]) -> None:
    cases = [read_case(java, name) for name in CASES]
    strangers = [pem(rsa.generate_private_key(65537, 2048)), pem(ec.generate_private_key(ec.SECP256R1()))]
    keys = PrivateKeys(strangers + [key for key, _, _ in cases])
    for _ in range(2):  # the second time from the cache
        for _, metadata, payload in cases:
            assert keys.open(metadata, payload) == java["encryption"]["plain"].encode()


def test_wrapped_for_several_readers(java: dict[str, Any]) -> None:
    key, metadata, payload = read_case(java, "P-256")
    for name in ("RSA 2048", "P-521"):
        metadata.encryption_keys.extend(read_case(java, name)[1].encryption_keys)
    assert PrivateKeys([key]).open(metadata, payload) == java["encryption"]["plain"].encode()
    # The data key of another message can be unwrapped, but does not decrypt this payload.
    problem = PrivateKeys([read_case(java, "RSA 2048")[0]]).open(metadata, payload)
    assert isinstance(problem, Problem)
    assert "the data key can be decrypted but the payload cannot" in problem.detail


def test_without_the_right_key(case: Case) -> None:
    _, metadata, payload = case
    stranger = PrivateKeys([pem(rsa.generate_private_key(65537, 2048)), pem(ec.generate_private_key(ec.SECP521R1()))])
    problem = stranger.open(metadata, payload)
    assert isinstance(problem, Problem)
    assert problem.kind == "encryption"
    assert problem.detail == f"encrypted for {metadata.encryption_keys[0].key!r}: no given key decrypts the payload"


def test_damage_at_any_byte_is_a_problem(java: dict[str, Any]) -> None:
    key, metadata, payload = read_case(java, "P-256")
    wrapped = metadata.encryption_keys[0].value
    keys = PrivateKeys([key])
    for place in range(len(wrapped)):
        metadata.encryption_keys[0].value = wrapped[:place] + bytes([wrapped[place] ^ 1]) + wrapped[place + 1 :]
        assert isinstance(keys.open(metadata, payload), Problem), place
    metadata.encryption_keys[0].value = wrapped
    for place in range(len(payload)):
        assert isinstance(keys.open(metadata, payload[:place]), Problem)


@pytest.mark.parametrize("name", ["RSA 2048", "P-256"])
@given(data=st.data())
@settings(max_examples=60)
def test_no_bytes_raise(name: str, java: dict[str, Any], data: st.DataObject) -> None:
    key, metadata, payload = read_case(java, name)
    keys = PrivateKeys([key])
    wrapped = metadata.encryption_keys[0].value
    metadata.encryption_keys[0].value = data.draw(st.just(wrapped) | st.binary(max_size=300))
    metadata.encryption_param = data.draw(st.binary(max_size=200))
    assert isinstance(keys.open(metadata, data.draw(st.just(payload) | st.binary(max_size=60))), Problem)


def test_the_number_of_tried_keys_is_limited(java: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    key, metadata, payload = read_case(java, "RSA 2048")
    del metadata.encryption_keys[:]
    for number in range(100_000):
        metadata.encryption_keys.add(key=str(number), value=number.to_bytes(256, "big"))
    tried: list[bytes] = []
    monkeypatch.setattr(PrivateKeys, "_try", lambda _self, wrapped: tried.append(wrapped))
    assert isinstance(PrivateKeys([key]).open(metadata, payload), Problem)
    assert len(tried) <= 32


def test_unusable_private_keys() -> None:
    with pytest.raises(LocalError, match="private key 1 is not a private key in PEM format"):
        PrivateKeys([b"no key"])
    with pytest.raises(LocalError, match="private key 2 is neither RSA nor elliptic"):
        PrivateKeys([pem(ec.generate_private_key(ec.SECP256R1())), pem(ed25519.Ed25519PrivateKey.generate())])
    closed = pem(ec.generate_private_key(ec.SECP256R1()), BestAvailableEncryption(b"word"))
    with pytest.raises(LocalError, match="protected by a passphrase"):
        PrivateKeys([closed])
    with pytest.raises(LocalError, match=r"private key mine\.pem is not a private key"):
        PrivateKeys([pem(rsa.generate_private_key(65537, 2048)), b"no key"], ["good.pem", "mine.pem"])


def test_without_cryptography_the_extra_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    key, metadata, payload = case
    problem = PrivateKeys([key]).open(metadata, payload)
    assert isinstance(problem, Problem)
    assert "pulsar-pcli[crypto]" in problem.detail


def test_heavy_libraries_are_not_loaded_with_the_package() -> None:
    code = "import sys, pcli.codec.payload.schemas; print({name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cramjam" in done.stdout
    for name in ("cryptography", "fastavro", "numpy"):
        assert name not in done.stdout


def test_a_plain_entry_is_not_encrypted(meta: Callable[..., pb.MessageMetadata]) -> None:
    assert not is_encrypted(meta())
