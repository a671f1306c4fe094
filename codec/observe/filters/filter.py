"""The filter language of `-Y`: a filter is parsed into a tree, which is compiled into one function per command type.

Rules of this file
1. Constants are folded per command type. A term with a field that frames of the type never have is false, and
   ``pulsar.type`` is a constant. For example, ``pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0`` is
   false for a SEND, without reading any field.
2. Cheap terms are evaluated first: attributes of the frame, then ids, then parsed fields of the command, of the
   metadata and finally of the payload. Terms have no side effects, so their order does not matter.
3. If a field is absent, every relation is false, even ``!=`` (Wireshark's rule); ``not (x == 1)`` is then true. One
   matching value is enough, except for ``!=`` and ``===``, for which all values must match; ``any`` and ``all`` select
   one of these rules explicitly.
4. All errors are found when the filter is compiled. `match` raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pcli.codec.observe.filters.parser import parse_filter
from pcli.codec.observe.filters.syntax_tree import And, Call, Compare, FieldName, In, Node, Not, Or, Present, Xor
from pcli.codec.observe.filters.term_compiler import Compiler, Test
from pcli.codec.observe.observer_state import Facts
from pcli.codec.wire.commands import COMMANDS

_Plan = bool | Callable[[Facts], bool]
_UNKNOWN_TYPES: Final = 16
"""Maximum number of cached plans for unknown command types, which hostile frames may contain in any number."""


class Filter:
    """A compiled filter, with one plan per command type, created at the first frame of that type."""

    __slots__ = ("_compiler", "_plans", "fields", "text", "tree")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse_filter(text)
        self._compiler = Compiler(text)
        self._plans: dict[int, _Plan] = {}
        names = dict.fromkeys(_names(self.tree))
        self.fields: tuple[str, ...] = tuple(names)
        """The names of the fields in the filter."""
        _check(self.tree, self._compiler)

    def match(self, facts: Facts) -> bool:
        """Whether the frame matches."""
        number = facts.frame.type
        plan = self._plans.get(number)
        if plan is None:
            plan = self._plan(number)
        return plan if plan is True or plan is False else plan(facts)

    def constant(self, number: int) -> bool | None:
        """Return the result for all frames of a command type, or None if it depends on the frame."""
        plan = self._plans.get(number)
        if plan is None:
            plan = self._plan(number)
        return plan if isinstance(plan, bool) else None

    def term(self, node: Present | Compare | In) -> Test:
        """Return a term of `tree`."""
        return self._compiler.test(node)

    def _plan(self, number: int) -> _Plan:
        plan = _fold(self.tree, number, self._compiler)[0]
        if number in COMMANDS or len(self._plans) < len(COMMANDS) + _UNKNOWN_TYPES:
            self._plans[number] = plan
        return plan


def compile_filter(text: str) -> Filter:
    """Compile a filter. If it is invalid, raise LocalError with the text and a caret under the position."""
    return Filter(text)


def _check(node: Node, compiler: Compiler) -> None:
    """Compile every term once, so that all errors are reported now."""
    match node:
        case Not(of):
            _check(of, compiler)
        case And(parts) | Or(parts) | Xor(parts):
            for part in parts:
                _check(part, compiler)
        case _:
            compiler.test(node)


def _names(node: Node) -> list[str]:
    match node:
        case Not(of):
            return _names(of)
        case And(parts) | Or(parts) | Xor(parts):
            return [name for part in parts for name in _names(part)]
        case Compare(_, left, right):
            return [_name(one) for one in (left, right) if isinstance(one, (FieldName, Call))]
        case Present(of) | In(of):
            return [_name(of)]


def _name(operand: FieldName | Call) -> str:
    return operand.of.name if isinstance(operand, Call) else operand.name


def _fold(node: Node, number: int, compiler: Compiler) -> tuple[_Plan, float]:
    """Return the folded form of a node for one command type, and its cost."""
    match node:
        case Not(of):
            plan, cost = _fold(of, number, compiler)
            return (not plan if isinstance(plan, bool) else _negated(plan)), cost
        case And(parts):
            return _fold_all(parts, number, compiler, stop=False)
        case Or(parts):
            return _fold_all(parts, number, compiler, stop=True)
        case Xor(parts):
            return _fold_xor(parts, number, compiler)
        case _:
            test: Test = compiler.test(node)
            return test.plan(number), test.cost


def _fold_all(parts: tuple[Node, ...], number: int, compiler: Compiler, *, stop: bool) -> tuple[_Plan, float]:
    """Combine terms with "and" (stop at False) or "or" (stop at True)."""
    rest: list[tuple[Callable[[Facts], bool], float]] = []
    for part in parts:
        plan, cost = _fold(part, number, compiler)
        if not isinstance(plan, bool):
            rest.append((plan, cost))
        elif plan is stop:
            return stop, 0
    if not rest:
        return not stop, 0
    rest.sort(key=lambda one: one[1])
    tests = tuple(plan for plan, _ in rest)
    if len(tests) == 1:
        return tests[0], rest[0][1]
    return (_either(tests) if stop else _both(tests)), rest[-1][1]


def _both(tests: tuple[Callable[[Facts], bool], ...]) -> Callable[[Facts], bool]:
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) and second(facts)

    def every(facts: Facts) -> bool:
        for test in tests:  # noqa: SIM110  (all() makes a generator per frame)
            if not test(facts):
                return False
        return True

    return every


def _either(tests: tuple[Callable[[Facts], bool], ...]) -> Callable[[Facts], bool]:
    if len(tests) == 2:
        first, second = tests
        return lambda facts: first(facts) or second(facts)

    def some(facts: Facts) -> bool:
        for test in tests:  # noqa: SIM110
            if test(facts):
                return True
        return False

    return some


def _negated(plan: Callable[[Facts], bool]) -> Callable[[Facts], bool]:
    return lambda facts: not plan(facts)


def _fold_xor(parts: tuple[Node, ...], number: int, compiler: Compiler) -> tuple[_Plan, float]:
    folded = [_fold(part, number, compiler) for part in parts]
    odd = sum(plan for plan, _ in folded if isinstance(plan, bool)) % 2 == 1
    tests = [plan for plan, _ in folded if not isinstance(plan, bool)]
    if not tests:
        return odd, 0
    return (lambda facts: (sum(test(facts) for test in tests) % 2 == 1) != odd), max(cost for _, cost in folded)
