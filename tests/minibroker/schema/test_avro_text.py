"""The text of Avro schemas in the errors of a real 4.2.4, with the order of keys in Avro's Schema.toJson."""

from __future__ import annotations

import json

from pcli.minibroker.schema.avro_compatibility import parse
from pcli.minibroker.schema.avro_text import MAX_TEXT, pretty_text

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
TEXT = """{
  "type" : "record",
  "name" : "R",
  "fields" : [ {
    "name" : "a",
    "type" : "string"
  } ]
}"""


def text(declared):
    return pretty_text(parse(json.dumps(declared).encode()))


def test_a_record_as_in_the_error_of_a_real_broker():
    assert text(RECORD) == TEXT


def test_the_text_is_parsed_as_the_same_schema():
    declared = {
        "fields": [
            {"type": {"symbols": ["A", "B"], "name": "E", "type": "enum", "default": "A", "doc": "d"}, "name": "e"},
            {"type": ["null", "E"], "name": "f", "default": None, "order": "ignore", "aliases": ["g"], "doc": "why"},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "x.F"}}},
            {"name": "n", "type": {"type": "fixed", "name": "x.F", "size": 4, "aliases": ["x.G"]}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
        "name": "R",
        "namespace": "n",
        "type": "record",
    }
    printed = json.loads(text(declared))
    assert list(printed) == ["type", "name", "namespace", "fields"]
    first, second, third, fourth, last = printed["fields"]
    assert first["type"] == {"type": "enum", "name": "E", "doc": "d", "symbols": ["A", "B"], "default": "A"}
    assert list(second) == ["name", "type", "doc", "default", "order", "aliases"]
    assert second["type"] == ["null", "E"]
    found = {"type": "fixed", "name": "F", "namespace": "x", "size": 4, "aliases": ["G"]}
    assert (third["type"]["values"]["items"], fourth["type"]) == (found, "x.F")
    assert last["type"] == {"type": "long", "logicalType": "timestamp-millis"}


def test_a_text_that_no_frame_can_contain_is_cut():
    """The indentation of fields in a nested record is longer than the fields."""
    declared = {"type": "record", "name": "E", "fields": [{"name": f"f{n}", "type": "int"} for n in range(10_000)]}
    for depth in range(40):
        declared = {"type": "record", "name": f"R{depth}", "fields": [{"name": "a", "type": declared}]}
    found = text(declared)
    assert len(found) == MAX_TEXT
    assert found.startswith('{\n  "type" : "record"')
    assert found.endswith("…")
