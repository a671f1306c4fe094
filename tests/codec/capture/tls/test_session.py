"""Decryption of connections between two OpenSSL endpoints, for each supported cipher suite."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.capture.tls import KeyLog, TlsError, TlsSession

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


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), max_size=20))
def test_any_bytes(pieces: list[tuple[bool, bytes]]) -> None:
    """No other exception leaves the session."""
    with suppress(TlsError):
        decrypted(TlsSession(KeyLog()), pieces)
