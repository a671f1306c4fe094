"""`pcli dissect` on real captures: every output format, and errors."""

import hashlib
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire import push_frame

SHARED = "python/10-shared-redelivery.pcap"
REDELIVERED = 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0'


def truth(capture):
    name = capture.name.split(".pcap")[0]
    return json.loads((capture.parent / f"{name}.truth.json").read_text())


def test_one_line_per_frame(pcli, small_captures):
    capture = small_captures / SHARED
    result = pcli("dissect", "-r", capture, "--system")
    counts = truth(capture)["frames_by_type"]
    assert result.code == 0
    assert len(result.lines) == sum(sum(side.values()) for side in counts.values())
    assert sum("→ SEND " in line for line in result.lines) == counts["client"]["SEND"]
    assert "\x1b" not in result.out


def test_redelivered_messages_equal_those_of_the_application(pcli, small_captures):
    capture = small_captures / SHARED
    columns = ("-e", "pulsar.consumer_name", "-e", "pulsar.message_id", "-e", "pulsar.message.redelivery_count")
    result = pcli("dissect", "-r", capture, "-Y", REDELIVERED, "-T", "fields", *columns)
    seen = {
        (event["consumer"], ":".join(event["message_id"].split(":")[:2]), str(event["redelivery_count"]))
        for event in truth(capture)["events"]
        if event["type"] == "received" and event.get("redelivery_count")
    }
    assert seen
    assert {tuple(line.split("\t")) for line in result.lines} == seen


def test_ndjson(pcli, small_captures):
    capture = small_captures / "python/23-dedup.pcap"
    rows = [json.loads(line) for line in pcli("dissect", "-r", capture, "-T", "ndjson").lines]
    duplicates = [row for row in rows if row.get("pulsar.message_id") == "-1:-1"]
    assert duplicates
    assert all(row["pulsar.type"] == "SEND_RECEIPT" for row in duplicates)
    assert all(isinstance(row["frame.time_epoch"], str) for row in rows)
    assert [row["pulsar.number"] for row in rows] == sorted(row["pulsar.number"] for row in rows)


def test_columns_like_tsharks(pcli, small_captures):
    capture = small_captures / SHARED
    asked = ("dissect", "-r", capture, "-Y", "pulsar.type == ACK", "-T", "fields", "-e", "pulsar.type")
    result = pcli(*asked, "-e", "pulsar.message_id", "-E", "header=y", "-E", "separator=;", "-E", "quote=d")
    assert result.lines[0] == "pulsar.type;pulsar.message_id"
    assert result.lines[1].startswith('"ACK";"76:')
    first = pcli(*asked, "-e", "pulsar.message_id", "-E", "occurrence=f", "-E", ",")
    assert all(line.count(",") == 1 for line in first.lines)


def test_count_stops_at_a_frame_number(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / SHARED, "-c", "20", "-T", "fields", "-e", "pulsar.number")
    assert int(result.lines[-1]) <= 20
    assert pcli("dissect", "-r", small_captures / SHARED, "-c", "5", "--system").out.count("\n") == 5


@pytest.mark.parametrize(
    ("style", "shape"),
    [
        ("r", r"0\.000000"),
        ("e", r"\d{10}\.\d{6}"),
        ("a", r"\d\d:\d\d:\d\d\.\d{6}"),
        ("d", r"0\.000000"),
        ("dd", r"0\.000000"),
    ],
)
def test_times(pcli, small_captures, style, shape):
    first = pcli("dissect", "-r", small_captures / SHARED, "-c", "1", "-t", style).lines[0]
    assert re.match(rf"frame 1\s+{shape}  ", first)


def test_two_passes_know_the_answer_of_a_request(pcli, small_captures):
    asked = ("dissect", "-r", small_captures / SHARED, "-T", "ndjson")
    assert "pulsar.answer_in" not in pcli(*asked).out
    rows = {row["pulsar.number"]: row for row in map(json.loads, pcli(*asked, "-2").lines)}
    pairs = [(number, row["pulsar.answer_in"]) for number, row in rows.items() if "pulsar.answer_in" in row]
    assert pairs
    assert all(rows[answer]["pulsar.answer_to"] == number for number, answer in pairs)


def test_two_passes_over_stdin(pcli, small_captures):
    data = (small_captures / SHARED).read_bytes()
    assert pcli("dissect", "-r", "-", "-2", "-T", "ndjson", stdin=data).out == (
        pcli("dissect", "-r", small_captures / SHARED, "-2", "-T", "ndjson").out
    )


def test_hex_and_tree(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / SHARED, "-c", "1", "-V", "-x")
    assert "  CONNECT  client → broker" in result.out
    assert "      client_version: Pulsar-CPP-v4.2.0" in result.out
    assert "    0000  00 00 00 " in result.out


def test_tokens_are_hidden_by_default(pcli, small_captures):
    capture = small_captures / "python/20-token-authentication.pcap"
    token = b"eyJ"  # the beginning of every JSON web token
    assert token in capture.read_bytes()
    for form in (["-V"], ["-T", "ndjson"], [], ["-x"], ["-V", "-x"]):
        result = pcli("dissect", "-r", capture, *form)
        assert token.decode() not in result.out
        assert token.hex() not in result.out
        assert token.hex(" ") not in result.out
    assert token.hex(" ") in pcli("dissect", "-r", capture, "-x", "--show-secrets").out
    assert token.hex() in pcli("dissect", "-r", capture, "-T", "ndjson", "--show-secrets").out


def test_payloads_are_hidden_in_hex_too(pcli, small_captures):
    asked = ("dissect", "-r", small_captures / "java/schemas.pcap", "-Y", "pulsar.type == MESSAGE", "-x")
    assert "symbol" not in pcli(*asked).out
    assert "symbol" in pcli(*asked, "--payload").out


def test_payloads_are_opened_with_the_key(pcli, small_captures):
    capture = small_captures / "python/08-encrypted.pcapng"
    key = small_captures / "python/08-encrypted.test-private-key.pem"
    asked = ("dissect", "-r", capture, "-Y", "pulsar.type == MESSAGE", "--payload")
    sealed, opened = pcli(*asked), pcli(*asked, "--private-key", key)
    assert sealed.code == opened.code == 0
    assert sealed.out != opened.out
    assert "problem" not in opened.out


def test_values_are_read_with_the_schemas_of_the_capture(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / "java/schemas.pcap", "-Y", "pulsar.type == MESSAGE", "--payload")
    assert '{"symbol": "S28", "price": 52.66, "volume": 991}' in result.out  # JSON
    assert '{"price": 55.55, "symbol": "S55", "volume": null}' in result.out  # Avro


def test_the_brokers_internal_traffic_is_hidden(pcli, small_captures):
    capture = small_captures / "java/txn-commit.pcap"
    shown, everything = pcli("dissect", "-r", capture), pcli("dissect", "-r", capture, "--system")
    assert "END_TXN_ON_PARTITION" not in shown.out
    assert "END_TXN_ON_PARTITION" in everything.out
    assert set(shown.lines) < set(everything.lines)


def test_decode_as_another_port(pcli, small_captures, tmp_path):
    # The same packets with the broker on port 7000: its bytes identify Pulsar, not its port; -d other disables this.
    data = (small_captures / SHARED).read_bytes()
    moved = tmp_path / "moved.pcap"
    moved.write_bytes(data.replace(struct.pack(">H", 6650), struct.pack(">H", 7000)))
    count = len(pcli("dissect", "-r", small_captures / SHARED).lines)
    assert len(pcli("dissect", "-r", moved).lines) == count
    for rule in ("tcp.port==7000,other", "tcp.port == 7000, Other", "7000,data"):
        assert pcli("dissect", "-r", moved, "-d", rule).lines == []
    assert len(pcli("dissect", "-r", moved, "-d", "tcp.port==7000,pulsar").lines) == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-Y", 'pulsar.tpye == "SEND"'], "did you mean pulsar.type"),
        (["-Y", "pulsar.type =="], "a field or a value is missing"),
        (["-T", "fields"], "-T fields requires columns"),
        (["-T", "fields", "-e", "pulsar.consumer"], "no field 'pulsar.consumer'"),
        (["-e", "pulsar.type"], "-e and -E require -T fields"),
        (["-T", "fields", "-e", "pulsar.type", "-E", "colour=red"], "-E colour=red"),
        (["-d", "tcp.port==x"], "-d tcp.port==x"),
        (["-d", "tcp.port=6650"], "-d tcp.port=6650: write tcp.port==6650,pulsar"),
        (["-d", "tcp.port==6650,http"], "-d tcp.port==6650,http: write tcp.port==7000,pulsar or tcp.port==8080,other"),
        (["-d", "tcp.port==99999"], "-d tcp.port==99999: write tcp.port==7000,pulsar"),
        (["-d", "=6650"], "-d =6650: write tcp.port==6650,pulsar"),
        (["-d", "tcp.port 6650,other"], "-d tcp.port 6650,other: write tcp.port==6650,other"),
        (["-w", "/nonexistent/out.pcapng"], "no such file or directory"),
        (["--private-key", "/nonexistent.pem"], "--private-key /nonexistent.pem: no such file"),
    ],
)
def test_wrong_usage(pcli, small_captures, arguments, message):
    result = pcli("dissect", "-r", small_captures / SHARED, *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_a_wrong_filter_has_a_caret_under_the_place(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / SHARED, "-Y", 'pulsar.type == "SNED"')
    line, caret = result.err.splitlines()[1:3]
    assert line[caret.index("^") :].startswith('"SNED"')


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("missing", None, "no such file or directory"),
        ("empty", b"", "the file is empty"),
        ("text", b"hello, this is no capture\n" * 10, "neither pcap nor pcapng"),
    ],
)
def test_no_capture(pcli, tmp_path, name, data, message):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    result = pcli("dissect", "-r", path)
    assert result.code == 2
    assert message in result.err
    assert str(path) in result.err
    assert len(result.err.splitlines()) == 1


def test_a_folder_may_hold_other_files_too(pcli, small_captures, tmp_path):
    capture = small_captures / SHARED
    shutil.copy(capture, tmp_path / "b.pcap")
    (tmp_path / "README.md").write_text("# what is here\n")
    (tmp_path / "empty").touch()
    result = pcli("dissect", "-r", tmp_path)
    assert (result.code, result.err) == (0, "")
    assert result.out == pcli("dissect", "-r", capture).out
    named = pcli("dissect", "-r", tmp_path / "README.md", "-r", capture)
    assert named.code == 3
    assert "README.md: neither pcap nor pcapng" in named.err


def test_a_private_key_that_is_none_is_named(pcli, small_captures, tmp_path):
    path = tmp_path / "public.pem"
    shutil.copy(small_captures / "python/08-encrypted.test-public-key.pem", path)
    good = small_captures / "python/08-encrypted.test-private-key.pem"
    result = pcli("dissect", "-r", small_captures / SHARED, "--private-key", good, "--private-key", path)
    assert (result.code, result.out) == (2, "")
    assert f"private key {path} is not a private key in PEM format" in result.err


def test_no_input(pcli):
    result = pcli("dissect")
    assert (result.code, result.out) == (2, "")
    assert "give files with -r, or an interface with -i" in result.err


@pytest.mark.parametrize(
    "capture", [SHARED, "python/01-exclusive-unbatched.pcapng", "python/03-compression-lz4.pcap.gz"]
)
def test_a_truncated_file_shows_the_frames_before_the_end(pcli, small_captures, tmp_path, capture):
    whole = (small_captures / capture).read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) * 2 // 3 + 1])
    result, everything = pcli("dissect", "-r", cut), pcli("dissect", "-r", small_captures / capture)
    assert result.code == 3
    assert "at byte" in result.err
    assert len(result.lines) > 10
    assert everything.lines[: len(result.lines) - 1] == result.lines[:-1]


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
def test_a_wrong_checksum_of_a_packed_file_shows_everything(pcli, small_captures, tmp_path, packer):
    if shutil.which(packer) is None:
        pytest.skip(f"{packer} is not installed")
    capture = small_captures / SHARED
    packed = bytearray(subprocess.run([packer, "-c", str(capture)], capture_output=True, check=True).stdout)
    packed[-8 if packer == "gzip" else -1] ^= 1
    path = tmp_path / "packed"
    path.write_bytes(packed)
    result = pcli("dissect", "-r", path)
    assert result.code == 3
    assert result.out == pcli("dissect", "-r", capture).out
    assert len(result.err.splitlines()) == 1
    assert "checksum" in result.err
    assert f"(at byte {len(packed) - (5 if packer == 'gzip' else 4)}" in result.err


def test_tls_is_reported_with_the_remedy(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / "python/21-tls.pcapng")
    assert result.out == ""
    assert re.search(r"connections? (is|are) TLS \(port \d+\): give the session keys with --keylog FILE", result.err)


def test_lost_packets_are_reported(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / "python/37-packets-lost.pcap")
    assert result.code == 0
    assert "bytes are missing from the capture" in result.err


def test_line_buffered_output(small_captures):
    """The capture is not complete when the first line is read."""
    command = [sys.executable, "-m", "pcli.cli", "dissect", "-l", "-r", "-"]
    data = (small_captures / SHARED).read_bytes()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(data[: len(data) // 2])
        process.stdin.flush()
        assert b"CONNECT" in process.stdout.readline()
        process.stdin.close()


def test_unwritable_output(pcli, small_captures):
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "pcli.cli", "dissect", "-r", str(small_captures / SHARED)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_live_interface(listening):
    """Real packets on loopback, with any available capture program. -f excludes the traffic of other programs."""
    server = socket.create_server(("127.0.0.1", 0))
    process = listening("dissect", "-f", f"tcp port {server.getsockname()[1]}")
    with server, socket.create_connection(server.getsockname()) as client:
        accepted, (_, port) = server.accept()
        with accepted:
            client.sendall(push_frame(pb.CommandConnect(client_version="live", protocol_version=21)))
            accepted.recv(1000)
            accepted.sendall(push_frame(pb.CommandConnected(server_version="fake", protocol_version=21)))
            client.recv(1000)
            assert f" 127.0.0.1:{port} → CONNECT              live  v21" in process.stdout.readline()
            assert f" 127.0.0.1:{port} ← CONNECTED            fake  v21" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_a_capture_filter_requires_a_live_capture(pcli, small_captures):
    ran = pcli("dissect", "-r", small_captures / SHARED, "-f", "tcp port 6650")
    assert ran.code == 2
    assert ran.err == "pcli: -f filters the packets of a live capture and requires -i; -Y filters frames\n"


def hashes(capture):
    """Return the hashes of all messages that the applications sent or received."""
    return {event["sha1"] for event in truth(capture)["events"] if event["type"] in ("produced", "received")}


@pytest.mark.parametrize("name", ["go/chunks.pcap", "python/08-encrypted.pcapng", "python/03-compression-lz4.pcap.gz"])
def test_json_contains_decoded_payloads(pcli, small_captures, name):
    """Chunks are joined, decrypted and decompressed, in JSON and in columns, as the application received them."""
    capture = small_captures / name
    key = small_captures / "python/08-encrypted.test-private-key.pem"
    asked = ("dissect", "-r", capture, "-Y", "pulsar.type == MESSAGE and pulsar.opened", "--private-key", key)
    rows = [json.loads(line) for line in pcli(*asked, "-T", "ndjson", "--payload").lines]
    found = {hashlib.sha1(bytes.fromhex(row["pulsar.opened"])).hexdigest()[:12] for row in rows}
    assert len(found) > 3
    assert found <= hashes(capture)
    columns = pcli(*asked, "-T", "fields", "-e", "pulsar.opened", "--payload").lines
    assert columns == [row["pulsar.opened"] for row in rows]


def test_values_in_columns_and_filters(pcli, small_captures):
    asked = ("dissect", "-r", small_captures / "java/schemas.pcap", "-Y", 'pulsar.value contains "S28"')
    result = pcli(*asked, "-T", "fields", "-e", "pulsar.type", "-e", "pulsar.value", "--payload")
    value = '{"symbol": "S28", "price": 52.66, "volume": 991}'
    assert result.lines == [f"SEND\t{value}", f"MESSAGE\t{value}"]
    # The payload is hidden without --payload, but the filter finds it.
    hidden = pcli(*asked, "-T", "ndjson")
    assert [json.loads(line)["pulsar.type"] for line in hidden.lines] == ["SEND", "MESSAGE"]
    assert "S28" not in hidden.out
    result = pcli(*asked[:3], "-T", "fields", "-e", "pulsar.value")
    assert f"<hidden: {len(value)} bytes>" in result.lines
    assert "S28" not in pcli(*asked).out
    types = json.loads(pcli("stats", "types", *asked[1:], "-T", "json").out)
    assert sum(row["frames"] for row in types) == 2


def test_json_is_one_array(pcli, small_captures):
    rows = json.loads(pcli("dissect", "-r", small_captures / SHARED, "-T", "json").out)
    lines = pcli("dissect", "-r", small_captures / SHARED, "-T", "ndjson").lines
    assert rows == [json.loads(line) for line in lines]
    assert json.loads(pcli("dissect", "-r", small_captures / SHARED, "-T", "json", "-Y", "tcp.stream == 999").out) == []


def test_packet_numbers(pcli, small_captures):
    first = pcli("dissect", "-r", small_captures / SHARED, "-T", "ndjson", "-c", "1").lines[0]
    number = json.loads(first)["frame.number"]
    result = pcli("dissect", "-r", small_captures / SHARED, "--packet-numbers", "-c", "1")
    assert result.lines[0].split()[:4] == ["frame", "1", "packet", str(number)]
    followed = pcli("follow", "-r", small_captures / SHARED, "--packet-numbers", "--stream", "0")
    assert followed.lines[0].split()[2] == "packet"


def test_a_closed_stdout_leaves_the_file_of_w_complete(pcli, small_captures, tmp_path):
    command = f"{sys.executable} -m pcli.cli dissect -r {small_captures / SHARED} -w"
    whole, part = tmp_path / "whole.pcapng", tmp_path / "part.pcapng"
    subprocess.run(f"{command} {whole} >/dev/null", shell=True, check=True)
    # With a further command, every shell waits for the whole pipeline.
    done = subprocess.run(f"{command} {part} | head -0; true", shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert part.read_bytes() == whole.read_bytes()


def test_a_filter_that_matches_nothing_is_explained(pcli, small_captures):
    result = pcli("dissect", "-r", small_captures / SHARED, "-Y", "tcp.stream == 999")
    assert (result.code, result.out) == (0, "")
    assert re.fullmatch(r"pcli: none of [\d,]+ Pulsar frames matches the filter\n", result.err)
