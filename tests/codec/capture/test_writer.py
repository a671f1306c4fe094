"""Written capture files, read by pcli and by tshark, which must report no errors."""

from __future__ import annotations

import io

from pcli.codec.capture import Packet, PcapngWriter, Secrets, read_packets


def test_written_packets_are_read_unchanged():
    packets = [
        Packet(1, 1_700_000_000_123_456_789, 1, b"ethernet", 8, "eth0"),
        Packet(2, 5, 276, b"", 70),
        Packet(3, 2**63, 1, b"other", 9000, "eth1"),
        Packet(4, 7, 1, b"again", 5, "eth0"),
    ]
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.secrets(Secrets(0x544C534B, b"keys"))
    for packet in packets:
        writer.packet(packet)
    file.seek(0)
    assert list(read_packets([("", file)])) == [Secrets(0x544C534B, b"keys"), *packets]


def test_the_file_is_complete_after_every_call(w):
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for packet in w.Tape().hello().packets:
        writer.packet(packet)
        assert w.once(file.getvalue())[1] == []


def test_tshark_reads_rewritten_packets_unchanged(w, small_captures, tmp_path, tshark):
    source = small_captures / "python/01-exclusive-unbatched.pcapng"
    target = tmp_path / "out.pcapng"
    target.write_bytes(w.file(w.packets(source.read_bytes())).getvalue())
    fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "tcp.seq_raw", "-e", "frame.md5_hash"]
    fields += ["-o", "frame.generate_md5_hash:TRUE"]
    assert tshark(target, *fields) == tshark(source, *fields)
