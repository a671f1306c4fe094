"""The option ``--keylog`` of the commands that read captures, on a TLS connection of the Python client."""

from __future__ import annotations

import zipfile

import pytest


@pytest.fixture
def tls(captures):
    """The arguments that name the capture and its key log."""
    folder = captures / "python"
    return folder / "21-tls.pcapng", "--keylog", folder / "21-tls.keylog"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("dissect",), "public/21-tls/sealed"),
        (("dissect", "-T", "fields", "-e", "pulsar.number"), "35"),
        (("follow", "--producer", "p-1"), "SEND"),
        (("stats", "conv"), "Pulsar-CPP"),
        (("stats", "types"), "LOOKUP"),
        (("stats", "permits"), "1000"),
        (("stats", "consumers"), "public/21-tls/sealed"),
        (("diagnose",), "20 messages"),
        (("trace",), "acked"),
        (("top", "--once", "--speed", "max"), "public/21-tls/sealed"),
    ],
)
def test_commands_decrypt(pcli, tls, command, shown):
    ran = pcli(*command, "-r", *tls)
    assert (ran.code, ran.err.count("TLS")) == (0, 0)
    assert shown in ran.out


@pytest.mark.parametrize("command", ["replay", "reproduce"])
def test_replay_decrypts(pcli, tls, command):
    ran = pcli(command, *tls)
    assert ran.code == 0
    assert "21-tls" in ran.out or "CONNECTED" in ran.out


def test_without_the_option_the_remedy_is_named(pcli, tls, monkeypatch):
    monkeypatch.setenv("SSLKEYLOGFILE", str(tls[2]))
    ran = pcli("dissect", "-r", tls[0])
    assert ran.out == ""
    assert "1 connection is TLS (port 6651): give the session keys with --keylog FILE" in ran.err


def test_a_file_that_cannot_be_used(pcli, tls, tmp_path):
    for content, message in (
        (None, "no such file"),
        (b"", "contains no secrets"),
        (b"\0x" * 100, "contains no secrets"),
    ):
        file = tmp_path / f"keys-{content is None}"
        if content is not None:
            file.write_bytes(content)
        ran = pcli("dissect", "-r", tls[0], "--keylog", file)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
        assert f"--keylog {file}: " in ran.err
        assert message in ran.err


def test_secrets_of_other_connections(pcli, tls, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(f"CLIENT_RANDOM {'00' * 32} {'11' * 48}\n")
    ran = pcli("dissect", "-r", tls[0], "--keylog", keys)
    assert ran.out == ""
    assert "the key log has no SERVER_HANDSHAKE_TRAFFIC_SECRET for this connection" in ran.err


def test_without_cryptography(pcli, tls, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    ran = pcli("dissect", "-r", *tls)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "pip install 'pulsar-pcli[crypto]'" in ran.err


def test_an_excerpt_is_plain_and_has_the_same_frames(pcli, tls, tmp_path):
    excerpt = tmp_path / "excerpt.pcapng"
    whole = pcli("dissect", "-r", *tls, "-w", excerpt)
    again = pcli("dissect", "-r", excerpt)
    assert (again.out, again.err) == (whole.out, "")
    pcli("dissect", "-r", *tls, "-Y", "pulsar.type == 'SEND'", "-w", excerpt)
    again = pcli("dissect", "-r", excerpt, "-Y", "pulsar.type == 'SEND'")
    assert len(again.lines) == sum(" SEND " in line for line in whole.lines)


def test_a_bundle_is_plain_and_redacted(pcli, tls, tmp_path):
    bundle, capture = tmp_path / "issue.zip", tmp_path / "capture.pcapng"
    assert pcli("bundle", "-r", *tls, "-o", bundle).code == 0
    with zipfile.ZipFile(bundle) as archive:
        capture.write_bytes(archive.read("capture.pcapng"))
        assert b"20 messages" in archive.read("findings.txt")
    ran = pcli("dissect", "-r", capture)
    assert (len(ran.lines), ran.err) == (35, "")
    secrets = [bytes.fromhex(word.decode()) for word in tls[2].read_bytes().split() if len(word) >= 64]
    assert not any(secret in capture.read_bytes() for secret in secrets)
    assert b"sealed" not in capture.read_bytes()
