"""Avro: decoding of untrusted values with untrusted schemas.

Rules of this file
1. The usual library is not safe here: an array of 2**60 nulls takes no bytes but exhausts memory, and a deeply nested
   list of records overruns the stack of its compiled code. In this decoder the number of values is limited by a budget
   that grows with the payload, and depth is limited.
2. Values are suitable for JSON: records and maps are objects, enums are symbols, bytes and fixed are lower-case hex, a
   union is the value of its branch, logical times are ISO 8601, and decimals are text.
3. Pulsar writes values without a header (the version identifies the schema), so trailing bytes indicate a different
   schema.

Source: Avro 1.11 specification, "Schema Declaration", "Binary Encoding", "Logical Types".
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from pcli.codec.payload.json_text import parse_json
from pcli.codec.payload.primitives import clock_text, date_text, moment_text, number
from pcli.codec.wire.problems import Problem

_MAX_DEPTH: Final = 100
"""Maximum depth of nested types and of nested values."""

_FREE_VALUES: Final = 10_000
"""Number of values allowed in addition to two per byte: nulls and empty records take no bytes."""

_MAX_DECIMAL: Final = 64
"""Maximum size in bytes of a converted decimal, and (times ten) its maximum scale. A larger decimal is returned as
hex."""

_PRIMITIVES: Final = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
_DAY_NS: Final = 86_400_000_000_000

_f32 = Struct("<f").unpack_from
_f64 = Struct("<d").unpack_from


class _BadError(Exception):
    """The error for an invalid schema or value; this module also catches it."""


class AvroType:
    """A type in a schema, with all type names resolved. A type may contain itself."""

    __slots__ = ("children", "kind", "logical", "names", "scale", "size")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        """A primitive type, or record, enum, fixed, array, map or union."""
        self.logical = ""
        self.scale = 0
        self.size = 0
        """Size in bytes of the type ``fixed``."""
        self.names: list[str] = []
        """Names of a record's fields, or symbols of an enum."""
        self.children: list[AvroType] = []
        """Types of the fields, branches of the union, or the single type of items or values."""


def parse_avro(text: bytes) -> AvroType | Problem:
    """Return the type that the JSON of a schema declares."""
    declared = parse_json(text)
    if isinstance(declared, Problem):
        return declared
    try:
        return _Parser().parse(declared, "", 0)
    except _BadError as error:
        return Problem("schema", f"not an Avro schema: {error}")
    except RecursionError:
        return Problem("schema", "not an Avro schema: too deep")


def decode_avro(kind: AvroType, data: bytes) -> object | Problem:
    """Decode the value in ``data``. Return a Problem if the value is invalid or bytes are left over."""
    reader = _Reader(data)
    try:
        value = reader.read(kind, 0)
    except _BadError as error:
        return Problem("schema", f"Avro, at byte {reader.position} of {len(data)}: {error}")
    except RecursionError:
        return Problem("schema", "Avro: values nested too deeply for the remaining stack")
    if reader.position != len(data):
        return Problem("schema", f"Avro: the value ends at byte {reader.position} of {len(data)}")
    return value


class _Parser:
    """A parser of declarations that stores named types."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def parse(self, declared: Any, namespace: str, depth: int) -> AvroType:
        if depth > _MAX_DEPTH:
            raise _BadError(f"more than {_MAX_DEPTH} nested types")
        if isinstance(declared, str):
            return self._by_name(declared, namespace)
        if isinstance(declared, list):
            kind = AvroType("union")
            kind.children = [self.parse(branch, namespace, depth + 1) for branch in declared]
            return kind
        if not isinstance(declared, dict):
            raise _BadError("a type must be a name, a list or an object")
        return self._declared(declared, namespace, depth)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        known = self._named.get(f"{namespace}.{name}") if "." not in name else None
        known = known or self._named.get(name)
        if known is None:
            raise _BadError(f"type {name[:80]!r} is not declared")
        return known

    def _declared(self, declared: dict[str, Any], namespace: str, depth: int) -> AvroType:
        word = declared.get("type")
        if word in ("record", "error", "enum", "fixed"):
            return self._name(declared, namespace, depth)
        if word in ("array", "map"):
            kind = AvroType(word)
            kind.children = [self.parse(declared.get("items" if word == "array" else "values"), namespace, depth + 1)]
            return kind
        kind = self.parse(word, namespace, depth + 1)
        _set_logical(kind, declared)
        return kind

    def _name(self, declared: dict[str, Any], namespace: str, depth: int) -> AvroType:
        name, own = declared.get("name"), declared.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise _BadError("a record, enum or fixed without a name")
        if "." in name:
            own = name.rpartition(".")[0]
        kind = AvroType("record" if declared["type"] == "error" else declared["type"])
        # The type is stored before its fields are parsed, because they may refer to it.
        self._named[name if "." in name or not own else f"{own}.{name}"] = kind
        if kind.kind == "fixed":
            kind.size = _count(declared.get("size"))
            _set_logical(kind, declared)
        elif kind.kind == "enum":
            kind.names = [str(symbol) for symbol in _list(declared.get("symbols"))]
        else:
            for field in _list(declared.get("fields")):
                if not isinstance(field, dict):
                    raise _BadError("a field must be an object")
                kind.names.append(str(field.get("name")))
                kind.children.append(self.parse(field.get("type"), own, depth + 1))
        return kind


def _set_logical(kind: AvroType, declared: dict[str, Any]) -> None:
    logical = declared.get("logicalType")
    if isinstance(logical, str) and kind.kind in ("int", "long", "bytes", "fixed"):
        kind.logical = logical
        scale = declared.get("scale", 0)
        kind.scale = scale if isinstance(scale, int) and 0 <= scale <= 10 * _MAX_DECIMAL else 0


def _count(value: Any) -> int:
    if isinstance(value, int) and value >= 0:
        return value
    raise _BadError("a size must be a number")


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise _BadError("fields and symbols must be lists")


class _Reader:
    """A decoder of the bytes of one value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = _FREE_VALUES + 2 * len(data)
        self.position = 0

    def read(self, kind: AvroType, depth: int) -> object:
        self._left -= 1
        if self._left < 0:
            raise _BadError("more values than the bytes can contain")
        if depth > _MAX_DEPTH:
            raise _BadError(f"more than {_MAX_DEPTH} nested values")
        return _READ[kind.kind](self, kind, depth + 1)

    def long(self) -> int:
        """Read a zigzag varint, the encoding of int, long, counts, lengths and branches."""
        data, position, value, shift = self._data, self.position, 0, 0
        while shift < 70:
            if position >= len(data):
                raise _BadError("the bytes end")
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self.position = position
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise _BadError("a number of more than ten bytes")

    def take(self, size: int) -> bytes:
        """Read the next ``size`` bytes."""
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise _BadError(f"{size} bytes are required, but only {len(self._data) - self.position} are left")
        data = self._data[self.position : end]
        self.position = end
        return data

    def text(self) -> str:
        """Read a string."""
        try:
            return self.take(self.long()).decode()
        except UnicodeDecodeError:
            raise _BadError("a string that is not UTF-8") from None

    def integer(self, kind: AvroType) -> object:
        """Read an int or long, converted to its logical type, if any."""
        value = self.long()
        return _LOGICAL[kind.logical](value) if kind.logical in _LOGICAL else value

    def record(self, kind: AvroType, depth: int) -> dict[str, object]:
        """Read the fields of a record in order."""
        return {name: self.read(child, depth) for name, child in zip(kind.names, kind.children)}

    def union(self, kind: AvroType, depth: int) -> object:
        """Read a union: the branch number, then the branch's value."""
        branch = self.long()
        if not 0 <= branch < len(kind.children):
            raise _BadError(f"branch {branch} of a union of {len(kind.children)}")
        return self.read(kind.children[branch], depth)

    def symbol(self, kind: AvroType) -> str:
        """Read the symbol of an enum."""
        index = self.long()
        if not 0 <= index < len(kind.names):
            raise _BadError(f"symbol {index} of an enum of {len(kind.names)}")
        return kind.names[index]

    def block(self) -> int:
        """Read the number of items in the next block; 0 is the end. If the count is negative, the size follows it."""
        count = self.long()
        if count < 0:
            self.long()
            return -count
        return count

    def array(self, kind: AvroType, depth: int) -> list[object]:
        """Read the items of an array, block by block."""
        items: list[object] = []
        while count := self.block():
            for _ in range(count):
                items.append(self.read(kind.children[0], depth))  # noqa: PERF401  (the budget ends it in the middle)
        return items

    def map(self, kind: AvroType, depth: int) -> dict[str, object]:
        """Read the pairs of a map, block by block."""
        pairs: dict[str, object] = {}
        while count := self.block():
            for _ in range(count):
                name = self.text()
                pairs[name] = self.read(kind.children[0], depth)
        return pairs


def _binary(kind: AvroType, data: bytes) -> str:
    if kind.logical == "decimal" and len(data) <= _MAX_DECIMAL:
        unscaled = int.from_bytes(data, "big", signed=True)
        digits = str(abs(unscaled)).zfill(kind.scale + 1)
        point = len(digits) - kind.scale
        return ("-" if unscaled < 0 else "") + digits[:point] + ("." + digits[point:] if kind.scale else "")
    return data.hex()


def _clock(digits: int) -> Callable[[int], object]:
    def read(value: int) -> object:
        nanos = value * 10 ** (9 - digits)
        return clock_text(nanos, digits) if 0 <= nanos < _DAY_NS else value

    return read


def _moment(digits: int, end: str) -> Callable[[int], object]:
    return lambda value: moment_text(value, digits)[:-1] + end


_LOGICAL: Final[dict[str, Callable[[int], object]]] = {
    "date": date_text,
    "time-millis": _clock(3),
    "time-micros": _clock(6),
    "timestamp-millis": _moment(3, "Z"),
    "timestamp-micros": _moment(6, "Z"),
    "timestamp-nanos": _moment(9, "Z"),
    "local-timestamp-millis": _moment(3, ""),
    "local-timestamp-micros": _moment(6, ""),
    "local-timestamp-nanos": _moment(9, ""),
}
"""Logical types of int and long. As the specification requires, a value with any other logical type is decoded as a
number."""

_READ: Final[dict[str, Callable[[_Reader, AvroType, int], object]]] = {
    "null": lambda _reader, _kind, _depth: None,
    "boolean": lambda reader, _kind, _depth: reader.take(1) != b"\0",
    "int": lambda reader, kind, _depth: reader.integer(kind),
    "long": lambda reader, kind, _depth: reader.integer(kind),
    "float": lambda reader, _kind, _depth: number(_f32(reader.take(4))[0]),
    "double": lambda reader, _kind, _depth: number(_f64(reader.take(8))[0]),
    "bytes": lambda reader, kind, _depth: _binary(kind, reader.take(reader.long())),
    "string": lambda reader, _kind, _depth: reader.text(),
    "fixed": lambda reader, kind, _depth: _binary(kind, reader.take(kind.size)),
    "enum": lambda reader, kind, _depth: reader.symbol(kind),
    "record": _Reader.record,
    "union": _Reader.union,
    "array": _Reader.array,
    "map": _Reader.map,
}
