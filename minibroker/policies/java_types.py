"""Conversion of JSON to the Java types of the real broker's endpoints, by the rules and with the texts of Jackson.

Rules of this file
1. Fields that a type does not have are ignored, and an unknown word of an enum is null
   (ObjectMapperFactory: FAIL_ON_UNKNOWN_PROPERTIES is off, READ_UNKNOWN_ENUM_VALUES_AS_NULL is on).
2. A primitive type has no null: null, an empty string and the string "null" are 0 or false. For a boxed type they are
   null. A string with a number is that number, and a fraction is cut off.
3. A converted object is a dict with the keys that a real broker returns: those whose value is not null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pcli.minibroker.policies.json_parser import JsonError, JsonParser

_TOKENS: Final = {
    "VALUE_STRING": "String value",
    "VALUE_NUMBER_INT": "Integer value",
    "VALUE_NUMBER_FLOAT": "Floating-point value",
    "VALUE_TRUE": "Boolean value",
    "VALUE_FALSE": "Boolean value",
    "START_ARRAY": "Array value",
    "START_OBJECT": "Object value",
}
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")


class EmptyBodyError(Exception):
    """No body, for a primitive type."""


class JavaType(Protocol):
    """A type of Java."""

    @property
    def name(self) -> str:
        """The name of the type in error texts."""

    @property
    def null(self) -> Any:
        """The value of a JSON null."""

    def read(self, parser: JsonParser) -> Any:
        """Return the value of the current token, which is not null, and go to its last token. Raises JsonError."""


def convert(data: bytes, kind: JavaType) -> Any:
    """Return the value of a body. Raises JsonError, or EmptyBodyError for a primitive type and no body."""
    if isinstance(kind, RawText):
        return data.decode(errors="replace")
    parser = JsonParser(data)
    if not parser.next():
        if isinstance(kind, _Number | _Boolean) and kind.primitive:
            raise EmptyBodyError
        return None
    value = _value(kind, parser)
    if parser.next():
        feature = "not allowed as per `DeserializationFeature.FAIL_ON_TRAILING_TOKENS`"
        what = f"Trailing token (of type {parser.kind}) found after value (bound as `{kind.name.partition('<')[0]}`)"
        raise parser.mismatch(f"{what}: {feature}")
    return value


def convert_value(value: Any, kind: JavaType) -> Any:
    """Return the converted form of a Python value. Raises JsonError."""
    return convert(json.dumps(value).encode(), kind)


def _value(kind: JavaType, parser: JsonParser) -> Any:
    return kind.null if parser.kind == "VALUE_NULL" else kind.read(parser)


def _wrong(name: str, parser: JsonParser) -> JsonError:
    """Return the error for a token that cannot be converted to a type."""
    what = f"{_TOKENS[parser.kind]} (token `JsonToken.{parser.kind}`)"
    return parser.mismatch(f"Cannot deserialize value of type `{name}` from {what}")


def _wrong_text(name: str, parser: JsonParser, why: str) -> JsonError:
    return parser.mismatch(f'Cannot deserialize value of type `{name}` from String "{parser.value}": {why}')


def _no_text(text: str) -> bool:
    """Return whether a string means null."""
    return text.strip() in ("", "null")


# -- simple types ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Number:
    """An integer type (NumberDeserializers)."""

    name: str
    kind: str
    """The name of the primitive type."""
    bits: int
    primitive: bool

    @property
    def null(self) -> int | None:
        return 0 if self.primitive else None

    def read(self, parser: JsonParser) -> int | None:
        if parser.kind == "VALUE_STRING":
            return self.null if _no_text(parser.value) else self._of_text(parser)
        if parser.kind not in ("VALUE_NUMBER_INT", "VALUE_NUMBER_FLOAT"):
            raise _wrong(self.name, parser)
        number = float(parser.value) if parser.kind == "VALUE_NUMBER_FLOAT" else parser.value
        if not math.isfinite(number) or not self._fits(int(number)):
            raise parser.overflow(self.kind, -(1 << self.bits), (1 << self.bits) - 1)
        return int(number)

    def _of_text(self, parser: JsonParser) -> int:
        text = parser.value.strip()
        if not _DIGITS.fullmatch(text) or len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
            raise _wrong_text(self.name, parser, f"not a valid `{self.name}` value")
        if not self._fits(int(text)):
            what = self.name if self.primitive else f"`{self.name}`"
            limits = f"({-(1 << self.bits)} -{(1 << self.bits) - 1})"
            raise _wrong_text(self.name, parser, f"Overflow: numeric value ({text}) out of range of {what} {limits}")
        return int(text)

    def _fits(self, value: int) -> bool:
        return -(1 << self.bits) <= value < 1 << self.bits


@dataclass(frozen=True, slots=True)
class _Boolean:
    name: str = "boolean"
    primitive: bool = True

    @property
    def null(self) -> bool | None:
        return False if self.primitive else None

    def read(self, parser: JsonParser) -> bool | None:
        if parser.kind in ("VALUE_TRUE", "VALUE_FALSE"):
            return bool(parser.value)
        if parser.kind == "VALUE_NUMBER_INT":
            return bool(parser.value)
        if parser.kind != "VALUE_STRING":
            raise _wrong(self.name, parser)
        text = parser.value.strip()
        if _no_text(text):
            return self.null
        if text not in ("true", "True", "TRUE", "false", "False", "FALSE"):
            words = '"true"/"True"/"TRUE" or "false"/"False"/"FALSE"' if self.primitive else '"true" or "false"'
            raise _wrong_text(self.name, parser, f"only {words} recognized")
        return text[0] in "tT"


@dataclass(frozen=True, slots=True)
class _Double:
    name: str = "double"
    null: float | None = 0.0

    def read(self, parser: JsonParser) -> float | None:
        if parser.kind in ("VALUE_NUMBER_INT", "VALUE_NUMBER_FLOAT"):
            return float(parser.value)
        if parser.kind != "VALUE_STRING":
            raise _wrong(self.name, parser)
        if _no_text(parser.value):
            return self.null
        try:
            return float(parser.value)
        except ValueError:
            what = "`double` value (as String to convert)" if self.null is not None else "`Double` value"
            raise _wrong_text(self.name, parser, f"not a valid {what}") from None


@dataclass(frozen=True, slots=True)
class RawText:
    """A body that is not JSON (StringMessageProvider)."""

    name: str = "java.lang.String"
    null: str = ""

    def read(self, parser: JsonParser) -> str:
        """Return an empty text; `convert` does not parse such a body."""
        return self.null


@dataclass(frozen=True, slots=True)
class _String:
    name: str = "java.lang.String"
    null: None = None

    def read(self, parser: JsonParser) -> str:
        if parser.kind.startswith("START_"):
            raise _wrong(self.name, parser)
        return str(parser.value).lower() if isinstance(parser.value, bool) else str(parser.value)


INT: Final = _Number("int", "int", 31, primitive=True)
LONG: Final = _Number("long", "long", 63, primitive=True)
INTEGER: Final = _Number("java.lang.Integer", "int", 31, primitive=False)
LONG_OBJECT: Final = _Number("java.lang.Long", "long", 63, primitive=False)
BOOLEAN: Final = _Boolean()
BOOLEAN_OBJECT: Final = _Boolean("java.lang.Boolean", primitive=False)
DOUBLE: Final = _Double()
DOUBLE_OBJECT: Final = _Double("java.lang.Double", None)
STRING: Final = _String()
RAW_TEXT: Final = RawText()


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum. A number, also in a string, is the position of a word (EnumDeserializer)."""

    name: str
    words: tuple[str, ...]
    null: None = None

    def read(self, parser: JsonParser) -> str | None:
        """Return the word, or None if it is unknown."""
        if parser.kind == "VALUE_STRING":
            text = parser.value.strip()
            if text in self.words:
                return str(text)
            return self._at(int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else None
        if parser.kind != "VALUE_NUMBER_INT":
            raise _wrong(self.name, parser)
        return self._at(parser.value)

    def _at(self, position: int) -> str | None:
        return self.words[position] if 0 <= position < len(self.words) else None


# -- collections and objects -------------------------------------------------------------------------------------------


def _cannot_construct(name: str, parser: JsonParser) -> JsonError:
    """Return the error for a scalar instead of an object (DeserializationContext.handleMissingInstantiator)."""
    kind, shown = {
        "VALUE_STRING": ("String", f"String value ('{parser.value}')"),
        "VALUE_NUMBER_INT": ("int/Int", f"Number value ({parser.value})"),
        "VALUE_NUMBER_FLOAT": ("double/Double", f"Number value ({parser.value})"),
    }.get(parser.kind, ("boolean/Boolean", f"boolean value ({str(parser.value).lower()})"))
    start = f"Cannot construct instance of `{name}` (although at least one Creator exists)"
    return parser.mismatch(f"{start}: no {kind}-argument constructor/factory method to deserialize from {shown}")


def _coerce_empty(what: str, parser: JsonParser) -> JsonError:
    text = "(but could if coercion was enabled using `CoercionConfig`)"
    return parser.mismatch(f'Cannot coerce empty String ("") to {what} {text}')


def _not_a_container(name: str, parser: JsonParser) -> JsonError:
    """Return the error for a scalar or object instead of a collection or map."""
    base = name.partition("<")[0]
    if parser.kind != "VALUE_STRING":
        return _wrong(name, parser)
    if not parser.value:
        return _coerce_empty(f"element of `{base}`", parser)
    return _cannot_construct(base, parser)


@dataclass(frozen=True, slots=True)
class Strings:
    """A collection of strings (StringCollectionDeserializer)."""

    base: str
    unique: bool = True
    null: None = None

    @property
    def name(self) -> str:
        """The name of the type."""
        return f"{self.base}<java.lang.String>"

    def read(self, parser: JsonParser) -> list[str | None]:
        """Return the strings."""
        if parser.kind != "START_ARRAY":
            raise _not_a_container(self.name, parser)
        found: list[str | None] = []
        try:
            while parser.next() != "END_ARRAY":
                found.append(_value(STRING, parser))
        except JsonError as error:
            error.path.append(f"{self.base}[{len(found)}]")
            raise
        return list(dict.fromkeys(found)) if self.unique else found


STRING_LIST: Final = Strings("java.util.ArrayList", unique=False)
STRING_SET: Final = Strings("java.util.HashSet")


@dataclass(frozen=True, slots=True)
class EnumSet:
    """A set of words (CollectionDeserializer)."""

    item: Enum
    null: None = None

    @property
    def name(self) -> str:
        """The name of the type."""
        return f"java.util.HashSet<{self.item.name}>"

    def read(self, parser: JsonParser) -> list[str | None]:
        """Return the words without duplicates."""
        if parser.kind != "START_ARRAY":
            raise _wrong(self.name, parser)
        found: list[str | None] = []
        while parser.next() != "END_ARRAY":
            found.append(_inside(self.item, parser, f"java.util.HashSet[{len(found)}]"))
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Map:
    """A map with strings as keys (MapDeserializer)."""

    values: JavaType
    null: None = None

    @property
    def name(self) -> str:
        """The name of the type."""
        return f"java.util.LinkedHashMap<java.lang.String,{self.values.name}>"

    def read(self, parser: JsonParser) -> dict[str, Any]:
        """Return the map."""
        if parser.kind != "START_OBJECT":
            raise _not_a_container(self.name, parser)
        found = {}
        while parser.next() != "END_OBJECT":
            key = parser.value
            parser.next()
            found[key] = _inside(self.values, parser, f'java.util.LinkedHashMap["{key}"]')
        return found


STRING_MAP: Final = Map(STRING)


def _inside(kind: JavaType, parser: JsonParser, reference: str) -> Any:
    """Return a value inside an object. An error gets the reference to the value."""
    try:
        return _value(kind, parser)
    except JsonError as error:
        error.path.append(reference)
        raise


@dataclass(frozen=True, slots=True)
class Bean:
    """A class with fields (BeanDeserializer)."""

    name: str
    fields: Mapping[str, tuple[JavaType, Any]]
    """The type and the default of each field, in the order in which a real broker returns them."""
    scalar: Callable[[Any], dict[str, Any]] | None = None
    """Converts a boolean or string to the object, if the class has such a constructor. Can raise ValueError."""
    scalars: tuple[str, ...] = ()
    """The tokens that ``scalar`` converts."""
    null: None = None

    def read(self, parser: JsonParser) -> dict[str, Any]:
        """Return the fields that are not null."""
        if self.scalar is not None and parser.kind in self.scalars:
            try:
                return self.scalar(parser.value)
            except ValueError as error:
                raise parser.mismatch(f"Cannot construct instance of `{self.name}`, problem: {error}") from None
        if parser.kind == "START_ARRAY":
            raise _wrong(self.name, parser)
        if parser.kind == "VALUE_STRING" and not parser.value:
            raise _coerce_empty(f"`{self.name}` value", parser)
        if parser.kind != "START_OBJECT":
            raise _cannot_construct(self.name, parser)
        found = {key: default for key, (_, default) in self.fields.items()}
        while parser.next() != "END_OBJECT":
            key = parser.value
            parser.next()
            if key in self.fields:
                found[key] = _inside(self.fields[key][0], parser, f'{self.name}["{key}"]')
            else:
                parser.skip()
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class JavaList:
    """A list of objects or numbers (CollectionDeserializer)."""

    item: JavaType
    null: None = None

    @property
    def name(self) -> str:
        """The name of the type."""
        return f"java.util.ArrayList<{self.item.name}>"

    def read(self, parser: JsonParser) -> list[Any]:
        """Return the objects."""
        if parser.kind != "START_ARRAY":
            raise _wrong(self.name, parser)
        found: list[Any] = []
        while parser.next() != "END_ARRAY":
            found.append(_inside(self.item, parser, f"java.util.ArrayList[{len(found)}]"))
        return found


LONG_LIST: Final = JavaList(LONG_OBJECT)

_TYPES: Final[Mapping[str, JavaType]] = {
    "boolean": BOOLEAN,
    "Boolean": BOOLEAN_OBJECT,
    "Double": DOUBLE_OBJECT,
    "double": DOUBLE,
    "int": INT,
    "Integer": INTEGER,
    "list": STRING_LIST,
    "long": LONG,
    "Long": LONG_OBJECT,
    "map": STRING_MAP,
    "set": STRING_SET,
    "string": STRING,
}


def bean(
    name: str,
    fields: str,
    *,
    scalar: Callable[[Any], dict[str, Any]] | None = None,
    scalars: tuple[str, ...] = (),
    **kinds: JavaType,
) -> Bean:
    """Return a class whose fields are the words of a text.

    A word is the name of a field, a colon, its type, and ``=`` with its default in JSON if it has one. The types are
    those of _TYPES and ``kinds``; lists, maps and sets contain strings.
    """
    found = {}
    for word in fields.split():
        field, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        found[field] = (kinds.get(kind) or _TYPES[kind], json.loads(default) if default else None)
    return Bean(name, found, scalar, scalars)
