"""The .proto compared with a list of its facts: messages, fields, numbers, labels, types, defaults, values."""

from __future__ import annotations

import csv
import re

import pytest
from google.protobuf.descriptor import FieldDescriptor

from pcli.codec.proto import pb

SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_DOUBLE: "double",
}


def rows(folder):
    with (folder / "api-facts.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def name_in_package(descriptor):
    return descriptor.full_name.removeprefix("pcli.pulsar.")


def our_facts():
    """Return the same rows from the descriptors."""

    def of_enum(enum):
        return {(name_in_package(enum), value.name, str(value.number), "", "", "") for value in enum.values}

    def default(field):
        if not field.has_default_value:
            return ""
        if field.enum_type is not None:
            return field.enum_type.values_by_number[field.default_value].name
        return str(field.default_value).lower() if isinstance(field.default_value, bool) else str(field.default_value)

    def kind(field):
        inner = field.message_type or field.enum_type
        return name_in_package(inner) if inner is not None else SCALARS[field.type]

    facts = set()
    for enum in pb.DESCRIPTOR.enum_types_by_name.values():
        facts |= of_enum(enum)
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        for enum in message.enum_types:
            facts |= of_enum(enum)
        for field in message.fields:
            label = "required" if field.is_required else "repeated" if field.is_repeated else "optional"
            facts.add((message.name, field.name, str(field.number), label, kind(field), default(field)))
        if not message.fields:
            facts.add((message.name, "(no fields)", "", "", "", ""))
    return facts


def later_facts(folder):
    """Return owner and number of the facts of Pulsar 5.0.1, from the tables of commands, fields and messages.

    That list does not distinguish signed and unsigned numbers, and it was read from Java's names of fields.
    """
    text = (folder / "5.0.1" / "diff-proto.md").read_text()
    facts = set()
    for name, number, body, field in re.findall(r"^\| (\w+) \| (\d+) \| (Command\w+) (\w+) \|", text, re.MULTILINE):
        facts |= {("BaseCommand.Type", name, number), ("BaseCommand", camel_case(field), number)}
        assert body == f"Command{camel_case(field, first_upper=True)}"
    facts |= {
        (owner, field, number)
        for owner, number, field in re.findall(r"^\| (\w+) \| (\d+) \| (\w+) \| \S+ \(?.*optional", text, re.MULTILINE)
    }
    for message in text.split("## New messages")[1].split("\n## ")[0].split("\n### ")[1:]:
        owner = message.partition("\n")[0]
        facts |= {
            (owner, field, number) for number, field in re.findall(r"^\| (\d+) \| (\w+) \|", message, re.MULTILINE)
        }
    return facts


def camel_case(name, *, first_upper=False):
    first, *rest = name.split("_")
    return (first.title() if first_upper else first) + "".join(word.title() for word in rest)


def test_the_proto_contains_exactly_the_listed_facts(protocol_facts):
    listed_rows = {
        (row["owner"], row["name"], row["number"] or "", row["label"] or "", row["type"] or "", row["default"] or "")
        for row in rows(protocol_facts)
    }
    ours, later = our_facts(), later_facts(protocol_facts)
    listed = protocol_facts / "api-facts.tsv"
    assert listed_rows - ours == set(), (
        f"codec/proto/pulsar_api.proto lacks facts of {listed}; after adding them: make proto"
    )
    assert {fact for fact in ours - listed_rows if fact[:3] not in later} == set(), (
        f"codec/proto/pulsar_api.proto has facts that are not in {listed} and not in the list of 5.0.1"
    )
    numbers = {(owner, number) for owner, _, number, *_ in ours}
    assert {fact for fact in later if (fact[0], fact[2]) not in numbers} == set()


@pytest.mark.parametrize("number", pb.BaseCommand.Type.values())
def test_type_and_field_of_a_command_have_the_same_number(number):
    field = pb.BaseCommand.DESCRIPTOR.fields_by_number[number]
    assert field.message_type is not None
    assert field.message_type.name.startswith("Command")
