"""Avro schemas: validity, equality, and whether one schema can read data written with a different one.

Rules of this file
1. A schema is valid if Avro's Java parser accepts it without checking defaults: names consist of letters, digits, ``_``
   and ``$``; a type may be referenced before it is declared; the ``type`` of a declaration is a string.
2. Compatibility follows SchemaValidator, which implements Avro's schema resolution. Records match by their fields, and
   their names are ignored. Enums and fixed types match by their names without namespace. An enum symbol that the
   reader's schema lacks is not an error. Only the reader's aliases are used.
3. Two schemas are equal if they differ only in documentation, aliases and the defaults of enums.
4. The nesting depth and the number of steps of a comparison are limited, because clients send the schemas.

Source: the Avro 1.12 specification, and the behaviour of a 4.2.4 broker for the pairs of schemas in the tests.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_MAX_DEPTH: Final = 100
_MAX_JSON_DEPTH: Final = 500
"""Maximum nesting of lists and objects, also in properties, so that the schema can be printed recursively."""

_MAX_STEPS: Final = 200_000
"""Maximum number of pairs of types, including their fields, that one comparison visits."""

_MAX_PATH: Final = 200
"""Maximum length of the path in an error. The end of the path is kept."""

_PRIMITIVES: Final = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
_NAMED: Final = frozenset(["record", "enum", "fixed"])

_PROMOTIONS: Final[dict[str, frozenset[str]]] = {
    "int": frozenset(["long", "float", "double"]),
    "long": frozenset(["float", "double"]),
    "float": frozenset(["double"]),
    "string": frozenset(["bytes"]),
    "bytes": frozenset(["string"]),
}
"""The types to which a value of each type can be promoted."""

_NAME: Final = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")

_RESERVED: Final = frozenset(
    ["aliases", "default", "doc", "fields", "items", "name", "namespace", "size", "symbols", "type", "values"]
)
_FIELD_RESERVED: Final = frozenset(["aliases", "default", "doc", "name", "order", "type"])


class AvroError(Exception):
    """An invalid schema, or a reader's schema that cannot read the writer's data. The text contains the position."""


class _TooManyError(AvroError):
    """The error for a comparison that exceeds its limit. It is not caught while the branches of a union are tried."""


class Field:
    """A field of a record. The record's ``children`` contain its type."""

    __slots__ = ("aliases", "default", "doc", "has_default", "name", "order", "properties")

    def __init__(self, declared: dict[str, Any]) -> None:
        self.name = _name(declared.get("name"))
        self.aliases = _texts(declared.get("aliases", []))
        self.has_default = "default" in declared
        self.default = declared.get("default")
        self.doc = declared.get("doc")
        self.order = declared.get("order", "ascending")
        if self.order not in ("ascending", "descending", "ignore"):
            raise AvroError(f"field {self.name}: the order is invalid")
        self.properties = {key: value for key, value in declared.items() if key not in _FIELD_RESERVED}


class AvroSchema:
    """One type with resolved names. It can be recursive."""

    __slots__ = ("aliases", "children", "default", "doc", "fields", "kind", "name", "properties", "size", "symbols")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        """The name of a primitive type, or record, enum, fixed, array, map or union."""
        self.name = ""
        """The full name of a record, enum or fixed type."""
        self.aliases: list[str] = []
        """The full names of the aliases."""
        self.fields: list[Field] = []
        self.children: list[AvroSchema] = []
        """Types of the fields, branches of the union, or the one type of items or values."""
        self.symbols: list[str] = []
        self.default: str | None = None
        """The default of an enum."""
        self.doc: Any = None
        """The documentation of a record, enum or fixed type."""
        self.size = 0
        """Size of a fixed type, in bytes."""
        self.properties: dict[str, Any] = {}
        """All other declared properties, including logical types."""

    @property
    def short(self) -> str:
        """The name without namespace."""
        return self.name.rpartition(".")[2]


def parse(data: bytes) -> AvroSchema:
    """Parse the JSON text of a schema. Raises AvroError if it is invalid."""
    try:
        declared = json.loads(data, parse_constant=_no_number)
    except RecursionError:
        raise AvroError("types are nested too deeply") from None
    except ValueError as error:
        # The text is not UTF-8 or not JSON, or contains an integer with more digits than Python converts.
        raise AvroError(f"invalid JSON: {error}"[:200]) from None
    _check_depth(declared)
    return _Parser().parse_all(declared)


def _check_depth(declared: Any) -> None:
    """Raise AvroError if lists and objects are nested more than _MAX_JSON_DEPTH levels deep."""
    level = [declared]
    for _ in range(_MAX_JSON_DEPTH):
        level = [
            child
            for one in level
            if isinstance(one, list | dict)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise AvroError("types are nested too deeply")


def _no_number(word: str) -> None:
    raise AvroError(f"{word} is not valid JSON")


class _Parser:
    """Parser of one schema. It collects the named types and the unresolved references."""

    def __init__(self) -> None:
        self._named: dict[str, AvroSchema] = {}
        self._open: list[tuple[list[AvroSchema], int, str, str]] = []
        self._unions: list[AvroSchema] = []

    def parse_all(self, declared: Any) -> AvroSchema:
        root = [AvroSchema("")]
        self._place(root, 0, declared, "", 0)
        for children, index, name, namespace in self._open:
            found = self._find(name, namespace)
            if found is None:
                raise AvroError(f"type {name[:80]!r} is not declared")
            children[index] = found
        for union in self._unions:
            _check_union(union)
        return root[0]

    def _find(self, name: str, namespace: str) -> AvroSchema | None:
        return self._named.get(_full(name, namespace)) or self._named.get(name)

    def _place(self, children: list[AvroSchema], index: int, declared: Any, namespace: str, depth: int) -> None:
        """Parse a type into ``children[index]``."""
        if isinstance(declared, str) and declared not in _PRIMITIVES:
            self._open.append((children, index, declared, namespace))
        else:
            children[index] = self._parse(declared, namespace, depth + 1)

    def _parse(self, declared: Any, namespace: str, depth: int) -> AvroSchema:
        if depth > _MAX_DEPTH:
            raise AvroError(f"types are nested more than {_MAX_DEPTH} levels deep")
        if isinstance(declared, str):
            return AvroSchema(declared)
        if isinstance(declared, list):
            union = AvroSchema("union")
            self._unions.append(union)
            self._place_all(union, declared, namespace, depth)
            return union
        if not isinstance(declared, dict) or not isinstance(declared.get("type"), str):
            raise AvroError("a type must be a name, a list, or an object whose type is a string")
        return self._declared(declared, namespace, depth)

    def _declared(self, declared: dict[str, Any], namespace: str, depth: int) -> AvroSchema:
        word = "record" if declared["type"] == "error" else declared["type"]
        if word in _NAMED:
            schema = self._declare(AvroSchema(word), declared, namespace, depth)
        elif word in ("array", "map"):
            key = "items" if word == "array" else "values"
            if key not in declared:
                raise AvroError(f"type {word} has no {key}")
            schema = AvroSchema(word)
            self._place_all(schema, [declared[key]], namespace, depth)
        elif word in _PRIMITIVES:
            schema = AvroSchema(word)
        else:
            found = self._find(word, namespace)
            if found is None:
                raise AvroError(f"type {word[:80]!r} is not declared")
            return found
        schema.properties = {key: value for key, value in declared.items() if key not in _RESERVED}
        return schema

    def _declare(self, schema: AvroSchema, declared: dict[str, Any], namespace: str, depth: int) -> AvroSchema:
        """Parse a record, enum or fixed type."""
        name, own = declared.get("name"), declared.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise AvroError("a record, enum or fixed type has no name")
        schema.name = _full(name, own)
        own = schema.name.rpartition(".")[0]
        for part in schema.name.split("."):
            _name(part)
        # Register the type before parsing its fields, because they can refer to it.
        if schema.name in self._named or schema.name in _PRIMITIVES:
            raise AvroError(f"{schema.name[:80]} is declared twice or is a built-in type")
        self._named[schema.name] = schema
        schema.aliases = [_full(alias, own) for alias in _texts(declared.get("aliases", []))]
        schema.doc = declared.get("doc")
        _READ[schema.kind](self, schema, declared, own, depth)
        return schema

    def _enum(self, schema: AvroSchema, declared: dict[str, Any], _own: str, _depth: int) -> None:
        schema.symbols = [_name(symbol) for symbol in _texts(declared.get("symbols"))]
        if len(set(schema.symbols)) != len(schema.symbols):
            raise AvroError(f"enum {schema.name}: duplicate symbol")
        if "default" in declared and declared["default"] not in schema.symbols:
            raise AvroError(f"enum {schema.name}: the default is not one of its symbols")
        schema.default = declared.get("default")

    def _fixed(self, schema: AvroSchema, declared: dict[str, Any], _own: str, _depth: int) -> None:
        size = declared.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise AvroError(f"fixed {schema.name} has no size")
        schema.size = size

    def _record(self, schema: AvroSchema, declared: dict[str, Any], own: str, depth: int) -> None:
        fields = declared.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) and "type" in field for field in fields):
            raise AvroError(f"record {schema.name}: fields must be a list of objects with name and type")
        schema.fields = [Field(field) for field in fields]
        if len({field.name for field in schema.fields}) != len(fields):
            raise AvroError(f"record {schema.name}: duplicate field")
        self._place_all(schema, [field["type"] for field in fields], own, depth)

    def _place_all(self, schema: AvroSchema, declared: list[Any], namespace: str, depth: int) -> None:
        schema.children = [schema] * len(declared)
        for index, one in enumerate(declared):
            self._place(schema.children, index, one, namespace, depth)


_READ: Final = {"record": _Parser._record, "enum": _Parser._enum, "fixed": _Parser._fixed}


def _check_union(union: AvroSchema) -> None:
    names = [branch.name or branch.kind for branch in union.children]
    if "union" in names:
        raise AvroError("a union contains a union")
    if len(set(names)) != len(names):
        raise AvroError("a union contains a type twice")


def _full(name: str, namespace: str) -> str:
    """Return the full name. A leading dot marks a name without namespace."""
    return name.removeprefix(".") if "." in name or not namespace else f"{namespace}.{name}"


def _name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise AvroError(f"invalid name: {str(name)[:80]!r}")
    return name


def _texts(value: Any) -> list[str]:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    raise AvroError("aliases and symbols must be lists of strings")


def normal_form(schema: AvroSchema) -> str:
    """Return a string that is identical for two schemas if and only if the schemas are equal."""
    forms: list[Any] = []
    met: dict[str, AvroSchema] = {}
    todo = [schema]

    def form(child: AvroSchema) -> Any:
        """Return the normal form of a type. A named type is represented by its name and listed separately."""
        if not child.name:
            return [child.kind, child.properties, [form(part) for part in child.children]]
        if child.name not in met:
            met[child.name] = child
            todo.append(child)
        return child.name

    if schema.name:
        met[schema.name] = schema
    while todo:
        one = todo.pop()
        own = [one.kind, one.name, one.symbols, one.size, one.properties]
        fields = [[each.name, each.has_default, each.default, each.order, each.properties] for each in one.fields]
        forms.append([own, fields, [form(child) for child in one.children]])
    return json.dumps(forms, sort_keys=True)


def can_read(reader: AvroSchema, writer: AvroSchema) -> None:
    """Raise AvroError unless all data written with ``writer`` can be read with ``reader``."""
    try:
        _Resolution(reader).check(reader, writer, "", set())
    except RecursionError:
        raise AvroError("unions are nested too deeply") from None


class _Resolution:
    """One comparison: the reader's aliases and the remaining pairs of types.

    All pairs must be compatible. Each pair in the list is processed once. There are alternatives only if a record can
    be read as one of several records of a union. Each alternative uses a separate list.
    """

    def __init__(self, reader: AvroSchema) -> None:
        self._names: dict[str, str] = {}
        self._fields: dict[str, dict[str, str]] = {}
        self._todo: list[tuple[AvroSchema, AvroSchema, str]] = []
        self._seen: set[tuple[int, int]] = set()
        self._steps = 0
        self._collect(reader)

    def _collect(self, root: AvroSchema) -> None:
        """Collect the aliases of the reader's types, and the aliases of fields by record name."""
        todo, met = [root], {id(root)}
        while todo:
            schema = todo.pop()
            for alias in schema.aliases:
                self._names[alias] = schema.name
            renamed = {alias: field.name for field in schema.fields for alias in field.aliases}
            if renamed:
                self._fields[schema.name] = renamed
            for child in schema.children:
                if id(child) not in met:
                    met.add(id(child))
                    todo.append(child)

    def check(self, reader: AvroSchema, writer: AvroSchema, where: str, seen: set[tuple[int, int]]) -> None:
        """Raise AvroError at the first incompatible pair.

        ``seen`` contains the pairs that were already processed; new pairs are added to it.
        """
        before = self._todo, self._seen
        self._todo, self._seen = [(reader, writer, where)], seen
        self._steps += len(seen)
        try:
            while self._todo:
                self._steps += 1
                if self._steps > _MAX_STEPS:
                    raise _TooManyError("too many types to compare")
                self._compare(*self._todo.pop())
        finally:
            self._todo, self._seen = before

    def _ask(self, reader: AvroSchema, writer: AvroSchema, where: str) -> None:
        """Add a pair to the list unless it was already processed."""
        pair = id(reader), id(writer)
        if pair not in self._seen:
            self._seen.add(pair)
            self._todo.append((reader, writer, where))

    def _compare(self, reader: AvroSchema, writer: AvroSchema, where: str) -> None:
        if writer.kind == "union":
            for branch in writer.children:
                self._ask(reader, branch, where)
        elif reader.kind == "union":
            self._branch(reader, writer, where)
        elif reader.kind != writer.kind:
            if reader.kind not in _PROMOTIONS.get(writer.kind, ()):
                raise AvroError(f"{where or 'the schema'}: {writer.kind} cannot be read as {reader.kind}")
        elif reader.kind == "record":
            self._record(reader, writer, where)
        elif reader.kind in ("enum", "fixed"):
            if reader.short != self._name(writer).rpartition(".")[2] or reader.size != writer.size:
                raise AvroError(f"{where or 'the schema'}: {writer.name} cannot be read as {reader.name}")
        elif reader.kind in ("array", "map"):
            self._ask(reader.children[0], writer.children[0], where + "[]")

    def _name(self, writer: AvroSchema) -> str:
        return self._names.get(writer.name, writer.name)

    def _record(self, reader: AvroSchema, writer: AvroSchema, where: str) -> None:
        self._steps += len(reader.fields) + len(writer.fields)
        renamed = self._fields.get(self._name(writer), {})
        written = {renamed.get(field.name, field.name): kind for field, kind in zip(writer.fields, writer.children)}
        for field, kind in zip(reader.fields, reader.children):
            place = f"{where[-_MAX_PATH:]}.{field.name}" if where else field.name
            if field.name in written:
                self._ask(kind, written[field.name], place)
            elif not field.has_default:
                raise AvroError(f"{place}: missing in the writer's schema, and without a default")

    def _branch(self, reader: AvroSchema, writer: AvroSchema, where: str) -> None:
        """Compare a value that is not a union with a union.

        The first branch with the same kind and name is used. If there is none, the first branch with the same structure
        is used, or else the first branch that matches by promotion.
        """
        same = [branch for branch in reader.children if branch.kind == writer.kind]
        if writer.kind in _NAMED:
            named = [branch for branch in same if branch.name == self._name(writer)]
            if not named and writer.kind == "record" and self._is_alike(same, writer, where):
                return
            same = named
        fitting = same or [one for one in reader.children if one.kind in _PROMOTIONS.get(writer.kind, ())]
        if not fitting:
            raise AvroError(f"{where or 'the schema'}: no branch of the union can read {writer.name or writer.kind}")
        self._ask(fitting[0], writer, where)

    def _is_alike(self, records: list[AvroSchema], writer: AvroSchema, where: str) -> bool:
        """Return whether one of the records can read ``writer``."""
        for record in records:
            try:
                self.check(record, writer, where, {*self._seen, (id(record), id(writer))})
            except _TooManyError:
                raise
            except AvroError:
                continue
            return True
        return False
