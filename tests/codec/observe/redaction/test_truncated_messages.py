"""The captured beginning of a message."""

from pcli.codec.observe.redaction import Names
from pcli.codec.observe.redaction.truncated_messages import redact_cut
from pcli.codec.proto import pb

SUBSCRIBE = pb.CommandSubscribe(
    topic="persistent://acme/shop/orders", subscription="bill", subType="Shared", consumer_id=3, request_id=4
)
COMMAND = pb.BaseCommand(type="SUBSCRIBE", subscribe=SUBSCRIBE)


def test_complete_fields_stay_without_names_at_every_size():
    data = COMMAND.SerializeToString()
    for size in range(len(data)):
        part = redact_cut(pb.BaseCommand, data[:size], Names())
        assert b"acme" not in part
        assert b"bill" not in part
        if size >= 2:
            assert part[:2] == b"\x08\x04"


def test_a_truncated_message_lacks_the_same_number_of_bytes():
    data = COMMAND.SerializeToString()
    part = redact_cut(pb.BaseCommand, data[:-3], Names())
    assert part[:3] == b"\x08\x04\x22"
    assert part[3] == len(part) - 4 + 3
    inside = pb.CommandSubscribe()
    inside.MergeFromString(part[4:])
    assert inside.topic == "persistent://tenant-1/namespace-1/topic-1"
    assert inside.subscription == "subscription-1"
    assert not inside.HasField("request_id")


def test_invalid_protobuf_gives_no_fields():
    assert redact_cut(pb.BaseCommand, b"\xff\xff\xff", Names()) == b""
    assert redact_cut(pb.BaseCommand, b"\x22\x02\xff\xff", Names()) == b""
