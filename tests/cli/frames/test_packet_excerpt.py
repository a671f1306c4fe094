"""`dissect -w`: a smaller capture with the same frames that other tools can read."""

import io
import shutil
import subprocess
from contextlib import contextmanager

import pytest

FIELDS = (
    "pulsar.type", "frame.time_epoch", "tcp.stream", "tcp.srcport", "pulsar.topic", "pulsar.consumer_name",
    "pulsar.producer_name", "pulsar.latency", "pulsar.message_id", "pulsar.sequence_id", "pulsar.checksum",
)  # fmt: skip
COLUMNS = [word for name in FIELDS for word in ("-e", name)]
SHARED = "python/10-shared-redelivery.pcap"


def rows(pcli, path, filter_, *arguments):
    result = pcli("dissect", "-r", path, "-Y", filter_, "-T", "fields", *COLUMNS, *arguments)
    assert result.code == 0, result.err
    return result.lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        SHARED,
        "python/01-exclusive-unbatched.pcapng",
        "java/txn-commit.pcap",
        "java/late-capture.pcap",
        "go/chunks.pcap",
        "flex/04-reconnect.pcapng",
        "rust/batching.pcapng",
    ],
)
@pytest.mark.parametrize(
    "filter_",
    [
        "pulsar.type == MESSAGE",
        "pulsar.consumer_name",
        "pulsar.latency > 5ms",
        "pulsar.from == client and pulsar.topic",
    ],
)
def test_the_same_filter_finds_the_same_frames(pcli, small_captures, tmp_path, name, filter_):
    out = tmp_path / "out.pcapng"
    found = rows(pcli, small_captures / name, filter_, "-w", out)
    assert rows(pcli, out, filter_) == found


def test_an_excerpt_of_an_excerpt(pcli, small_captures, tmp_path):
    wide, narrow = tmp_path / "wide.pcapng", tmp_path / "narrow.pcapng"
    rows(pcli, small_captures / SHARED, "pulsar.topic", "-w", wide)
    found = rows(pcli, wide, "pulsar.type == ACK", "-w", narrow)
    assert found
    assert rows(pcli, narrow, "pulsar.type == ACK") == found
    assert narrow.stat().st_size < wide.stat().st_size


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_reads_it_and_finds_the_packets_unchanged(pcli, small_captures, tmp_path):
    out = tmp_path / "out.pcapng"
    rows(pcli, small_captures / SHARED, "pulsar.type == ACK", "-w", out)

    def packets(path):
        fields = ("frame.time_epoch", "tcp.seq_raw", "tcp.ack_raw", "tcp.len", "tcp.srcport")
        arguments = ["tshark", "-r", path, "-T", "fields", *(word for name in fields for word in ("-e", name))]
        return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.splitlines()

    kept, whole = packets(out), packets(small_captures / SHARED)
    assert 0 < len(kept) < len(whole)
    assert set(kept) <= set(whole)


def test_tokens_do_not_leave(pcli, small_captures, tmp_path):
    capture, out = small_captures / "python/20-token-authentication.pcap", tmp_path / "out.pcapng"
    token = b"eyJ"  # the beginning of every JSON web token
    rows(pcli, capture, "pulsar.type == CONNECT", "-w", out)
    assert token not in out.read_bytes()
    rows(pcli, capture, "pulsar.type == CONNECT", "-w", out, "--show-secrets")
    assert token in out.read_bytes()


def test_the_capture_being_read_is_not_overwritten(pcli, small_captures, tmp_path):
    copy = tmp_path / "copy.pcap"
    shutil.copy(small_captures / SHARED, copy)
    result = pcli("dissect", "-r", copy, "-w", copy)
    assert (result.code, result.out) == (2, "")
    assert copy.read_bytes() == (small_captures / SHARED).read_bytes()


def test_input_that_is_no_capture_leaves_no_file(pcli, tmp_path):
    text, out = tmp_path / "text", tmp_path / "out.pcapng"
    text.write_text("no capture at all")
    result = pcli("dissect", "-r", text, "-w", out)
    assert result.code == 2
    assert "neither pcap nor pcapng" in result.err
    assert list(tmp_path.iterdir()) == [text]


def test_a_full_disk(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / SHARED, "-w", "/dev/full")
    assert result.code == 2
    assert "no space left" in result.err


def test_from_a_pipe(pcli, small_captures, tmp_path):
    out = tmp_path / "out.pcapng"
    data = (small_captures / SHARED).read_bytes()
    result = pcli("dissect", "-r", "-", "-w", out, "-Y", "pulsar.type == ACK", stdin=data)
    assert result.code == 0
    assert len(pcli("dissect", "-r", out, "-Y", "pulsar.type == ACK").lines) == len(result.lines) > 0


def test_the_file_is_complete_when_stdout_is_closed(pcli, small_captures, tmp_path):
    import sys

    out = tmp_path / "out.pcapng"
    command = f"{sys.executable} -m pcli.cli dissect -r {small_captures / SHARED} -V -w {out} | head -n 3; true"
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert pcli("dissect", "-r", out).lines


@pytest.mark.parametrize("began", [False, True])
def test_ctrl_c_before_there_is_a_packet(tmp_path, monkeypatch, began):
    """Ctrl-C while the capture program starts or is silent: it is not started again, and no file is created."""
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.frames.packet_excerpt import written
    from pcli.replay.sources import capture_sources

    class Silent(io.RawIOBase):
        def read(self, size=-1):
            raise KeyboardInterrupt

    @contextmanager
    def open_interface(name, capture_filter):
        opened.append(name)
        if not began:
            raise KeyboardInterrupt
        yield Silent()

    opened, out = [], tmp_path / "out.pcapng"
    monkeypatch.setattr(capture_sources, "open_interface", open_interface)
    reading = CaptureReading(interface="lo", rewindable=True)
    with pytest.raises(KeyboardInterrupt):
        list(written(reading.facts(), reading, str(out), secrets=False))
    assert opened == ["lo"]
    assert list(tmp_path.iterdir()) == []
    reading.finish()
