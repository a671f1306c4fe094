"""Messages about the input: grouped, and an explanation of empty results."""

import struct

import pytest

from pcli.cli.common.input_notes import InputNotes, no_frames_text, numbers_text
from pcli.codec.capture import CaptureTotals, Note, Stream


def stream(number, port):
    return Stream(number, ("10.0.0.1", 40000 + number), ("10.0.0.2", port), midstream=False)


def printed(capsys, *notes):
    found = InputNotes()
    for note in notes:
        found.add(note)
    found.print()
    return capsys.readouterr().err.splitlines()


def test_connections_of_another_protocol_are_one_line(capsys):
    notes = [Note("http", "this is HTTP", 5, stream(number, 8080), True) for number in range(13)]
    assert printed(capsys, *notes) == ["pcli: 13 connections are HTTP (port 8080)"]


def test_one_connection_is_counted_once(capsys):
    one = stream(0, 80)
    notes = [Note("http", "this is HTTP", 5, one, True), Note("http", "this is HTTP", 6, one, False)]
    assert printed(capsys, *notes) == ["pcli: 1 connection is HTTP (port 80)"]


def test_tls_has_a_remedy(capsys):
    lines = printed(capsys, Note("tls", "this is TLS", 5, stream(0, 6651), True))
    assert lines[0].startswith("pcli: 1 connection is TLS (port 6651): give the session keys with --keylog FILE")


def test_many_gaps_are_one_line_with_the_first(capsys):
    notes = [Note("gap", f"{size} bytes are missing", size, stream(size, 6650), True, size) for size in range(1, 80)]
    assert printed(capsys, *notes) == [
        "pcli: gap: 79 notes in streams 1, 2, 3, 4, 5 and 74 more; "
        "the first: stream 1 from the client, packet 1: 1 bytes are missing"
    ]


def test_a_damaged_file_is_reported_at_once(capsys):
    found = InputNotes()
    found.add(Note("file", "truncated", source="a.pcap", offset=9))
    assert capsys.readouterr().err == "pcli: a.pcap: truncated (at byte 9)\n"


@pytest.mark.parametrize(
    ("totals", "text"),
    [
        (
            CaptureTotals(10, connections=2, ports=[53, 80]),
            "no Pulsar frames in 10 packets (2 TCP connections, ports 53 and 80; use -d tcp.port==N to force decoding)",
        ),
        (
            CaptureTotals(1, connections=1, ports=[53]),
            "no Pulsar frames in 1 packet (1 TCP connection, port 53; use -d tcp.port==N to force decoding)",
        ),
        (CaptureTotals(), "no Pulsar frames in 0 packets (no TCP connection)"),
    ],
)
def test_an_empty_result_is_explained(totals, text):
    assert no_frames_text(totals) == text


def test_numbers_are_listed():
    assert numbers_text("port", [1, 2, 3]) == "ports 1, 2 and 3"


def test_commands_explain_a_capture_without_pulsar(pcli, tmp_path):
    """Two TCP SYNs to ports 53 and 80, in a classic pcap of raw IPv4."""
    packets = b""
    for port in (53, 80):
        tcp = struct.pack(">HHIIBBHHH", 40000, port, 1, 0, 0x50, 2, 1024, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, b"\n\0\0\1", b"\n\0\0\2")
        packets += struct.pack("<IIII", 1, 0, len(ip + tcp), len(ip + tcp)) + ip + tcp
    path = tmp_path / "other.pcap"
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101) + packets)
    expected = (
        "no Pulsar frames in 2 packets (2 TCP connections, ports 53 and 80; use -d tcp.port==N to force decoding)"
    )
    for arguments in (["dissect"], ["stats", "io"], ["trace"], ["diagnose"], ["stats", "permits"]):
        assert expected in pcli(*arguments, "-r", path).err, arguments


def test_packets_that_were_not_decoded_are_reported_for_each_file(capsys):
    notes = [Note("unread", f"{count} packets not decoded", 90, source=f"{count}.pcap") for count in range(7)]
    lines = printed(capsys, *notes)
    assert lines[1] == "pcli: 1.pcap: 1 packets not decoded"
    assert lines[5] == "pcli: 2 more files with packets that were not decoded"
