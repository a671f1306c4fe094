"""`pcli fields`: the names that filters, columns and JSON share."""

import json

from pcli.codec.proto import pb


def test_a_pattern(pcli):
    result = pcli("fields", "message_id")
    assert result.code == 0
    names = [line.split()[0] for line in result.lines]
    assert {"pulsar.message_id", "pulsar.message.message_id.ledgerId"} <= set(names)


def test_every_command_is_there(pcli):
    names = [row["name"] for row in json.loads(pcli("fields", "-T", "json").out)]
    for field in pb.BaseCommand.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.fields:
            assert any(name.startswith(f"pulsar.{field.name}.") for name in names), field.name
    assert len(names) == len(set(names))


def test_nothing_found_is_exit_code_1(pcli):
    result = pcli("fields", "no-such-thing-at-all")
    assert (result.code, result.out) == (1, "")
