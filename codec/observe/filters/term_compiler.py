"""Compiler of single filter terms: a field (or a function of a field) compared with values, a set, or a second field.

A term is checked and its values are parsed once. For each command type it is then bound to the getter of the field.
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.observe.fields.field import Field, Getter
from pcli.codec.observe.fields.field_table import find_field
from pcli.codec.observe.filters.literals import WrongValueError, enum_number, value_of
from pcli.codec.observe.filters.parser import fail
from pcli.codec.observe.filters.syntax_tree import Call, Compare, FieldName, In, Literal, Operand, Present, Range
from pcli.codec.observe.observer_state import Facts
from pcli.codec.wire.commands import name_of

Check = Callable[[Any], bool]
"""Function that tests one raw value."""

_ORDERED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUAL: Final = ("==", "!=", "===", "!==")
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", **{sign: sign for sign in _EQUAL}}
_WANT_ALL: Final = ("!=", "===")
_TEXTS: Final = ("text", "enum", "address")
_MAX_PATTERN: Final = 10_000

_COSTS: Final = {
    "pulsar.batch": 8.0,
    "pulsar.checksum": 5.0,
    "pulsar.entry": 4.0,
    "pulsar.key": 7.0,
    "pulsar.metadata": 4.0,
    "pulsar.opened": 9.0,
    "pulsar.payload": 4.0,
    "pulsar.payload_size": 4.0,
    "pulsar.problem": 6.0,
    "pulsar.value": 9.0,
}
"""Approximate cost of a field in microseconds, by the first two words of its name."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A field, or a function of a field: the source of a term's values."""

    field: Field
    kind: str
    """The kind of the values, a key of value_kinds.KINDS."""
    function: Callable[[Any], Any] | None = None

    def getter(self, number: int) -> Getter | None:
        """Return the getter of the value for this command type, or None if frames of this type never have a value."""
        get, function = self.field.reader(number), self.function
        if get is None or function is None:
            return get
        inner = get

        def called(facts: Facts) -> Any:
            value = inner(facts)
            return None if value is None else function(value)

        return called


@dataclass(frozen=True, slots=True)
class Test:
    """A term that can be bound to a command type."""

    bind: Callable[[int], bool | Callable[[Facts], bool]]
    cost: float
    fields: tuple[str, ...]
    """Names of the fields that the term reads."""
    check: Check | None = None
    """The test of one value, if the term is about the values of one field and reads no function of it."""

    def plan(self, number: int) -> bool | Callable[[Facts], bool]:
        """Return the term for this command type: always true, always false, or a function of the frame."""
        return self.bind(number)


class Compiler:
    """A compiler of the terms of one filter. It stores the filter's text for messages."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tests: dict[int, Test] = {}

    def test(self, node: Present | Compare | In) -> Test:
        """Compile a term. Raise LocalError if it is invalid."""
        test = self._tests.get(id(node))
        if test is None:
            test = self._tests[id(node)] = self._compile(node)
        return test

    def _compile(self, node: Present | Compare | In) -> Test:
        match node:
            case Present(of):
                source = self._source(of)
                return Test(lambda number: _bind_presence(source, number), _cost(source.field), (source.field.name,))
            case In(of, items, quantifier):
                source = self._source(of)
                check = _one_of([self._item(source, item) for item in items])
                return _checked(source, check, every=quantifier == "all")
            case Compare(sign, left, right, quantifier):
                return self._compare(node, sign, left, right, quantifier)

    def _compare(self, node: Compare, sign: str, left: Operand, right: Operand, quantifier: str) -> Test:
        every = quantifier == "all" if quantifier else sign in _WANT_ALL
        if isinstance(left, Literal):
            if sign not in _MIRRORED:
                self._wrong(f"{sign}: the field must be on the left", node.at, left)
            assert not isinstance(right, Literal)
            left, right, sign = right, left, _MIRRORED[sign]
        source = self._source(left)
        if isinstance(right, Literal):
            return _checked(
                source, self._check(source, sign, right), every=every, equal=self._plain(source, sign, right)
            )
        other = self._source(right)
        if not (source.kind == other.kind or (source.kind in _TEXTS and other.kind in _TEXTS)):
            self._wrong(f"a {source.kind} and a {other.kind} cannot be compared", node.at, right)
        relation = self._relation(source, sign, right)
        return Test(
            lambda number: _bind_pair(source, other, relation, number, every=every),
            max(_cost(source.field), _cost(other.field)),
            (source.field.name, other.field.name),
        )

    def _source(self, operand: Operand) -> _Source:
        assert not isinstance(operand, Literal)
        name = operand.of if isinstance(operand, Call) else operand
        try:
            field = find_field(name.name)
        except LocalError as error:
            fail(self._text, error.text, name.at, name.at + len(name.name))
        if isinstance(operand, FieldName):
            return _Source(field, field.element)
        kinds, result, function = _FUNCTIONS[operand.function]
        if kinds and field.element not in kinds:
            self._wrong(f"{operand.function}() of a {field.element}", operand.at, name)
        return _Source(field, result, function)

    def _value(self, source: _Source, literal: Literal) -> Any:
        try:
            return value_of(source.field, source.kind, literal)
        except WrongValueError as error:
            self._wrong(str(error), literal.at, literal)

    def _item(self, source: _Source, item: Literal | Range) -> Check:
        if isinstance(item, Literal):
            return self._check(source, "==", item)
        low, high = self._check(source, ">=", item.low), self._check(source, "<=", item.high)
        return lambda value: low(value) and high(value)

    def _plain(self, source: _Source, sign: str, literal: Literal) -> Any:
        """Return the value of a term that Python's == can decide, or None for any other term."""
        return self._value(source, literal) if sign == "==" and source.kind not in ("address", "any") else None

    def _check(self, source: _Source, sign: str, literal: Literal) -> Check:
        if sign == "contains":
            return self._contains(source, literal)
        if sign == "matches":
            return self._matches(source, literal)
        value = self._value(source, literal)
        if sign in _EQUAL:
            equal = _equality(source.kind, value)
            return equal if sign in ("==", "===") else lambda one: not equal(one)
        relation = self._relation(source, sign, literal)
        return lambda one: relation(one, value)

    def _relation(self, source: _Source, sign: str, place: Operand) -> Callable[[Any, Any], bool]:
        """Return the function that compares two raw values of the same kind."""
        if sign in ("==", "==="):
            return operator.eq
        if sign in ("!=", "!=="):
            return operator.ne
        if sign == "contains" and source.kind in (*_TEXTS, "bytes"):
            return operator.contains
        if sign not in _ORDERED or source.kind in ("address", "bool", "message"):
            self._wrong(f"{source.field.name} is of kind {source.kind}: {sign} cannot be applied", place.at, place)
        relation = _ORDERED[sign]
        if source.kind == "enum":
            field = source.field
            return lambda one, two: relation(enum_number(field, one), enum_number(field, two))
        if source.kind == "any":
            return lambda one, two: isinstance(one, bytes) == isinstance(two, bytes) and relation(one, two)
        return relation

    def _contains(self, source: _Source, literal: Literal) -> Check:
        if source.kind in _TEXTS:
            text = literal.text
            return lambda value: text in value
        if source.kind != "bytes":
            self._wrong(
                f"{source.field.name} is of kind {source.kind}: contains cannot be applied", literal.at, literal
            )
        data = self._value(source, literal)
        return lambda value: data in value

    def _matches(self, source: _Source, literal: Literal) -> Check:
        if source.kind not in (*_TEXTS, "bytes"):
            self._wrong(f"{source.field.name} is of kind {source.kind}: matches cannot be applied", literal.at, literal)
        pattern: str | bytes = literal.text
        try:
            if source.kind == "bytes":
                pattern = literal.text.encode()
            if len(pattern) > _MAX_PATTERN:
                raise ValueError(f"more than {_MAX_PATTERN} characters")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                search = re.compile(pattern, re.IGNORECASE).search
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            self._wrong(f"invalid pattern: {error}", literal.at, literal)
        return lambda value: search(value) is not None

    def _wrong(self, message: str, at: int, operand: Operand) -> Any:
        length = len(operand.text) + 2 * operand.quoted if isinstance(operand, Literal) else 1
        fail(self._text, message, operand.at if isinstance(operand, (Literal, FieldName)) else at, at + max(1, length))


_FUNCTIONS: Final[dict[str, tuple[tuple[str, ...], str, Callable[[Any], Any]]]] = {
    "count": ((), "number", lambda value: len(value) if isinstance(value, list) else 1),
    "len": ((*_TEXTS, "bytes"), "number", lambda value: _each(len, value)),
    "lower": (_TEXTS, "text", lambda value: _each(str.lower, value)),
    "upper": (_TEXTS, "text", lambda value: _each(str.upper, value)),
}
"""By function: accepted kinds (all if empty), kind of the result, and implementation."""


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    return [function(one) for one in value] if isinstance(value, list) else function(value)


def _cost(field: Field) -> float:
    if not field.name.startswith("pulsar."):
        return 0
    words = field.name.split(".")
    return _COSTS.get(".".join(words[:2]), 1.0 if len(words) == 2 else 3.0)


def _equality(kind: str, value: Any) -> Check:
    if kind == "address":
        return _in_network(value)
    if kind == "any":
        return lambda one: type(one) is type(value) and one == value
    return lambda one: bool(one == value)


def _in_network(network: Any) -> Check:
    """Return a test for addresses in a network. Results are cached: a capture contains few distinct addresses."""
    import ipaddress

    known: dict[str, bool] = {}

    def inside(text: str) -> bool:
        found = known.get(text)
        if found is None:
            try:
                found = ipaddress.ip_address(text) in network
            except ValueError:
                found = False
            if len(known) < 10_000:
                known[text] = found
        return found

    return inside


def _one_of(checks: list[Check]) -> Check:
    return lambda value: any(check(value) for check in checks)


def _bind_presence(source: _Source, number: int) -> bool | Callable[[Facts], bool]:
    get = source.getter(number)
    if get is None:
        return False
    return True if source.field.name == "pulsar.type" else lambda facts: get(facts) is not None


def _checked(source: _Source, check: Check, *, every: bool, equal: Any = None) -> Test:
    """Return a term that tests the values of one field."""

    def bind(number: int) -> bool | Callable[[Facts], bool]:
        get = source.getter(number)
        if get is None:
            return False
        if source.field.name == "pulsar.type":
            value = name_of(number)
            return check(value if source.function is None else source.function(value))
        return _equal(get, equal) if equal is not None and not every else _matching(get, check, every=every)

    return Test(bind, _cost(source.field), (source.field.name,), check if source.function is None else None)


def _equal(get: Getter, value: Any) -> Callable[[Facts], bool]:
    def test(facts: Facts) -> bool:
        found = get(facts)
        return bool(found == value) or (type(found) is list and value in found)

    return test


def _matching(get: Getter, check: Check, *, every: bool) -> Callable[[Facts], bool]:
    quantifier = all if every else any

    def test(facts: Facts) -> bool:
        found = get(facts)
        if found is None:
            return False
        if type(found) is list:
            return bool(found) and quantifier(map(check, found))
        return check(found)

    return test


def _bind_pair(
    source: _Source, other: _Source, relation: Callable[[Any, Any], bool], number: int, *, every: bool
) -> bool | Callable[[Facts], bool]:
    left, right = source.getter(number), other.getter(number)
    if left is None or right is None:
        return False
    one, two = left, right
    quantifier = all if every else any

    def test(facts: Facts) -> bool:
        first, second = one(facts), two(facts)
        if first is None or second is None:
            return False
        pairs = ((a, b) for a in _listed(first) for b in _listed(second))
        return quantifier(relation(a, b) for a, b in pairs)

    return test


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
