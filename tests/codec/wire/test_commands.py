"""The table of commands and the descriptors agree in both directions."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS, PAYLOAD_TYPES, name_of

MEANINGS = (
    "request_id", "producer_id", "consumer_id", "sequence_id", "message_id", "topic", "subscription",
    "producer_name", "consumer_name", "error",
)  # fmt: skip


def body_of(row):
    return pb.BaseCommand.DESCRIPTOR.fields_by_number[row.number].message_type


def test_every_command_of_the_protocol_has_a_row_and_the_reverse():
    assert set(COMMANDS) == set(pb.BaseCommand.Type.values()), (
        "the rows of codec/wire/commands.py differ from BaseCommand.Type in codec/proto/pulsar_api.proto (make proto)"
    )
    assert len(COMMANDS) == 71, "the number of commands changed: correct it in this test if that is intended"


@pytest.mark.parametrize("row", COMMANDS.values(), ids=lambda row: row.name)
def test_row(row):
    field = pb.BaseCommand.DESCRIPTOR.fields_by_number[row.number]
    assert field.name == row.field
    assert pb.BaseCommand.Type.Name(row.number) == row.name
    assert row.sender in ("client", "broker", "both")
    assert 0 <= row.since <= max(pb.ProtocolVersion.values())
    for path in row.ids.values():
        inner = body_of(row)
        for word in path.split("."):
            assert word in inner.fields_by_name, path
            inner = inner.fields_by_name[word].message_type


@pytest.mark.parametrize("row", COMMANDS.values(), ids=lambda row: row.name)
def test_every_id_of_a_body_is_in_its_row(row):
    missing = {name for name in MEANINGS if name in body_of(row).fields_by_name} - set(row.ids)
    assert missing == set(), f"add them to the ids of {row.name} in codec/wire/commands.py"


@pytest.mark.parametrize("row", [row for row in COMMANDS.values() if row.answers], ids=lambda row: row.name)
def test_responses_come_from_the_other_side_with_the_pairing_field(row):
    assert row.paired_by
    for name in row.answers:
        answer = BY_NAME[name]
        assert answer.sender == "both" or answer.sender != row.sender or row.sender == "both"
        key = {"sequence": "sequence_id", "order": ""}.get(row.paired_by, row.paired_by)
        assert not key or key in body_of(answer).fields_by_name
        assert not key or key in body_of(row).fields_by_name


# The commands that a broker sends or accepts by the client's protocol version, as documented and observed on 4.2.4.
@pytest.mark.parametrize(
    ("version", "names"),
    [
        (1, "PING PONG"),
        (2, "REDELIVER_UNACKNOWLEDGED_MESSAGES"),
        (7, "LOOKUP LOOKUP_RESPONSE"),
        (8, "CONSUMER_STATS CONSUMER_STATS_RESPONSE"),
        (9, "REACHED_END_OF_TOPIC"),
        (12, "GET_LAST_MESSAGE_ID GET_LAST_MESSAGE_ID_RESPONSE ACTIVE_CONSUMER_CHANGE"),
        (12, "GET_TOPICS_OF_NAMESPACE GET_TOPICS_OF_NAMESPACE_RESPONSE"),
        (14, "AUTH_CHALLENGE AUTH_RESPONSE"),
        (15, "GET_OR_CREATE_SCHEMA GET_OR_CREATE_SCHEMA_RESPONSE"),
        (17, "ACK_RESPONSE"),
        (19, "TC_CLIENT_CONNECT_REQUEST TC_CLIENT_CONNECT_RESPONSE"),
        (20, "TOPIC_MIGRATED"),
    ],
)
def test_the_version_that_introduced_a_command(version, names):
    assert {name: BY_NAME[name].since for name in names.split()} == dict.fromkeys(names.split(), version)


def test_every_response_has_a_request():
    answers = {name for row in COMMANDS.values() for name in row.answers}
    assert {
        row.name for row in COMMANDS.values() if row.name.endswith(("_RESPONSE", "_SUCCESS", "_RECEIPT"))
    } <= answers


def test_features_are_flags_of_the_protocol():
    flags = {field.name for field in pb.FeatureFlags.DESCRIPTOR.fields}
    assert {row.feature for row in COMMANDS.values() if row.feature} <= flags


def test_an_unknown_number_has_a_name():
    assert name_of(200) == "UNKNOWN_200"
    assert {name_of(number) for number in PAYLOAD_TYPES} == {"SEND", "MESSAGE"}
