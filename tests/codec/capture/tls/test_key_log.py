"""Key logs: the lines that are used, and those that are ignored."""

from pcli.codec.capture.tls import KeyLog

RANDOM = bytes(range(32))


def test_secrets_by_label():
    log = KeyLog(f"# a comment\nCLIENT_RANDOM {RANDOM.hex()} 0102ff\r\nEXPORTER_SECRET {RANDOM.hex()} 05\n".encode())
    log.add(f"CLIENT_TRAFFIC_SECRET_0 {RANDOM.hex().upper()} AB".encode())
    assert log.secret(RANDOM, "CLIENT_RANDOM") == b"\x01\x02\xff"
    assert log.secret(RANDOM, "CLIENT_TRAFFIC_SECRET_0") == b"\xab"
    assert log.secret(RANDOM, "EXPORTER_SECRET") is None
    assert log.secret(bytes(32), "CLIENT_RANDOM") is None
    assert len(log) == 1


def test_lines_in_other_formats_are_ignored():
    lines = ["", "CLIENT_RANDOM", f"CLIENT_RANDOM {RANDOM.hex()}", f"CLIENT_RANDOM {RANDOM.hex()} 012", "RSA 01 02"]
    assert len(KeyLog("\n".join(lines).encode())) == 0


def test_a_growing_file_is_read_when_a_secret_is_missing() -> None:
    lines = [f"CLIENT_RANDOM {number:064x} {number:096x}\n".encode() for number in (1, 2)]
    texts = [lines[0], lines[0], b"".join(lines)]
    log = KeyLog(more=lambda: texts.pop(0))
    assert (bool(log), len(log)) == (True, 0)
    assert log.secret((1).to_bytes(32, "big"), "CLIENT_RANDOM") == (1).to_bytes(48, "big")
    assert log.secret((2).to_bytes(32, "big"), "CLIENT_RANDOM") is None
    assert log.secret((2).to_bytes(32, "big"), "CLIENT_RANDOM") == (2).to_bytes(48, "big")
    assert log.secret((1).to_bytes(32, "big"), "CLIENT_RANDOM") is not None
    assert texts == []
