"""The rows of `pcli top`, from statistics of topics in Pulsar's shape (``topics stats``).

Rules of this file
1. Whether the figures come from a capture or from a broker is not seen here: the names are those of TopicStats,
   SubscriptionStats and ConsumerStats, and what is null or missing is not known.
2. A rate is what a counter grew by since the page before, a second; on the first page the broker's own, if it says one.
3. A topic sums up its subscriptions and a subscription its consumers where they have no figure of their own, so that
   the worst of them decides where the topic stands. Rows below another one stay below it, whatever is sorted by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["COLUMNS", "SORTS", "Path", "Row", "Snapshot", "cells", "make_rows", "ordered", "record", "show_figures"]

Stats = dict[str, Any]
"""An object of JSON."""

Path = tuple[str, ...]
"""Topic; topic and subscription; topic, subscription and consumer."""


@dataclass(slots=True)
class Row:
    """A topic, a subscription or a consumer."""

    path: Path
    type: str = ""
    """Of a subscription."""
    permits: int | None = None
    unacked: int | None = None
    backlog: int | None = None
    count: int | None = None
    """Messages in of a topic, out of the others."""
    rate: float | None = None
    """The same a second."""
    state: str = ""
    """What a reader ought to know of it: blocked, no permits, ...."""
    stats: Stats = field(default_factory=dict)
    """All that is known of it."""
    children: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Without those above it."""
        return self.path[-1]


@dataclass(slots=True)
class Snapshot:
    """What a source says at one moment."""

    time_ns: int
    """Of the last frame, or of the answer; 0: nothing has come yet."""
    topics: Stats = field(default_factory=dict)
    """Full name to TopicStats."""
    findings: list[Any] = field(default_factory=list)
    """Finding objects, those that matter most first."""
    note: str = ""
    """A line about the source: how far it is, what is wrong with it."""


COLUMNS: Final = ("name", "type", "permits", "unacked", "backlog", "msg/s", "msgs", "state")
"""Titles, in order."""

SORTS: Final[dict[str, str]] = {
    "n": "name",
    "p": "fewest permits",
    "u": "most unacked",
    "b": "largest backlog",
    "r": "highest rate",
}
"""Key to what it sorts by."""


def make_rows(now: Snapshot, before: Snapshot | None) -> list[Row]:
    """The topics of a page, with what belongs to them; ``before``: the page before, for the rates."""
    seconds = 0.0 if before is None else (now.time_ns - before.time_ns) / 1e9
    old = before.topics if before is not None and seconds > 0 else {}
    return [_topic(name, stats, old.get(name, {}), seconds) for name, stats in now.topics.items()]


def _topic(name: str, stats: Stats, old: Stats, seconds: float) -> Row:
    olds = old.get("subscriptions", {})
    children = [_subscription((name,), one, part, olds.get(one, {}), seconds) for one, part in _subscriptions(stats)]
    row = Row((name,), stats=stats, children=children, count=stats.get("msgInCounter"))
    row.rate = _rate(stats, old, seconds, "msgInCounter", "msgRateIn")
    row.permits = _least(one.permits for one in children)
    row.unacked = _sum(one.unacked for one in children)
    row.backlog = _sum(one.backlog for one in children)
    row.state = "" if children else "no subscription"
    return row


def _subscriptions(stats: Stats) -> Iterable[tuple[str, Stats]]:
    found: Stats = stats.get("subscriptions", {})
    return found.items()


def _subscription(above: Path, name: str, stats: Stats, old: Stats, seconds: float) -> Row:
    path = (*above, name)
    olds = {(one.get("consumerName"), one.get("address")): one for one in old.get("consumers", ())}
    children = []
    for one in stats.get("consumers", ()):
        before = olds.get((one.get("consumerName"), one.get("address")), {})
        children.append(_consumer(path, one, before, seconds))
    row = Row(path, stats.get("type") or "", stats=stats, children=children, count=stats.get("msgOutCounter"))
    row.rate = _rate(stats, old, seconds, "msgOutCounter", "msgRateOut")
    row.permits = _least(one.permits for one in children)
    row.unacked = stats.get("unackedMessages")
    row.backlog = stats.get("msgBacklog")
    row.state = _subscription_state(row)
    return row


def _consumer(above: Path, stats: Stats, old: Stats, seconds: float) -> Row:
    row = Row((*above, stats.get("consumerName") or "(no name)"), stats=stats, count=stats.get("msgOutCounter"))
    row.rate = _rate(stats, old, seconds, "msgOutCounter", "msgRateOut")
    row.permits = stats.get("availablePermits")
    row.unacked = stats.get("unackedMessages")
    if stats.get("blockedConsumerOnUnackedMsgs"):
        row.state = "blocked: unacked"
    elif row.permits is not None and row.permits <= 0:
        row.state = "no permits"
    return row


def _subscription_state(row: Row) -> str:
    if row.stats.get("blockedSubscriptionOnUnackedMsgs"):
        return "blocked: unacked"
    if not row.children:
        return "no consumer"
    active = row.stats.get("activeConsumerName")
    return f"active: {active}" if active and len(row.children) > 1 else ""


def _rate(stats: Stats, old: Stats, seconds: float, counter: str, own: str) -> float | None:
    now, before = stats.get(counter), old.get(counter)
    if now is None or before is None or now < before:  # a counter that fell began anew
        return stats.get(own)
    return float((now - before) / seconds)


def _least(values: Iterable[int | None]) -> int | None:
    return min((one for one in values if one is not None), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


# -- what is shown of them ---------------------------------------------------------------------------------------------


def ordered(rows: list[Row], key: str, words: str = "") -> Iterator[Row]:
    """Rows as they stand below each other, sorted by a key of SORTS.

    ``words``: only rows with this in their name or in a name above or below, whatever its case.
    """
    wanted = words.casefold()
    for row in sorted(rows, key=lambda row: (_rank(row, key), row.name)):
        below = "" if wanted in row.name.casefold() else words
        inner = list(ordered(row.children, key, below))
        if inner or not below:
            yield row
            yield from inner


def _rank(row: Row, key: str) -> tuple[bool, float]:
    """Small comes first; what is not known comes last."""
    value = {"p": row.permits, "u": row.unacked, "b": row.backlog, "r": row.rate}.get(key)
    if value is None:
        return True, 0.0
    return False, float(value if key == "p" else -value)


def record(row: Row) -> dict[str, Any]:
    """The row by COLUMNS, as values; None: not known, or there is no such figure."""
    return dict(
        zip(
            COLUMNS,
            (
                "  " * (len(row.path) - 1) + row.name,
                row.type,
                row.permits,
                row.unacked,
                row.backlog,
                row.rate,
                row.count,
                row.state,
            ),
        )
    )


def cells(row: Row) -> tuple[str, ...]:
    """The row as text; what is None is ``-``."""
    from pcli.codec.observe.text_format import printable

    def text(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, float):
            return f"{value:,.1f}"
        return f"{value:,}" if isinstance(value, int) else printable(value)

    return tuple(map(text, record(row).values()))


def show_figures(row: Row) -> list[tuple[str, str]]:
    """Every figure of a row by its name, but for those that have rows of their own; nested ones as they are."""
    from pcli.codec.observe.text_format import printable

    told = {name: value for name, value in row.stats.items() if name not in ("subscriptions", "consumers")}
    return [(printable(name), "-" if value is None else printable(value)) for name, value in told.items()]
