"""Avro's compatibility rules, compared with a real 4.2.4 broker (BACKWARD, over REST) and with fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import given
from hypothesis import strategies as st

from pcli.minibroker.schema.avro_compatibility import AvroError, can_read, normal_form, parse
from pcli.minibroker.schema.avro_text import pretty_text

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]

PROMOTED = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double"),
    ("bytes", "string"), ("string", "bytes"),
}  # fmt: skip


def rec(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """Return a record; a field is (name, type), (name, type, default), or in Avro's own form."""
    listed = [field if isinstance(field, dict) else dict(zip(("name", "type", "default"), field)) for field in fields]
    return {"type": "record", "name": name, "fields": listed, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: Any, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def f(kind: Any) -> dict[str, Any]:
    """Return a record with one field of this type."""
    return rec(("a", kind))


def fits(reader: Any, writer: Any) -> bool:
    try:
        can_read(parse(json.dumps(reader).encode()), parse(json.dumps(writer).encode()))
    except AvroError:
        return False
    return True


def is_valid(text: str) -> bool:
    try:
        parse(text.encode())
    except AvroError:
        return False
    return True


I = ("a", "int")  # noqa: E741

# (description, writer's schema, reader's schema)
READABLE: list[tuple[str, Any, Any]] = [
    ("field added with default", rec(I), rec(I, ("b", "int", 0))),
    ("field added with null default", rec(I), rec(I, ("b", ["null", "int"], None))),
    ("field removed", rec(I, ("b", "int")), rec(I)),
    ("fields in another order", rec(I, ("b", "int")), rec(("b", "int"), I)),
    ("field renamed with alias", rec(I), rec({"name": "b", "type": "int", "aliases": ["a"]})),
    ("record renamed", rec(I), rec(I, name="S")),
    ("record in another namespace", rec(I), rec(I, namespace="x.y")),
    ("record renamed with alias", rec(I), rec(I, name="S", aliases=["R"])),
    ("inner record renamed", f(rec(I, name="X")), f(rec(I, name="Y"))),
    ("enum the same", f(enum("A", "B")), f(enum("A", "B"))),
    ("enum symbol added", f(enum("A", "B")), f(enum("A", "B", "C"))),
    ("enum symbol removed", f(enum("A", "B")), f(enum("A"))),
    ("enum symbol removed, default", f(enum("A", "B")), f(enum("A", default="A"))),
    ("enum without common symbol", f(enum("A", "B")), f(enum("C"))),
    ("enum renamed with alias", f(enum("A")), f(enum("A", name="G", aliases=["E"]))),
    ("enum in another namespace", f(enum("A")), f(enum("A", namespace="n"))),
    ("fixed the same", f(fixed(4)), f(fixed(4))),
    ("array items promoted", f({"type": "array", "items": "int"}), f({"type": "array", "items": "long"})),
    ("map values promoted", f({"type": "map", "values": "int"}), f({"type": "map", "values": "double"})),
    ("int as union with int", f("int"), f(["null", "int"])),
    ("int as union with long", f("int"), f(["null", "long"])),
    ("union as its only branch", f(["int"]), f("int")),
    ("union of int and long as long", f(["int", "long"]), f("long")),
    ("union widened", f(["null", "int"]), f(["null", "int", "string"])),
    ("union in another order", f(["null", "int"]), f(["int", "null"])),
    ("union branches promoted", f(["null", "int"]), f(["null", "double"])),
    ("string as union with bytes", f("string"), f(["null", "bytes"])),
    ("record as union with it", f(rec(I, name="X")), f(["null", rec(I, name="X")])),
    ("record as union with another name", f(rec(I, name="X")), f(["null", rec(I, name="Y")])),
    ("record as union, the second fits", f(rec(I, name="X")), f([rec(("b", "string"), name="Y"), rec(I, name="Z")])),
    ("logical type added", f("long"), f({"type": "long", "logicalType": "timestamp-millis"})),
    (
        "logical type changed",
        f({"type": "long", "logicalType": "timestamp-millis"}),
        f({"type": "long", "logicalType": "timestamp-micros"}),
    ),
    (
        "decimal scale changed",
        f({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
        f({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}),
    ),
    ("recursive the same", rec(I, ("n", ["null", "R"], None)), rec(I, ("n", ["null", "R"], None))),
    (
        "recursive with default inside",
        rec(I, ("n", ["null", "R"], None)),
        rec(I, ("b", "int", 1), ("n", ["null", "R"], None)),
    ),
    ("documentation added", rec(I), rec(I, doc="x")),
    (
        "alias of a field in an inner record",
        f(rec(I, name="X")),
        f(rec({"name": "b", "type": "int", "aliases": ["a"]}, name="X")),
    ),
    (
        "alias of an inner record and of its field",
        f(rec(I, name="X")),
        f(rec({"name": "b", "type": "int", "aliases": ["a"]}, name="Y", aliases=["X"])),
    ),
    ("error and record", rec(I), {**rec(I), "type": "error"}),
]

UNREADABLE: list[tuple[str, Any, Any]] = [
    ("field added without default", rec(I), rec(I, ("b", "int"))),
    ("field renamed without alias", rec(I), rec(("b", "int"))),
    ("enum renamed", f(enum("A")), f(enum("A", name="G"))),
    ("fixed of another size", f(fixed(4)), f(fixed(5))),
    ("fixed renamed", f(fixed(4)), f(fixed(4, "G"))),
    ("fixed as bytes", f(fixed(4)), f("bytes")),
    ("enum as string", f(enum("A")), f("string")),
    ("string as enum", f("string"), f(enum("A"))),
    ("array items demoted", f({"type": "array", "items": "long"}), f({"type": "array", "items": "int"})),
    ("map values changed", f({"type": "map", "values": "int"}), f({"type": "map", "values": "string"})),
    ("array as map", f({"type": "array", "items": "int"}), f({"type": "map", "values": "int"})),
    ("int as union without number", f("int"), f(["null", "string"])),
    ("union with null as int", f(["null", "int"]), f("int")),
    ("union narrowed", f(["null", "int", "string"]), f(["null", "int"])),
    ("record as union with another structure", f(rec(I, name="X")), f(["null", rec(("b", "string"), name="Y")])),
    (
        "record as union, name fits and fields do not",
        f(rec(I, name="X")),
        f([rec(("b", "string"), name="X"), rec(I, name="Z")]),
    ),
    ("enum as union with another name", f(enum("A")), f(["null", enum("A", name="G")])),
    ("union field of reader without default", rec(I), rec(I, ("b", ["null", "int"]))),
    (
        "recursive with change inside",
        rec(I, ("n", ["null", "R"], None)),
        rec(I, ("b", "int"), ("n", ["null", "R"], None)),
    ),
    ("string instead of record", rec(I), "string"),
]

VALID: list[tuple[str, Any]] = [
    ("fast_path", rec(I)),
    ("empty record", rec()),
    ("primitive", "string"),
    ("primitive object", {"type": "int"}),
    ("top union", ["null", "string"]),
    ("top array", {"type": "array", "items": "int"}),
    ("top enum", enum("A")),
    ("top fixed", fixed(3)),
    ("top map", {"type": "map", "values": "int"}),
    ("union two named", f([rec(I, name="X"), rec(I, name="Y")])),
    ("name with dollar", rec(I, name="a$b")),
    ("umlaut name", rec(I, name="ä")),
    ("field name dollar", rec(("a$b", "int"))),
    ("namespace dollar", rec(I, namespace="a$b.c")),
    ("enum no symbols", enum()),
    ("fixed zero", fixed(0)),
    ("reused by name", rec(("a", rec(I, name="X")), ("b", "X"))),
    ("forward reference", rec(("b", "X"), ("a", rec(I, name="X")))),
    ("empty union field", f([])),
    ("full name", rec(I, name="x.y.R")),
    ("default wrong", rec(("a", "int", "x"))),
    ("logical bad", f({"type": "int", "logicalType": "nope"})),
    ("decimal no precision", f({"type": "bytes", "logicalType": "decimal"})),
    ("field default null for int", rec(("a", "int", None))),
    ("namespaced ref", rec(("a", rec(I, name="X", namespace="n")), ("b", "n.X"))),
    ("name begins with dollar", fixed(1, "$a")),
    ("name begins with dot", fixed(1, ".a")),
]

INVALID: list[tuple[str, Any]] = [
    ("no fields", {"type": "record", "name": "R"}),
    ("no name", {"type": "record", "fields": []}),
    ("unknown type", f("nope")),
    ("union in union", f(["null", ["int"]])),
    ("union twice int", f(["int", "int"])),
    ("union two records one name", f([rec(I, name="X"), rec(I, name="X")])),
    ("union two maps", f([{"type": "map", "values": "int"}, {"type": "map", "values": "string"}])),
    ("field twice", rec(I, I)),
    ("name with dash", rec(I, name="a-b")),
    ("name with digit first", rec(I, name="1a")),
    ("field name dash", rec(("a-b", "int"))),
    ("namespace dash", rec(I, namespace="a-b.c")),
    ("empty name", rec(I, name="")),
    ("field without type", rec({"name": "a"})),
    ("field without name", rec({"type": "int"})),
    ("enum twice", enum("A", "A")),
    ("enum default missing", enum("A", default="B")),
    ("enum symbol dash", enum("a-b")),
    ("symbols missing", {"type": "enum", "name": "E"}),
    ("fixed negative", fixed(-1)),
    ("fixed no size", {"type": "fixed", "name": "F"}),
    ("fixed text size", {"type": "fixed", "name": "F", "size": "3"}),
    ("redefined", rec(("a", rec(I, name="X")), ("b", rec(I, name="X")))),
    ("array no items", f({"type": "array"})),
    ("map no values", f({"type": "map"})),
    ("type null", {"type": None}),
    ("number", 3),
    ("true", True),
    ("empty object", {}),
    ("primitive name as record", rec(I, name="int")),
    ("aliases text", rec(I, aliases="x")),
    ("order wrong", rec({"name": "a", "type": "int", "order": "up"})),
    ("nested type object", f({"type": {"type": "int"}})),
    ("nested record in type", {"type": rec(I)}),
    ("name number", rec(I, name=3)),
    ("field bad aliases", rec({"name": "a", "type": "int", "aliases": "b"})),
    ("unqualified ref to other namespace", rec(("a", rec(I, name="X", namespace="n")), ("b", "X"))),
    ("name with two dots", fixed(1, "a..b")),
]

NO_JSON = [
    "",
    " ",
    '"int" x',
    '"int" "int"',
    "{'type':'int'}",
    "int",
    '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":NaN}]}',
    '{"type":"int"}}',
]


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_primitives_are_readable_as_themselves_and_promoted(reader: str, writer: str) -> None:
    assert fits(f(reader), f(writer)) == (reader == writer or (writer, reader) in PROMOTED)


@pytest.mark.parametrize(("_what", "writer", "reader"), READABLE, ids=[row[0] for row in READABLE])
def test_the_real_broker_accepts_the_pair(_what: str, writer: Any, reader: Any) -> None:
    assert fits(reader, writer)


@pytest.mark.parametrize(("_what", "writer", "reader"), UNREADABLE, ids=[row[0] for row in UNREADABLE])
def test_the_real_broker_refuses_the_pair(_what: str, writer: Any, reader: Any) -> None:
    assert not fits(reader, writer)


@pytest.mark.parametrize(("_what", "schema"), VALID, ids=[row[0] for row in VALID])
def test_valid_on_the_real_broker(_what: str, schema: Any) -> None:
    assert is_valid(json.dumps(schema))


@pytest.mark.parametrize(("_what", "schema"), INVALID, ids=[row[0] for row in INVALID])
def test_invalid_on_the_real_broker(_what: str, schema: Any) -> None:
    assert not is_valid(json.dumps(schema))


@pytest.mark.parametrize("text", NO_JSON)
def test_invalid_json(text: str) -> None:
    assert not is_valid(text)


R = rec(I)


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ({**R, "doc": "d"}, True),
        ({**R, "aliases": ["z"]}, True),
        (rec({"name": "a", "type": "int", "doc": "d"}), True),
        (rec(("a", {"type": "int"})), True),
        ({**R, "p": 1}, False),
        ({**R, "namespace": "n"}, False),
        (rec({"name": "a", "type": "int", "order": "ignore"}), False),
        (rec(("a", "int", 0)), False),
        (rec(("b", "int")), False),
        (rec(("a", {"type": "int", "logicalType": "date"})), False),
    ],
)
def test_what_makes_schemas_equal(other: Any, equal: bool) -> None:
    """Versions that a real broker assigned to R and then to the other schema."""
    forms = [normal_form(parse(json.dumps(schema).encode())) for schema in (R, other)]
    assert (forms[0] == forms[1]) == equal


def test_deep_and_wide_schemas_are_limited() -> None:
    deep = b'{"type":"array","items":' * 5000 + b'"int"' + b"}" * 5000
    assert not is_valid(deep.decode())
    assert not is_valid("[" * 100_000)
    types = [rec(I, ("next", ["null", f"T{n + 1}"], None), name=f"T{n}") for n in range(200)]
    many = rec(*[(f"f{n}", kind) for n, kind in enumerate(types)], ("last", rec(I, name="T200")))
    assert is_valid(json.dumps(many))
    assert fits(many, many)


@pytest.mark.parametrize("levels", ["[]", '{"a":}'])
def test_deep_properties_are_limited(levels: str) -> None:
    """A schema that is accepted is shallow enough to be compared and printed."""

    def declared(depth: int) -> bytes:
        deep = levels[:-1] * depth + "1" + levels[-1] * depth
        return f'{{"type": "record", "name": "R", "fields": [], "x": {deep}}}'.encode()

    schema = parse(declared(498))
    assert normal_form(schema)
    assert pretty_text(schema)
    for depth in (500, 970, 974, 100_000):
        with pytest.raises(AvroError, match="nested too deeply"):
            parse(declared(depth))


def test_a_comparison_of_many_types_is_limited() -> None:
    union = [rec(*[(f"x{m}", "int") for m in range(20)], name=f"T{n}") for n in range(600)]
    other = [rec(*[(f"y{m}", "int") for m in range(20)], name=f"S{n}") for n in range(600)]
    with pytest.raises(AvroError, match="too many"):
        can_read(parse(json.dumps(f(union)).encode()), parse(json.dumps(f(other)).encode()))


names = st.sampled_from(["a", "b", "c"])
primitives = st.sampled_from(PRIMITIVES)


def containers(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        kinds.map(lambda kind: {"type": "array", "items": kind}),
        kinds.map(lambda kind: {"type": "map", "values": kind}),
        st.lists(primitives, min_size=1, max_size=3, unique=True),
        st.integers(1, 2).map(lambda size: fixed(size)),
        st.just(enum("A", "B")),
    )


kinds = st.recursive(primitives, containers, max_leaves=4)
DEFAULTS: dict[str, Any] = {"int": 1, "string": "x", "null": None, "boolean": True}


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """Records of up to three fields. Named types contain the field's name, so that none is declared twice."""
    fields: list[tuple[Any, ...]] = []
    for name in draw(st.lists(names, unique=True, max_size=3)):
        kind = draw(kinds)
        kind = json.loads(json.dumps(kind).replace('"F"', f'"F{name}"').replace('"E"', f'"E{name}"'))
        default = DEFAULTS.get(kind) if isinstance(kind, str) else None
        fields.append((name, kind, default) if isinstance(kind, str) and kind in DEFAULTS and draw(st.booleans())
                      else (name, kind))  # fmt: skip
    return rec(*fields)


def samples(kind: Any) -> list[Any]:
    """Return values that cover every branch of every union."""
    if isinstance(kind, list):
        return [sample for branch in kind for sample in samples(branch)]
    if isinstance(kind, str):
        plain = {"null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5}
        return [{**plain, "bytes": b"x", "string": "y"}[kind]]
    word = kind["type"]
    if word == "array":
        return [[sample] for sample in samples(kind["items"])]
    if word == "map":
        return [{"k": sample} for sample in samples(kind["values"])]
    if word == "fixed":
        return [b"z" * kind["size"]]
    if word == "enum":
        return list(kind["symbols"])
    columns = [(field["name"], samples(field["type"])) for field in kind["fields"]]
    longest = max((len(column) for _, column in columns), default=1)
    return [{name: column[row % len(column)] for name, column in columns} for row in range(longest)]


def encoded(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def fastavro_reads(reader: Any, writer: Any) -> bool:
    for value in samples(writer):
        try:
            fastavro.schemaless_reader(io.BytesIO(encoded(writer, value)), writer, reader)
        except SchemaResolutionError:
            return False
    return True


@given(records(), records())
def test_fastavro_agrees(reader: dict[str, Any], writer: dict[str, Any]) -> None:
    assert fits(reader, writer) == fastavro_reads(reader, writer)


@given(records())
def test_every_schema_reads_itself_and_equals_itself(schema: dict[str, Any]) -> None:
    assert fits(schema, schema)
    again = json.loads(json.dumps(schema))
    assert normal_form(parse(json.dumps(schema).encode())) == normal_form(parse(json.dumps(again).encode()))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from([*PRIMITIVES, "R", "E"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "default", "aliases"]),
            st.one_of(inner, st.sampled_from(["record", "enum", "fixed", "array", "map"])),
            max_size=5,
        ),
    ),
    max_leaves=15,
)


@given(st.one_of(json_values.map(lambda value: json.dumps(value).encode()), st.binary(max_size=30)))
def test_any_text_is_a_schema_or_an_error(data: bytes) -> None:
    try:
        schema = parse(data)
    except AvroError:
        return
    can_read(schema, schema)
    normal_form(schema)
