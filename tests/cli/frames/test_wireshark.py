"""`pcli wireshark`: tshark with the dissector finds the frames and values that `pcli dissect` finds."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import ssl
import subprocess
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from pcli.codec.capture.tap_recording import Recording
from pcli.codec.observe.fields.field_table import all_fields
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_frame
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wireshark import lua_dissector
from pcli.minibroker.embedded.self_signed_certificate import create

FIELDS = {field.name: field for field in all_fields()}
WIRE = {
    name
    for name, field in FIELDS.items()
    if re.fullmatch(r"\w+\.\w+ = \d+", field.source) and field.element != "message"
}
OTHER = {
    f"pulsar.{name}"
    for name in ("type", "from", "length", "number", "checksum", "missing", "answer_to", "latency", "request_id",
                 "producer_id", "consumer_id", "sequence_id", "message_id", "topic", "subscription", "producer_name",
                 "consumer_name", "error", "payload_size")
} | {"pulsar.batch.index", "tcp.stream"}  # fmt: skip
REORDERED = ("38-repeated-reordered",)
"""Captures with reordered packets. By default, Wireshark processes packets in the order in which they were captured."""
UNFINISHED = ("36-ends-mid-frame",)
"""Captures that end within a frame. Wireshark never calls a dissector for its bytes."""
LOSSY = ("37-packets-lost",)
"""Captures with gaps. pcli returns the frames after a gap later, when it is certain that the bytes do not follow."""
ORDER = {"pulsar.number", "pulsar.answer_to", "pulsar.latency"}


@pytest.fixture(scope="module")
def dissector(tmp_path_factory):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    path = tmp_path_factory.mktemp("lua") / "pulsar.lua"
    path.write_text(lua_dissector("test"), "utf-8")
    return path


def tshark(dissector, capture, *arguments):
    """Run tshark with the dissector; fail if Lua reports an error."""
    command = ["tshark", "-X", f"lua_script:{dissector}", "-r", str(capture), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    assert b"Lua" not in done.stderr, done.stderr.decode()
    assert b"Lua Error" not in done.stdout
    return done.stdout


def dissected(dissector, capture):
    """Return the values of each frame by field."""
    order = "TRUE" if capture.name.startswith(REORDERED) else "FALSE"
    key_log = ["-o", f"tls.keylog_file:{key_log_of(capture)}"] if key_log_of(capture).exists() else []
    out = tshark(dissector, capture, "-o", f"tcp.reassemble_out_of_order:{order}", *key_log, "-T", "pdml")
    frames = []
    for packet in ElementTree.fromstring(out):
        for proto in packet.iterfind("proto[@name='pulsar']"):
            values = defaultdict(list)
            for field in (packet.find("proto[@name='tcp']/field[@name='tcp.stream']"), *proto.iter("field")):
                if field.get("name") in WIRE | OTHER:
                    values[field.get("name")].append(value(field))
            frames.append(dict(values))
    return frames


def key_log_of(capture):
    return capture.with_suffix(".keylog")


def value(element):
    """Return the value of a field in the form of `pcli dissect -T json`."""
    field, text = FIELDS[element.get("name")], element.get("show")
    if field.name == "pulsar.type":
        return COMMANDS[int(text)].name
    match field.element if field.name in WIRE else "other":
        case "text":
            return bytes.fromhex(element.get("value", "")).decode("utf-8", "backslashreplace")
        case "bytes":
            return element.get("value", "")
        case "bool":
            return text in ("1", "True")
        case "enum":
            return {number: word for word, number in field.words}.get(int(text), f"UNKNOWN_{text}")
        case "number":
            return float(text) if "." in text else int(text)
        case "time":
            seconds, nanoseconds = re.fullmatch(r"(.*)\.(\d{9}) UTC", text).groups()
            moment = datetime.strptime(seconds, "%b %d, %Y %H:%M:%S").replace(tzinfo=UTC)
            return f"{moment.timestamp():.0f}.{nanoseconds}"
    return int(text) if field.element == "number" else text


def expected(pcli, capture):
    key_log = ["--keylog", key_log_of(capture)] if key_log_of(capture).exists() else []
    ran = pcli("dissect", "-r", capture, *key_log, "-T", "ndjson", "--system", "--show-secrets", "--payload")
    frames = []
    for line in ran.lines:
        values = defaultdict(list)
        for name, one in json.loads(line).items():
            flatten(name, one, values)
        frames.append({name: some for name, some in values.items() if name in WIRE | OTHER})
    return frames


def flatten(name, one, values):
    if isinstance(one, dict):
        for key, inner in one.items():
            flatten(f"{name}.{key}", inner, values)
    elif isinstance(one, list):
        for inner in one:
            flatten(name, inner, values)
    elif name in FIELDS and FIELDS[name].element != "message":
        values[name].append(one)


def without_closed_batches(frames):
    """Remove the messages of batches that Wireshark cannot open: compressed with LZ4, ZSTD or SNAPPY, or encrypted."""
    for frame in frames:
        compression = frame.get("pulsar.metadata.compression", ["NONE"])[0]
        if compression not in ("NONE", "ZLIB") or "pulsar.metadata.encryption_keys.key" in frame:
            yield {name: some for name, some in frame.items() if not name.startswith("pulsar.batch.")}
        else:
            yield frame


def by_direction(frames):
    """Return the frames of each direction of each connection, without values that depend on the order of directions."""
    frames = [{name: some for name, some in frame.items() if name not in ORDER} for frame in frames]
    return sorted(frames, key=lambda frame: (frame["tcp.stream"], frame["pulsar.from"]))


def check(dissector, pcli, capture):
    found, wanted = dissected(dissector, capture), list(without_closed_batches(expected(pcli, capture)))
    if capture.name.startswith(UNFINISHED):
        wanted.pop()
    if capture.name.startswith(LOSSY):
        found, wanted = map(by_direction, (found, wanted))
    assert [frame["pulsar.type"] for frame in found] == [frame["pulsar.type"] for frame in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine == theirs


SMALL = ("java/schemas.pcap", "java/txn-commit.pcap", "java/cut-packets.pcap", "java/late-capture.pcap",
         "go/compressions.pcapng", "flex/04-reconnect.pcapng", "python/37-packets-lost.pcap")  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_frames_and_values_equal_those_of_dissect(dissector, pcli, small_captures, name):
    check(dissector, pcli, small_captures / name)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["flex", "go", "java", "python", "rust"])
def test_all_captures(dissector, pcli, captures, client):
    for capture in sorted((captures / client).glob("*.pcap*")):
        check(dissector, pcli, capture)


@pytest.mark.parametrize("seed", range(8))
def test_a_mutated_capture_causes_no_lua_error(dissector, small_captures, tmp_path, seed):
    chosen = random.Random(seed)
    data = bytearray((small_captures / chosen.choice(SMALL[:3])).read_bytes())
    for _ in range(len(data) // 100):
        data[chosen.randrange(24, len(data))] = chosen.randrange(256)
    mutated = tmp_path / "mutated.pcap"
    mutated.write_bytes(data)
    tshark(dissector, mutated, "-V")


def test_another_port_is_recognised(dissector, small_captures):
    capture = small_captures / "java" / "schemas.pcap"
    usual = tshark(dissector, capture, "-Y", "pulsar.type", "-T", "fields", "-e", "frame.number")
    other = tshark(dissector, capture, "-o", "pulsar.port:1", "-Y", "pulsar.type", "-T", "fields", "-e", "frame.number")
    assert usual == other != b""


def test_a_refused_request_is_expert_information(dissector, small_captures):
    filter_ = "pulsar.expert.refused && pulsar.error == ServiceNotReady && pulsar.request_in"
    assert tshark(dissector, small_captures / "flex" / "04-reconnect.pcapng", "-2", "-Y", filter_)


def test_install_writes_to_the_personal_plugin_folder(pcli, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pcli("wireshark", "--install").code == 0
    [written] = tmp_path.rglob("*.lua")
    assert written.read_text() == pcli("wireshark").out[:-1]
    if shutil.which("tshark"):
        folders = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=True).stdout
        assert str(written.parent) in folders


def test_the_name_of_the_plugin_folder_may_be_other_than_utf_8(pcli, tmp_path, monkeypatch):
    home = tmp_path / os.fsdecode(b"\xff")
    monkeypatch.setenv("HOME", str(home))
    ran = pcli("wireshark", "--install")
    assert (ran.code, len(ran.err.splitlines())) == (0, 1)
    assert list(home.rglob("*.lua"))


def test_a_folder_that_is_not_writable_is_one_line(pcli, tmp_path):
    (tmp_path / "file").touch()
    ran = pcli("wireshark", "-o", tmp_path / "file" / "pulsar.lua")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)


CLIENT, BROKER = ("127.0.0.1", 40000), ("127.0.0.1", 6650)
CONNECT = push_frame(pb.CommandConnect(client_version="test"))


@pytest.fixture
def sent(dissector, tmp_path):
    """Run tshark on packets of a client. Return its output, which must not contain an error of Lua."""

    def run(*packets, arguments=()):
        capture = tmp_path / "sent.pcapng"
        with capture.open("wb") as file:
            recording = Recording(file)
            recording.opened(0, CLIENT, BROKER, 1)
            for number, data in enumerate((CONNECT, *packets), 2):
                recording.passed(0, data, number, from_client=True)
        return tshark(dissector, capture, *arguments).decode()

    return run


def fields(*names):
    return ("-Y", "tcp.len > 0", "-T", "fields", *(word for name in names for word in ("-e", name)))


def test_control_characters_of_a_topic_do_not_reach_the_terminal(sent):
    topic = "a\x1b]0;b\x07\x9b31m\r\n\u202ec\u2066d é"
    producer = push_frame(pb.CommandProducer(topic=topic, producer_id=1, request_id=1))
    for arguments in ((), ("-V",)):
        out = sent(producer, arguments=arguments)
        assert r"PRODUCER a\x1b]0;b\x07\x9b31m\x0d\x0a\u202ec\u2066d é request 1" in out
        assert all(line.isprintable() for line in out.splitlines())


def test_bytes_that_are_not_utf_8_are_escaped_as_in_dissect(sent):
    producer = push_frame(pb.CommandProducer(topic="topic é", producer_id=1, request_id=1))
    out = sent(producer.replace(b"topic", b"\xff\xe0\x80\xc3\xed"), arguments=fields("pulsar.topic", "_ws.col.Info"))
    assert out.splitlines()[-1] == "\\xff\\xe0\\x80\\xc3\\xed é\tPRODUCER \\xff\\xe0\\x80\\xc3\\xed é request 1"


def test_a_large_id_has_the_same_value_in_both_fields(sent):
    ids = (2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
    closed = [push_frame(pb.CommandCloseProducer(producer_id=1, request_id=one)) for one in ids]
    out = sent(*closed, arguments=fields("pulsar.request_id", "pulsar.close_producer.request_id"))
    found = [line.split("\t") for line in out.splitlines()[1:]]
    assert found == [[str(2**63 - 1)] * 2, [str(-(2**63))] * 2, ["-2", "-2"], ["-1", "-1"]]


def test_a_frame_without_a_command_is_malformed(sent):
    assert "The command is not valid" in sent(join_frame(b""), arguments=("-V",))


def test_frames_after_the_end_of_a_frame_are_separated_in_the_info_column(sent):
    ping = push_frame(pb.CommandPing())
    out = sent(ping + ping[:9], ping[9:] + ping * 2, arguments=fields("_ws.col.Info"))
    assert out.splitlines() == ["CONNECT", "PING", "PING, PING, PING"]


def test_a_hostile_packet_takes_linear_time(sent):
    """With quadratic time, this test takes minutes."""
    ping = push_frame(pb.CommandPing())
    unknown = join_frame(b"\x08\x88\x01\x08\x08\x08")
    junk = b"\xff" * 30
    out = sent(junk + ping * 4900 + junk, unknown * 4500 + junk, arguments=fields("pulsar.skipped", "pulsar.type"))
    skipped, unknowns = (line.split("\t") for line in out.splitlines()[1:])
    assert len(bytes.fromhex(skipped[0])) == 2 * len(junk) + 4900 * len(ping)
    assert unknowns == [junk.hex(), ",".join(["136"] * 4500)]


def test_tls_records_of_the_same_size_in_a_packet_are_different_frames(dissector, tmp_path):
    """Two CLOSE_PRODUCERs in a packet, then their responses in a packet."""
    capture, key_log = tmp_path / "tls.pcapng", tmp_path / "keys.log"
    with capture.open("wb") as file:
        recording = Recording(file)
        recording.opened(0, CLIENT, ("127.0.0.1", 6651), 1)
        client, server, transfer = tls_ends(tmp_path, key_log, recording)
        for request_id in (1, 2):
            client.write(push_frame(pb.CommandCloseProducer(producer_id=1, request_id=request_id)))
        transfer()
        for request_id in (2, 1):
            server.write(push_frame(pb.CommandSuccess(request_id=request_id)))
        transfer()
    arguments = fields("pulsar.number", "pulsar.answer_to", "_ws.col.Info")
    out = tshark(dissector, capture, "-o", f"tls.keylog_file:{key_log}", *arguments).decode()
    closed, succeeded = out.splitlines()[-2:]
    assert closed.split("\t") == ["1,2", "", "CLOSE_PRODUCER request 1, CLOSE_PRODUCER request 2"]
    assert succeeded.split("\t") == ["3,4", "2,1", "SUCCESS request 2, SUCCESS request 1"]


def tls_ends(folder, key_log, recording):
    """Return both ends of a TLS connection, and a function that transfers and records what they have written."""
    made = create(folder, "localhost")
    accepting, connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accepting.load_cert_chain(made.certificate, made.key)
    connecting.check_hostname, connecting.verify_mode = False, ssl.CERT_NONE
    connecting.keylog_filename = str(key_log)
    received, written = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}, {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}
    client = connecting.wrap_bio(received[True], written[True])
    server = accepting.wrap_bio(received[False], written[False], server_side=True)

    def transfer():
        for from_client in (True, False):
            data = written[from_client].read()
            if data:
                recording.passed(0, data, 2, from_client=from_client)
                received[not from_client].write(data)

    for end in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
        transfer()
    return client, server, transfer
