"""The table of fields contains every field of the descriptors, and its values equal protobuf's on real frames."""

from __future__ import annotations

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.observe import all_fields, column, describe_fields, find_field, flatten
from pcli.codec.observe.decoding.value_kinds import KINDS
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS, name_of
from pcli.codec.wire.message_id import MessageId

ID = pb.MessageIdData(ledgerId=3, entryId=4)

THE_ISSUE = """frame.number frame.time_epoch tcp.stream ip.src ip.dst tcp.srcport tcp.dstport pulsar.number pulsar.type
pulsar.from pulsar.length pulsar.sync pulsar.problem pulsar.checksum pulsar.answer_to pulsar.latency pulsar.answer_in
pulsar.request_id pulsar.producer_id pulsar.consumer_id pulsar.sequence_id pulsar.message_id pulsar.topic
pulsar.subscription pulsar.producer_name pulsar.consumer_name pulsar.key pulsar.error pulsar.subscribe.subType
pulsar.flow.messagePermits pulsar.metadata.publish_time pulsar.entry.index pulsar.message.redelivery_count"""


def leaves(message, path, above=()):
    for field in message.fields:
        if field.message_type is None:
            yield f"{path}.{field.name}"
        elif (*above, message).count(field.message_type) < 2:
            yield from leaves(field.message_type, f"{path}.{field.name}", (*above, message))


@pytest.mark.parametrize("name", THE_ISSUE.split())
def test_the_fields_of_the_issue_exist(name):
    assert find_field(name).name == name


def test_every_leaf_of_every_command_is_a_field():
    names = {field.name for field in all_fields()}
    base = pb.BaseCommand.DESCRIPTOR.fields_by_name
    wanted = {leaf for row in COMMANDS.values() for leaf in leaves(base[row.field].message_type, f"pulsar.{row.field}")}
    wanted |= set(leaves(pb.MessageMetadata.DESCRIPTOR, "pulsar.metadata"))
    wanted |= set(leaves(pb.BrokerEntryMetadata.DESCRIPTOR, "pulsar.entry"))
    wanted |= set(leaves(pb.SingleMessageMetadata.DESCRIPTOR, "pulsar.batch"))
    assert wanted <= names
    assert len(wanted) > 500


def test_the_list_is_complete_and_every_field_has_help():
    fields = all_fields()
    names = [field.name for field in fields]
    assert len(set(names)) == len(names)
    for field in fields:
        assert find_field(field.name) is field
        assert field.element in KINDS
        assert field.source
        assert field.help
        assert (field.element == "enum") == bool(field.words), field.name


def test_kinds():
    kinds = {
        "pulsar.subscribe.subType": "enum",
        "pulsar.ack.message_id": "list of message",
        "pulsar.ack.message_id.entryId": "list of number",
        "pulsar.ack.message_id.ack_set": "list of number",
        "pulsar.message.message_id.entryId": "number",
        "pulsar.message.ack_set": "list of number",
        "pulsar.metadata.publish_time": "time",
        "pulsar.metadata.schema_version": "bytes",
        "pulsar.consumerStatsResponse.msgRateOut": "number",
        "pulsar.latency": "duration",
        "pulsar.batch.partition_key": "list of text",
    }
    assert {name: find_field(name).kind for name in kinds} == kinds


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("pulsar.subcribe.subType", "pulsar.subscribe.subType"),
        ("pulsar.consumer", "pulsar.consumer_id"),
        ("subType", "pulsar.subscribe.subType"),
        ("redelivery_count", "pulsar.message.redelivery_count"),
    ],
)
def test_an_unknown_name_suggests_similar_ones(wrong, meant):
    with pytest.raises(LocalError) as raised:
        find_field(wrong)
    assert meant in raised.value.text


def test_describe_finds_by_name_and_by_help():
    flow = ["pulsar.flow.consumer_id", "pulsar.flow.messagePermits"]
    assert [field.name for field in describe_fields("pulsar.flow.")] == flow
    assert [field.name for field in describe_fields("flow.*permit?")] == flow[1:]
    assert "pulsar.subscribe.subType" in [field.name for field in describe_fields("SUBTYPE")]
    assert "pulsar.subscribe.subType" in [field.name for field in describe_fields("key_shared")]
    assert all("(" in field.name + field.help for field in describe_fields("("))
    assert describe_fields() == all_fields()


def test_ids_by_meaning_follow_the_table_of_commands(conversation):
    """Every command with every id in its row, written with protobuf and read by meaning."""
    for row in COMMANDS.values():
        body = getattr(pb.BaseCommand(), row.field)
        wanted = {}
        for place, (meaning, path) in enumerate(row.ids.items(), 5):
            *above, last = path.split(".")
            holder = body
            repeated = False
            for word in above:
                if holder.DESCRIPTOR.fields_by_name[word].is_repeated:
                    holder, repeated = getattr(holder, word).add(), True
                else:
                    holder = getattr(holder, word)
            field = holder.DESCRIPTOR.fields_by_name[last]
            value = 1 if field.enum_type else str(place) if field.message_type is None and field.type == 9 else place
            if meaning == "topic":
                value = f"persistent://public/default/{place}"
            if meaning == "message_id":
                target = getattr(holder, last)
                (target.add() if field.is_repeated else target).CopyFrom(ID)
                value = "3:4"
            elif field.is_repeated:
                getattr(holder, last).append(value)
            else:
                setattr(holder, last, value)
            repeated = repeated or field.is_repeated
            if field.enum_type:
                value = field.enum_type.values_by_number[1].name
            wanted[f"pulsar.{meaning}"] = [value] if repeated else value
        packed = pb.BaseCommand(type=row.number)
        getattr(packed, row.field).CopyFrom(body)
        command = packed.SerializePartialToString()
        frame = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
        facts = conversation.say(frame, b"", row.number, from_client=row.client_may_send)
        assert {name: find_field(name).get(facts) for name in wanted} == wanted, row.name


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (pb.MessageIdData(ledgerId=3, entryId=4), "3:4"),
        (pb.MessageIdData(ledgerId=3, entryId=4, partition=-1, batch_index=-1), "3:4"),
        (pb.MessageIdData(ledgerId=3, entryId=4, partition=2), "3:4:2"),
        (pb.MessageIdData(ledgerId=3, entryId=4, partition=2, batch_index=1), "3:4:2:1"),
        (pb.MessageIdData(ledgerId=3, entryId=4, batch_index=1), "3:4:-1:1"),
        (pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1), "-1:-1"),
        (pb.MessageIdData(ledgerId=2**64 - 2, entryId=2**63 - 1), f"-2:{2**63 - 1}"),
    ],
)
def test_message_ids_as_text(conversation, place, text):
    field = find_field("pulsar.message_id")
    assert text == str(MessageId.of(place))
    bodies = [
        pb.CommandMessage(consumer_id=1, message_id=place),
        pb.CommandMessage(consumer_id=1, message_id=place, ack_set=[1]),
        pb.CommandSendReceipt(producer_id=1, sequence_id=1, message_id=place),
        pb.CommandSeek(consumer_id=1, request_id=1, message_id=place),
    ]
    assert [field.get(conversation.broker(body)) for body in bodies] == [text] * len(bodies)
    acks = pb.CommandAck(consumer_id=1, ack_type=0, message_id=[place, ID])
    assert field.get(conversation.client(acks)) == [text, "3:4"]


def test_the_key_of_a_message_and_the_keys_of_a_batch(conversation):
    key = find_field("pulsar.key")
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, partition_key="k")
    send = pb.CommandSend(producer_id=1, sequence_id=1)
    assert key.get(conversation.client(send, push_entry(metadata, b"x"))) == "k"
    metadata.num_messages_in_batch = 3
    batch = b""
    for name in ("a", None, "b"):
        single = pb.SingleMessageMetadata(payload_size=1, partition_key=name).SerializeToString()
        batch += len(single).to_bytes(4, "big") + single + b"x"
    facts = conversation.client(send, push_entry(metadata, batch))
    assert key.get(facts) == ["a", "b"]
    assert find_field("pulsar.batch.index").get(facts) == [0, 1, 2]
    assert find_field("pulsar.batch.payload").get(facts) == [b"x"] * 3


def test_a_command_without_the_id_has_no_value(conversation):
    ping = conversation.client(pb.CommandPing())
    present = {field.name for field in all_fields() if field.get(ping) is not None}
    assert present == {
        "frame.number", "frame.time_epoch", "tcp.stream", "ip.src", "ip.dst", "ip.addr", "tcp.srcport", "tcp.dstport",
        "tcp.port", "pulsar.number", "pulsar.type", "pulsar.from", "pulsar.length", "pulsar.sync", "pulsar.system",
        "pulsar.ping",
    }  # fmt: skip


def test_general_fields_of_a_captured_frame(small):
    """The first SEND of a capture, compared with tshark's output for its packet."""
    facts = next(one for one in small.facts("go/nack") if name_of(one.frame.type) == "SEND")
    frame = facts.frame
    assert find_field("tcp.dstport").get(facts) == 6650
    assert find_field("ip.addr").get(facts) == ["127.0.0.1", "127.0.0.1"]
    assert find_field("pulsar.length").get(facts) == len(frame.data)
    assert find_field("pulsar.checksum").get(facts) == "good"
    assert find_field("pulsar.from").get(facts) == "client"
    assert find_field("pulsar.payload").get(facts) == frame.payload
    assert find_field("pulsar.payload_size").get(facts) == len(frame.payload)


def test_unknown_fields_can_be_looked_up(conversation):
    schema = pb.Schema(name="n", schema_data=b"", type=1)
    body = pb.CommandSubscribe(
        topic="t", subscription="s", subType=0, consumer_id=1, request_id=1, schema=schema
    ).SerializeToString()
    command = pb.BaseCommand(type=4, subscribe=pb.CommandSubscribe.FromString(body + b"\xa0\x06\x07"))
    packed = command.SerializeToString()
    facts = conversation.client((len(packed) + 4).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed)
    assert find_field("pulsar.subscribe.unknown.100").get(facts) == [7]
    assert find_field("pulsar.subscribe.schema.unknown.100").get(facts) is None
    assert flatten(facts)["pulsar.problem"] == ["unknown-field"]
    for wrong in ("pulsar.nothing.unknown.1", "pulsar.subscribe.topic.unknown.1", "pulsar.unknown.x"):
        with pytest.raises(LocalError):
            find_field(wrong)


def test_unknown_fields_inside_repeated_messages(conversation):
    place = pb.MessageIdData.FromString(ID.SerializeToString() + b"\xa2\x06\x02ab")
    nested = pb.MessageIdData(ledgerId=1, entryId=2, first_chunk_message_id=place)
    facts = conversation.client(pb.CommandAck(consumer_id=1, ack_type=0, message_id=[ID, place, nested]))
    assert find_field("pulsar.ack.message_id.unknown.100").get(facts) == [b"ab"]
    assert find_field("pulsar.ack.message_id.first_chunk_message_id.unknown.100").get(facts) == [b"ab"]
    assert find_field("pulsar.ack.message_id.first_chunk_message_id.entryId").get(facts) == [4]
    assert find_field("pulsar.ack.message_id.first_chunk_message_id").get(facts) is not None


def test_columns_equal_the_json(conversation):
    facts = conversation.client(pb.CommandConnect(client_version="x", auth_data=b"secret"))
    assert column(find_field("pulsar.connect.auth_data"))(facts) == "<hidden: 6 bytes>"
    assert column(find_field("pulsar.connect.auth_data"), secrets=True)(facts) == b"secret".hex()
    assert column(find_field("frame.time_epoch"))(facts) == "0.001000000"
    assert column(find_field("pulsar.connect"))(facts) is True
    ack = conversation.client(pb.CommandAck(consumer_id=1, ack_type=0, message_id=[ID]))
    assert column(find_field("pulsar.ack.message_id"))(ack) == [{"ledgerId": 3, "entryId": 4}]
    assert column(find_field("pulsar.ack.ack_type"))(ack) == "Individual"
    assert column(find_field("pulsar.topic"))(ack) is None


def test_names_are_added_to_frames_with_ids_only(conversation):
    topic = "persistent://public/default/t"
    subscribe = pb.CommandSubscribe(topic=topic, subscription="s", subType=1, consumer_id=1, request_id=1)
    conversation.client(subscribe)
    frames = [
        conversation.broker(pb.CommandSuccess(request_id=1)),
        conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)),
        conversation.broker(pb.CommandActiveConsumerChange(consumer_id=1)),
    ]
    for name, value in (("pulsar.topic", topic), ("pulsar.subscription", "s"), ("pulsar.consumer_id", 1)):
        assert [find_field(name).get(facts) for facts in frames] == [value] * 3
    assert BY_NAME["SUCCESS"].ids == {"request_id": "request_id"}
    assert push_frame(subscribe)
