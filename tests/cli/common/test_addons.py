"""-s: scripts whose functions are called for frames of a capture, a proxy and a broker."""

import json
import re
from pathlib import Path

import pytest

from pcli.cli.common import addons
from pcli.cli.common.addons import Addon, AddonFault
from pcli.codec.errors import LocalError
from pcli.codec.faults import Faults, Injector
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame

PING, PONG = push_frame(pb.CommandPing()), push_frame(pb.CommandPong())


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "addon.py"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def capture(small_captures):
    return small_captures / "python" / "25-no-flow.pcapng"


def test_each_frame_of_a_capture_is_passed(pcli, script, capture, tmp_path):
    path = script(f"""
import json
seen = []
def connection(connection):
    seen.append(["connection", connection.number, connection.server[1]])
def frame(frame):
    seen.append([frame.number, frame.type, frame.from_client, frame["pulsar.topic"], len(frame.data)])
def done():
    with open({str(tmp_path / "seen.json")!r}, "w") as file:
        json.dump(seen, file)
""")
    plain = pcli("dissect", "-r", capture, "-T", "ndjson")
    assert pcli("dissect", "-r", capture, "-T", "ndjson", "-s", path).out == plain.out
    rows = [json.loads(line) for line in plain.out.splitlines()]
    first, *frames = json.loads((tmp_path / "seen.json").read_text())
    assert first == ["connection", 0, 6650]
    frames = [one for one in frames if one[0] != "connection"]
    assert [one[:2] for one in frames] == [[row["pulsar.number"], row["pulsar.type"]] for row in rows]
    assert [one[3] for one in frames] == [row.get("pulsar.topic") for row in rows]


def test_only_matching_frames_are_passed(pcli, script, capture):
    path = script("def frame(frame):\n    print(frame.type)\n")
    found = pcli(
        "dissect", "-r", capture, "-s", path, "-Y", "pulsar.type == 'SUBSCRIBE'", "-T", "fields", "-e", "pulsar.type"
    )
    assert set(found.out.split()) == {"SUBSCRIBE"}


def test_an_error_is_one_line_and_the_frames_are_still_printed(pcli, script, capture):
    path = script("def frame(frame):\n    frame['pulsar.nothing']\n")
    found = pcli("dissect", "-r", capture, "-s", path)
    assert found.code == 1
    [line] = found.err.splitlines()
    assert line.startswith(f"pcli: {path}:2: no field 'pulsar.nothing'; did you mean ")
    assert found.out == pcli("dissect", "-r", capture).out


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def frame(:\n", "{}:1: SyntaxError: invalid syntax"),
        ("x = 1 / 0\n", "{}:1: ZeroDivisionError: division by zero"),
        ("raise SystemExit('no')\n", "{}:1: SystemExit: no"),
        ("x = 1\n", "{}: the script defines none of the functions frame, connection, done"),
    ],
)
def test_a_script_that_cannot_be_loaded(pcli, script, capture, text, error):
    path = script(text)
    found = pcli("dissect", "-r", capture, "-s", path)
    assert (found.code, found.out) == (2, "")
    assert found.err == f"pcli: {error.format(path)}\n"


def test_a_missing_script(tmp_path):
    with pytest.raises(LocalError) as raised:
        Addon(str(tmp_path / "none.py"))
    assert raised.value.text == f"{tmp_path / 'none.py'}: no such file or directory"


def test_actions_need_a_proxy_or_a_broker(pcli, script, capture):
    found = pcli("dissect", "-r", capture, "-s", script("def frame(frame):\n    frame.drop()\n"))
    assert "addon.py:2: actions are possible in pcli proxy and pcli broker only" in found.err


class Wire:
    """A connection through an injector with one script."""

    def __init__(self, path):
        self.fault = AddonFault(Addon(str(path)))
        self.injector = Injector(Faults([self.fault]), LiveFrames())
        self.injector.open(0, ("10.0.0.1", 50_000), ("10.0.0.2", 6650))

    def send(self, data, *, from_client=True):
        steps = self.injector.feed(0, data, 0, from_client=from_client)
        return [(step.due_ns // 1_000_000, step.to_broker, "cut" if step.cut else bytes(step.data)) for step in steps]


@pytest.mark.parametrize(
    ("action", "steps"),
    [
        ("drop()", [(0, True, PONG)]),
        ("delay(5)", [(5, True, PING + PONG)]),
        ("duplicate()", [(0, True, PING + PING + PONG)]),
        ("reorder()", [(0, True, PONG + PING)]),
        ("close()", [(0, True, "cut")]),
    ],
)
def test_actions(script, action, steps):
    wire = Wire(script(f"def frame(frame):\n    if frame.type == 'PING':\n        frame.{action}\n"))
    assert wire.send(PING + PONG) == steps
    assert wire.fault.fired == 1


def test_a_request_is_refused(script):
    wire = Wire(script("def frame(frame):\n    frame.error('TopicNotFound: gone')\n"))
    lookup = push_frame(pb.CommandLookupTopic(topic="persistent://a/b/c", request_id=7))
    [(_, to_broker, data)] = wire.send(lookup)
    answer = Frame.of(data).body
    assert (to_broker, answer.request_id, answer.message) == (False, 7, "gone")
    assert wire.send(PING) == [(0, True, PING)]  # a PING has no response with an error


def test_a_command_is_replaced_and_the_payload_is_kept(script):
    wire = Wire(
        script("""
def frame(frame):
    command = frame.command
    command.num_messages = 5
    frame.replace(command)
""")
    )
    entry = push_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"payload")
    [(_, _, data)] = wire.send(push_frame(pb.CommandSend(producer_id=1, sequence_id=1, num_messages=1), entry))
    assert Frame.of(data).body.num_messages == 5
    assert data.endswith(entry)


def test_a_frame_passes_if_the_script_fails(script, capsys):
    path = script("def frame(frame):\n    frame.drop()\n    raise ValueError('two\\nlines')\n")
    wire = Wire(path)
    assert wire.send(PING + PING) == [(0, True, PING + PING)]
    assert capsys.readouterr().err == f"pcli: {path}:3: ValueError: two lines\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def frame(frame):\n    frame.delay(-5)\n", "2: delay(-5): write a number of milliseconds above 0"),
        ("def frame(frame):\n    frame.delay('5')\n", "2: delay('5'): write a number of milliseconds above 0"),
        ("def frame(frame):\n    frame.replace('x')\n", "2: replace('x'): write a command, such as frame.command"),
        ("\ndef frame():\n    pass\n", "2: TypeError: frame() takes 0 positional arguments but 1 was given"),
    ],
)
def test_wrong_arguments(script, capsys, text, error):
    path = script(text)
    assert Wire(path).send(PING) == [(0, True, PING)]
    assert capsys.readouterr().err == f"pcli: {path}:{error}\n"


def test_a_changed_script_is_loaded_again(script, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(addons.time, "monotonic", lambda: now[0])
    path = script("def frame(frame):\n    pass\n")
    wire = Wire(path)
    assert wire.send(PING) == [(0, True, PING)]
    script("def frame(frame):\n    frame.drop()\n")
    now[0] += 1
    assert wire.send(PING) == []
    script("def frame(frame:\n")
    now[0] += 1
    assert wire.send(PING) == []  # the last good version
    assert capsys.readouterr().err.splitlines() == [
        f"pcli: {path}: loaded again",
        f"pcli: {path}:1: SyntaxError: '(' was never closed",
    ]


def examples():
    text = (Path(__file__).parents[3] / "docs" / "addons.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_examples_of_the_documentation(script, capsys):
    by_topic, _, not_ready = examples()
    wire = Wire(script(by_topic))
    wire.send(push_frame(pb.CommandProducer(topic="t", producer_id=1, request_id=1)))
    wire.send(push_frame(pb.CommandSend(producer_id=1, sequence_id=1, num_messages=3)))
    wire.fault._addon.done()
    assert capsys.readouterr().err == "3 persistent://public/default/t\n"
    wire = Wire(script(not_ready))
    lookup = push_frame(pb.CommandLookupTopic(topic="persistent://a/b/c", request_id=7))
    assert [to_broker for _, to_broker, _ in wire.send(lookup * 3)] == [True, False]


def test_the_slow_topic_of_the_documentation(script):
    wire = Wire(script(examples()[1]))
    wire.send(push_frame(pb.CommandProducer(topic="persistent://public/default/slow", producer_id=1, request_id=1)))
    wire.send(push_frame(pb.CommandProducer(topic="fast", producer_id=2, request_id=2)))
    receipts = [push_frame(pb.CommandSendReceipt(producer_id=number, sequence_id=1)) for number in (2, 1)]
    assert [due for due, _, _ in wire.send(b"".join(receipts), from_client=False)] == [0, 500]


def test_a_script_with_a_dataclass(script):
    path = script("""
from dataclasses import dataclass

@dataclass
class Count:
    frames: int = 0

count = Count()

def frame(frame):
    count.frames += 1
""")
    wire = Wire(path)
    wire.send(PING)
    assert wire.fault._addon._module.count.frames == 1
