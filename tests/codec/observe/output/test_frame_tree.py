"""The tree contains every present field."""

from pcli.codec.observe.output.frame_tree import hex_lines, shown_bytes, tree_lines
from pcli.codec.observe.single_frame import flatten_loose, loose_facts
from pcli.codec.proto import pb
from pcli.codec.wire import Frame, push_entry, push_frame
from pcli.codec.wire.build import join_frame


def tree(data, **options):
    return list(tree_lines(loose_facts(Frame.of(data), 1, from_client=True), **options))


def test_every_field_of_every_part():
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=5, publish_time=1, properties=[pb.KeyValue(key="color", value="red")]
    )
    entry = push_entry(metadata, b"hello", broker_entry=pb.BrokerEntryMetadata(index=7))
    lines = tree(push_frame(pb.CommandSend(producer_id=1, sequence_id=5), entry))
    assert lines[1:4] == ["  send", "    producer_id: 1", "    sequence_id: 5"]
    assert lines[4:6] == ["  broker entry", "    index: 7"]
    assert lines[6].startswith("  checksum: 0x")
    assert lines[6].endswith(" (good)")
    assert lines[7:] == [
        "  metadata",
        "    producer_name: p",
        "    sequence_id: 5",
        "    publish_time: 1",
        "    properties: color = red",
        "  payload: 5 bytes",
    ]


def test_unknown_fields_and_types_are_shown():
    assert "    unknown field 100: 7" in tree(join_frame(b"\x08\x0b\x5a\x07\x08\x01\x10\x0a\xa0\x06\x07"))
    assert tree(join_frame(b"\x08\xc8\x01"))[0].startswith("UNKNOWN_200")


def test_secrets_are_hidden_unless_requested():
    connect = push_frame(pb.CommandConnect(client_version="x", auth_data=b"secret"))
    assert "    auth_data: <hidden: 6 bytes>" in tree(connect)
    assert f"    auth_data: {b'secret'.hex()}" in tree(connect, secrets=True)


def test_masked_bytes_keep_their_length():
    data = pb.AuthData(auth_method_name="token", auth_data=b"secret")
    frame = loose_facts(Frame.of(push_frame(pb.CommandAuthResponse(response=data))), 1, from_client=True).frame
    masked = Frame.of(shown_bytes(frame))
    assert len(masked.data) == len(frame.data)
    assert masked.command.authResponse.response.auth_data == b"******"
    assert masked.command.authResponse.response.auth_method_name == "token"
    assert shown_bytes(frame, secrets=True) == frame.data


def test_problems_are_shown():
    wrong = push_frame(
        pb.CommandSend(producer_id=1, sequence_id=1),
        push_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), b"x")[:-1] + b"y",
    )
    assert any(line.startswith("  problem: checksum: 0x") for line in tree(wrong))


def test_a_single_frame_has_no_packet_fields():
    flat = flatten_loose(loose_facts(Frame.of(push_frame(pb.CommandPing())), 1, from_client=True))
    assert flat["pulsar.type"] == "PING"
    assert all(name.startswith("pulsar.") for name in flat)


def test_hex_lines_equal_tsharks():
    assert list(hex_lines(bytes(range(60, 80)))) == [
        "0000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b   <=>?@ABCDEFGHIJK",
        "0010  4c 4d 4e 4f                                       LMNO",
    ]
