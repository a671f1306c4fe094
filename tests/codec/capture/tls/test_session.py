"""Decryption of connections between two OpenSSL endpoints, for each supported cipher suite."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.capture.tls import KeyLog, TlsError, TlsSession
from pcli.codec.capture.tls.record_cipher import SUITES

TLS12 = [
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "AES128-GCM-SHA256",
]
TLS13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256"]


def decrypted(session: TlsSession, pieces: list[tuple[bool, bytes]]) -> dict[bool, bytes]:
    found = {True: b"", False: b""}
    for from_client, data in pieces:
        found[from_client] += session.feed(data, from_client=from_client)
    return found


@pytest.mark.parametrize("suite", TLS12 + TLS13)
def test_a_whole_conversation(tls_conversation: Any, suite: str) -> None:
    talk = tls_conversation(suite)
    assert decrypted(TlsSession(KeyLog(talk.key_log)), talk.pieces) == talk.sent


@pytest.mark.parametrize("suite", [TLS12[0], TLS13[1]])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_segments(tls_conversation: Any, suite: str, data: Any) -> None:
    """Records and handshake messages may be divided at any byte."""
    talk = tls_conversation(suite)
    pieces = []
    for from_client, piece in talk.pieces:
        size = data.draw(st.integers(1, len(piece)))
        pieces += [(from_client, piece[at : at + size]) for at in range(0, len(piece), size)]
    assert decrypted(TlsSession(KeyLog(talk.key_log)), pieces) == talk.sent


@pytest.mark.parametrize("suite", [TLS12[0], TLS13[0]])
def test_no_secrets_for_the_connection(tls_conversation: Any, suite: str) -> None:
    other = tls_conversation(TLS13[1])
    with pytest.raises(TlsError, match=r"the key log has no \w+ for this connection \(client random [0-9a-f]{16}…\)"):
        decrypted(TlsSession(KeyLog(other.key_log)), tls_conversation(suite).pieces)


@pytest.mark.parametrize("suite", [TLS12[2], TLS13[2]])
def test_a_damaged_record(tls_conversation: Any, suite: str) -> None:
    talk = tls_conversation(suite)
    from_client, piece = talk.pieces[-1]
    damaged = [*talk.pieces[:-1], (from_client, piece[:-1] + bytes([piece[-1] ^ 1]))]
    with pytest.raises(TlsError, match="is not authentic"):
        decrypted(TlsSession(KeyLog(talk.key_log)), damaged)


def test_a_lost_record(tls_conversation: Any) -> None:
    talk = tls_conversation(TLS13[0])
    with pytest.raises(TlsError, match="is not authentic"):
        decrypted(TlsSession(KeyLog(talk.key_log)), [*talk.pieces[:-4], *talk.pieces[-2:]])


def test_a_capture_without_the_handshake(tls_conversation: Any) -> None:
    talk = tls_conversation(TLS13[0])
    with pytest.raises(TlsError, match="does not contain the TLS handshake"):
        decrypted(TlsSession(KeyLog(talk.key_log)), talk.pieces[-2:])


def test_an_unsupported_cipher_suite(tls_conversation: Any) -> None:
    """A suite with a MAC instead of an AEAD algorithm."""
    talk = tls_conversation("ECDHE-RSA-AES256-SHA384")
    with pytest.raises(TlsError, match="the cipher suite 0xc028 cannot be decrypted"):
        decrypted(TlsSession(KeyLog(talk.key_log)), talk.pieces)


def test_an_unsupported_cipher_suite_stops_both_directions(tls_conversation: Any) -> None:
    """The client begins to encrypt after the ServerHello that was refused."""
    talk = tls_conversation("ECDHE-RSA-AES256-SHA384")
    session = TlsSession(KeyLog(talk.key_log))
    reasons = {}
    for from_client, piece in talk.pieces:
        try:
            session.feed(piece, from_client=from_client)
        except TlsError as error:
            reasons.setdefault(from_client, str(error))
    assert reasons[True] == reasons[False]
    assert reasons[True].startswith("the cipher suite 0xc028 cannot be decrypted")


CLIENT_RANDOM = bytes(32)
ALL_SECRETS = b"".join(
    f"{label} {CLIENT_RANDOM.hex()} {bytes(48).hex()}\n".encode()
    for label in (
        "CLIENT_RANDOM",
        *(f"{side}_{of}" for side in ("CLIENT", "SERVER") for of in ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")),
    )
)


def handshake(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def server_hello(version: int, suite: int) -> bytes:
    supported = b"\0\x06\0\x2b\0\x02" + version.to_bytes(2, "big")
    return handshake(2, b"\x03\x03" + bytes(range(32)) + b"\0" + suite.to_bytes(2, "big") + b"\0" + supported)


FRAGMENTS = st.one_of(
    st.tuples(st.just(20), st.just(b"\x01")),
    st.tuples(st.sampled_from([21, 22, 23]), st.binary(max_size=60)),
    st.builds(
        lambda version, suite: (22, server_hello(version, suite)),
        st.sampled_from([0x0302, 0x0303, 0x0304]),
        st.sampled_from([0xC028, *SUITES]),
    ),
    st.builds(lambda kind: (22, handshake(kind, b"\0")), st.sampled_from([20, 24])),
)


@given(st.lists(st.tuples(st.booleans(), FRAGMENTS), max_size=8))
def test_any_records_after_a_client_hello(records: list[tuple[bool, tuple[int, bytes]]]) -> None:
    """No other exception leaves the session, and a direction goes on after the other one failed."""
    session = TlsSession(KeyLog(ALL_SECRETS))
    hello = (22, handshake(1, b"\x03\x03" + CLIENT_RANDOM))
    for from_client, (kind, fragment) in [(True, hello), *records]:
        with suppress(TlsError):
            session.feed(bytes([kind, 3, 3]) + len(fragment).to_bytes(2, "big") + fragment, from_client=from_client)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), max_size=20))
def test_any_bytes(pieces: list[tuple[bool, bytes]]) -> None:
    """No other exception leaves the session."""
    with suppress(TlsError):
        decrypted(TlsSession(KeyLog()), pieces)
