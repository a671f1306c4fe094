"""Selection of the rows of frequent commands that a filter may match, without an object for each row.

Rules of this file
1. Each node of the filter has two results: whether rows may match it, and whether rows may fail to match it. If neither
   the columns nor the connection of the rows determine a term, both are true.
2. A producer and its SENDs, receipts and errors are selected together, because a receipt is about its SEND.
3. The rows of a producer or consumer share its names. The terms about these names are evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from pcli.codec.observe.filters.filter import Filter
from pcli.codec.observe.filters.syntax_tree import And, Node, Not, Or, Xor
from pcli.codec.observe.filters.term_compiler import Test
from pcli.codec.observe.observer_state import Facts, Producer
from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.fields.column_coverage import NUMBERS
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs

_OF_PRODUCERS: Final = tuple(BY_NAME[name].number for name in ("SEND", "SEND_RECEIPT", "SEND_ERROR"))
_OF_CONSUMERS: Final = tuple(BY_NAME[name].number for name in ("MESSAGE", "ACK", "FLOW"))

FREQUENT: Final = np.array(_OF_PRODUCERS + _OF_CONSUMERS)
"""The commands whose rows are selected."""

_OF_PEER: Final = ("pulsar.topic", "pulsar.subscription", "pulsar.consumer_name")
_OF_CONNECTION: Final = ("tcp.stream", "tcp.port", "ip.addr")
"""Fields with one value for all frequent frames of a producer or consumer, and of a connection."""

_Rows = Bools | bool
"""A value for each row, or one value for all rows."""


class RowFilter:
    """A filter of rows."""

    def __init__(self, condition: Filter) -> None:
        self._condition = condition

    def may_match(self, frames: Frames, rows: Longs, peek: Callable[[int], Facts]) -> Bools:
        """Return which of these rows of FREQUENT commands the filter may match.

        ``peek`` returns the facts about a row, as `Observer.peek` does.
        """
        found = np.zeros(len(rows), np.bool_)
        for some in _by_owner(frames, rows):
            row = int(rows[some[0]])
            number, facts = int(frames.type[row]), peek(row)
            if number in _OF_PRODUCERS:
                nodes = (_Terms(self._condition, kind, facts) for kind in _OF_PRODUCERS)
                found[some] = any(one.evaluate(self._condition.tree)[0] for one in nodes)
            else:
                terms = _TermsOfRows(self._condition, number, facts, frames, rows[some])
                found[some] = terms.evaluate(self._condition.tree)[0]
        return found


class _Terms:
    """The nodes of a filter for the frames of one command and one owner."""

    def __init__(self, condition: Filter, number: int, facts: Facts) -> None:
        self._condition, self._number, self._facts = condition, number, facts

    def evaluate(self, node: Node) -> tuple[_Rows, _Rows]:
        """Return whether the frames may match a node, and whether they may fail to match it."""
        match node:
            case Not(of):
                may, may_fail = self.evaluate(of)
                return may_fail, may
            case And(parts):
                may, may_fail = True, False
                for part in parts:
                    this_may, this_may_fail = self.evaluate(part)
                    may, may_fail = may & this_may, may_fail | this_may_fail
                return may, may_fail
            case Or(parts):
                return self.evaluate(Not(And(tuple(map(Not, parts)))))
            case Xor():
                return True, True
            case _:
                return self._term(self._condition.term(node))

    def _term(self, term: Test) -> tuple[_Rows, _Rows]:
        plan = term.plan(self._number)
        if isinstance(plan, bool):
            return plan, not plan
        if all(_is_shared(field, self._facts) for field in term.fields):
            found = plan(self._facts)
            return found, not found
        return self._compare(term)

    def _compare(self, term: Test) -> tuple[_Rows, _Rows]:
        return True, True


class _TermsOfRows(_Terms):
    """The nodes of a filter for rows, whose numbers are compared in columns."""

    def __init__(self, condition: Filter, number: int, facts: Facts, frames: Frames, rows: Longs) -> None:
        super().__init__(condition, number, facts)
        self._frames, self._rows = frames, rows

    def _compare(self, term: Test) -> tuple[_Rows, _Rows]:
        column = NUMBERS[self._number].get(term.fields[0])
        if column is None or column in _UNCERTAIN or term.check is None:
            return True, True
        values, known = getattr(self._frames, column)[self._rows], self._frames.complete[self._rows]
        distinct, inverse = np.unique(values, return_inverse=True)
        # An absent field (-1) matches no term.
        matches = np.array([one != -1 and term.check(one) for one in distinct.tolist()], np.bool_)[inverse]
        unknown = ~known | (values < -1)
        return matches | unknown, ~matches | unknown


_UNCERTAIN: Final = ("partition", "ack_type")
"""Columns whose values are not those of the field: a partition of -1 may be absent, and the type of an ACK has a
name."""


def _is_shared(field: str, facts: Facts) -> bool:
    """Whether the frames of a producer or consumer have the same value of a field."""
    if field in ("pulsar.system", "pulsar.producer_name"):
        # The broker's client creates producers that are known only by their SENDs; a MESSAGE names its publisher.
        return facts.peer is not None and (field == "pulsar.system" or _is_named(facts))
    return field in _OF_CONNECTION or field in _OF_PEER


def _is_named(facts: Facts) -> bool:
    return isinstance(facts.peer, Producer) and bool(facts.peer.name)


def _by_owner(frames: Frames, rows: Longs) -> list[Longs]:
    """Return the indices of the rows of each command (or of the commands of producers), connection and owner."""
    kinds = np.where(np.isin(frames.type[rows], _OF_PRODUCERS), _OF_PRODUCERS[0], frames.type[rows])
    columns = (frames.owner[rows], frames.places.stream[rows], kinds)
    order = np.lexsort(columns)
    changes = np.zeros(len(rows), np.bool_)
    for column in columns:
        ordered = column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    return np.split(order, np.flatnonzero(changes)) if len(rows) else []
