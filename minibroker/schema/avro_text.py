"""The text of an Avro schema as Java prints it (Schema.toString(true) with Jackson's DefaultPrettyPrinter)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pcli.minibroker.schema.avro_compatibility import AvroSchema, Field

MAX_TEXT: Final = 1 << 19
"""Maximum number of characters. An error with the texts of two schemas then fits into a frame."""


def pretty_text(schema: AvroSchema) -> str:
    """Return the declaration of a schema. A named type is declared once; further uses consist of its name.

    The text ends with an ellipsis if it exceeds MAX_TEXT: with indentation, it can be much longer than the schema.
    """
    parts, size = [], 0
    for part in _printed(_declaration(schema, "", set()), ""):
        parts.append(part)
        size += len(part)
        if size > MAX_TEXT:
            return "".join(parts)[: MAX_TEXT - 1] + "…"
    return "".join(parts)


def _declaration(schema: AvroSchema, space: str, declared: set[str]) -> Any:
    """Return the JSON value of a type inside the namespace ``space``, with the keys in Avro's order."""
    if schema.name:
        if schema.name in declared:
            return _name_in(schema.name, space)
        declared.add(schema.name)
        return _named(schema, space, declared)
    parts = [_declaration(part, space, declared) for part in schema.children]
    if schema.kind == "union":
        return parts
    if schema.kind in ("array", "map"):
        key = "items" if schema.kind == "array" else "values"
        return {"type": schema.kind, key: parts[0], **schema.properties}
    return {"type": schema.kind, **schema.properties} if schema.properties else schema.kind


def _named(schema: AvroSchema, space: str, declared: set[str]) -> dict[str, Any]:
    """Return the declaration of a record, enum or fixed type."""
    own = schema.name.rpartition(".")[0]
    found: dict[str, Any] = {"type": schema.kind, "name": schema.short}
    if own != space:
        found["namespace"] = own
    if schema.doc is not None:
        found["doc"] = schema.doc
    if schema.kind == "record":
        found["fields"] = [_field(one, part, own, declared) for one, part in zip(schema.fields, schema.children)]
    elif schema.kind == "enum":
        found["symbols"] = schema.symbols
        if schema.default is not None:
            found["default"] = schema.default
    else:
        found["size"] = schema.size
    found.update(schema.properties)
    if schema.aliases:
        found["aliases"] = [_name_in(alias, own) for alias in schema.aliases]
    return found


def _field(field: Field, kind: AvroSchema, space: str, declared: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": field.name, "type": _declaration(kind, space, declared)}
    if field.doc is not None:
        found["doc"] = field.doc
    if field.has_default:
        found["default"] = field.default
    if field.order != "ascending":
        found["order"] = field.order
    if field.aliases:
        found["aliases"] = field.aliases
    return {**found, **field.properties}


def _name_in(name: str, space: str) -> str:
    """Return a full name, or the name without its namespace inside this namespace."""
    own, _, short = name.rpartition(".")
    return short if own == space else name


def _printed(value: Any, indent: str) -> Iterator[str]:
    """Yield the parts of JSON with one line per key. Lists do not start new lines."""
    if isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield ", " if number else "[ "
            yield from _printed(one, indent)
        yield " ]"
    elif isinstance(value, dict) and value:
        inner = f"{indent}  "
        for number, (key, one) in enumerate(value.items()):
            yield f"{',' if number else '{'}\n{inner}{json.dumps(key)} : "
            yield from _printed(one, inner)
        yield f"\n{indent}}}"
    else:
        yield {"[]": "[ ]", "{}": "{ }"}.get(text := json.dumps(value, ensure_ascii=False), text)
