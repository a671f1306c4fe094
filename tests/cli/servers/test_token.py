"""`pcli token`: tokens that the broker accepts, and errors."""

import json
import re

import pytest

pytest.importorskip("jwt")

SECRET = "data:;base64," + "QUJD" * 12
OTHER = "data:;base64," + "QUJE" * 12


def test_a_created_token_is_shown_and_valid(pcli):
    token = pcli("token", "create", "--secret-key", SECRET, "--subject", "alice", "--expiry-time", "7d").out.strip()
    header, claims = map(json.loads, pcli("token", "show", token).out.splitlines())
    assert (header["alg"], claims["sub"]) == ("HS256", "alice")
    assert json.loads(pcli("token", "validate", "--secret-key", SECRET, "-", stdin=token.encode()).out) == claims


def test_a_key_file_is_used(pcli, tmp_path):
    (tmp_path / "secret.key").write_bytes(b"s" * 64)
    key = tmp_path / "secret.key"
    token = pcli("token", "create", "--secret-key", key, "--subject", "a", "--signature-algorithm", "HS512").out
    assert pcli("token", "validate", "--secret-key", key, token).code == 0


@pytest.mark.parametrize(
    ("arguments", "expected_error"),
    [
        (["create", "--subject", "a"], "either a secret key or a private key"),
        (["create", "--subject", "a", "--secret-key", "/nowhere/key"], "/nowhere/key: no such file"),
        (["create", "--subject", "a", "--secret-key", "data:;base64,QUJD"], "at least 32 bytes"),
        (["create", "--subject", "a", "--secret-key", SECRET, "--expiry-time", "7"], "must be a number and a unit"),
        (["create", "--subject", "a", "--secret-key", SECRET, "--signature-algorithm", "RS256"], "this key fits HS256"),
        (["show", "x"], "not a token"),
        (["validate", "x", "--secret-key", SECRET], "invalid token"),
        (["validate", "x"], "either tokenSecretKey or tokenPublicKey"),
    ],
)
def test_errors_are_one_line(pcli, arguments, expected_error):
    ran = pcli("token", *arguments)
    assert ran.code == 2
    assert re.fullmatch(r"pcli: [^\n]*\n", ran.err)
    assert expected_error in ran.err


def test_an_expired_token_and_a_wrong_key_are_invalid(pcli):
    token = pcli("token", "create", "--secret-key", SECRET, "--subject", "alice", "--expiry-time", "0s").out.strip()
    assert "has expired" in pcli("token", "validate", "--secret-key", SECRET, token).err
    assert "invalid token" in pcli("token", "validate", "--secret-key", OTHER, token).err
