"""Text from the wire is printed, not executed: escape sequences, markup, and names that are paths."""

from __future__ import annotations

import re

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from tests.cli.test_planted_secrets import CASES, contents, record

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\r\u202e<script>alert(1)</script>[red]{{7*7}}../../../evil\n"
TOPIC = f"persistent://public/default/{EVIL}"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters that a terminal executes, without tab and newline, and changes of the text direction."""
READERS = {
    name: [args for args in cases if any("{capture}" in text for text in args) and not {"{url}", "{key}"} & {*args}]
    for name, cases in CASES.items()
    if name not in ("report",)
}
BASE = ("--admin", "--keylog", "--to")


def conversation():
    place = pb.MessageIdData(ledgerId=1, entryId=0)
    properties = [pb.KeyValue(key=EVIL, value=EVIL)]
    metadata = pb.MessageMetadata(
        producer_name=EVIL, sequence_id=0, publish_time=1, partition_key=EVIL, properties=properties
    )
    entry = push_entry(metadata, EVIL.encode())
    subscribe = pb.CommandSubscribe(
        topic=TOPIC, subscription=EVIL, subType=1, consumer_id=1, consumer_name=EVIL, request_id=2, metadata=properties
    )
    refused = {"error": pb.ServerError.Value("TopicNotFound"), "message": EVIL}
    return [
        (True, push_frame(pb.CommandConnect(client_version=EVIL, protocol_version=21, auth_method_name=EVIL))),
        (False, push_frame(pb.CommandConnected(server_version=EVIL, protocol_version=21))),
        (True, push_frame(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1, producer_name=EVIL))),
        (False, push_frame(pb.CommandProducerSuccess(request_id=1, producer_name=EVIL))),
        (True, push_frame(subscribe)),
        (False, push_frame(pb.CommandSuccess(request_id=2))),
        (True, push_frame(pb.CommandFlow(consumer_id=1, messagePermits=1))),
        (True, push_frame(pb.CommandSend(producer_id=1, sequence_id=0), entry)),
        (False, push_frame(pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=place))),
        (False, push_frame(pb.CommandMessage(consumer_id=1, message_id=place), entry)),
        (True, push_frame(pb.CommandLookupTopic(topic=TOPIC, request_id=3))),
        (False, push_frame(pb.CommandLookupTopicResponse(request_id=3, response=2, **refused))),
        (True, push_frame(pb.CommandProducer(topic=TOPIC, producer_id=2, request_id=4))),
        (False, push_frame(pb.CommandError(request_id=4, **refused))),
    ]


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    return record(tmp_path_factory.mktemp("hostile") / "talk.pcapng", conversation(), [(True, EVIL.encode() * 30)])


@pytest.mark.parametrize("command", [name for name, cases in READERS.items() if cases])
def test_control_characters_and_markup_are_not_printed(pcli, capture, tmp_path, monkeypatch, command):
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    found, printed = [], ""
    for arguments in READERS[command]:
        if any(option in arguments for option in BASE):
            continue
        result = pcli(*command.split(), *(text.format(capture=capture, out=folder) for text in arguments))
        printed += result.out
        for number, line in enumerate((result.out + result.err).split("\n")):
            if CONTROLS.search(line):
                found.append((arguments, number, line[:200]))
        if "<html" in result.out and "<script>alert" in result.out:
            found.append((arguments, "markup"))
    found += [page[:100] for page in contents(folder) if b"<html" in page and b"<script>alert" in page]
    assert found == []
    assert command not in ("dissect", "why", "trace", "stats topics") or "alert(1)" in printed
    assert list(tmp_path.rglob("*evil*")) == []
