"""The rows of `pcli top`, from statistics of topics in Pulsar's format (``topics stats``).

Rules of this file
1. Statistics of captures and brokers have the same names: those of TopicStats, SubscriptionStats and ConsumerStats.
   A missing or null value is unknown.
2. A rate is the increase of a counter per second since the previous page. On the first page, the broker's rate is used.
3. If a topic lacks a value, its row shows the sum or the minimum of its subscriptions' values. The same applies to a
   subscription and its consumers. The worst consumer thus determines the order of topics. Rows are below their topic in
   every order.
4. A scalable topic is one row with the sums of its segments; `segments` of a snapshot contains the segments instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.rules.finding_text import frames_text
from pcli.codec.observe.text_format import printable
from pcli.codec.scalable.segment_name import name_without_segment, scalable_topic

Stats = dict[str, Any]
"""A JSON object."""

Path = tuple[str, ...]
"""The path of a row: (topic), (topic, subscription), or (topic, subscription, consumer)."""


@dataclass(slots=True)
class Row:
    """A topic, a subscription or a consumer."""

    path: Path
    type: str = ""
    """The type of a subscription; empty in other rows."""
    permits: int | None = None
    unacked: int | None = None
    backlog: int | None = None
    count: int | None = None
    """Number of messages published to a topic, or delivered by a subscription or to a consumer."""
    rate: float | None = None
    """Messages per second."""
    state: str = ""
    """A problem or a role: blocked, no permits, active."""
    stats: Stats = field(default_factory=dict)
    """All statistics of the row."""
    children: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path[-1]


@dataclass(slots=True)
class Snapshot:
    """The state of a source at one time."""

    time_ns: int
    """Time of the last frame or of the response; 0 before the first one."""
    topics: Stats = field(default_factory=dict)
    """TopicStats by the full name of the topic; those of scalable topics are sums, with the counts of segments."""
    findings: list[Any] = field(default_factory=list)
    """Findings, with the most important first."""
    note: str = ""
    """A line about the source: its progress, or its error."""
    broker: list[str] = field(default_factory=list)
    """Lines of the comparison with a broker, if requested."""
    label: Callable[[str], str] = str
    """A function that adds packet numbers to the frame numbers in a text, if requested."""

    segments: Stats | None = None
    """TopicStats with segments in place of scalable topics; None if there are none."""

    def finding_text(self, finding: Any) -> str:
        """Return the rule of a finding, its statement and its first frames."""
        frames = f"  [{frames_text(finding.frames[:3])}]" if finding.frames else ""
        return self.label(f"{finding.rule}: {printable(finding.what)}{frames}")


COLUMNS: Final = ("name", "type", "permits", "unacked", "backlog", "msg/s", "msgs", "state")
"""Titles of the columns."""

SORTS: Final[dict[str, str]] = {
    "n": "name",
    "p": "fewest permits",
    "u": "most unacked",
    "b": "largest backlog",
    "r": "highest rate",
}
"""Keys of the page, and the sort orders that they select."""


def make_rows(now: Snapshot, before: Snapshot | None, *, segments: bool = False) -> list[Row]:
    """Return the topics with their subscriptions and consumers. ``before`` is the previous snapshot, for rates.

    If ``segments`` is set, each segment of a scalable topic is a row.
    """
    seconds = 0.0 if before is None else (now.time_ns - before.time_ns) / 1e9
    old = _stats_of(before, segments=segments) if before is not None and seconds > 0 else {}
    topics = _stats_of(now, segments=segments)
    return [_topic(name, stats, old.get(name, {}), seconds) for name, stats in topics.items()]


def _stats_of(snapshot: Snapshot, *, segments: bool) -> Stats:
    return snapshot.segments if segments and snapshot.segments is not None else snapshot.topics


def _topic(name: str, stats: Stats, old: Stats, seconds: float) -> Row:
    olds = old.get("subscriptions", {})
    children = [_subscription((name,), one, part, olds.get(one, {}), seconds) for one, part in _subscriptions(stats)]
    row = Row((name,), stats=stats, children=children, count=stats.get("msgInCounter"))
    row.rate = _rate(stats, old, seconds, "msgInCounter", "msgRateIn")
    row.permits = _least(one.permits for one in children)
    row.unacked = _sum(one.unacked for one in children)
    row.backlog = _sum(one.backlog for one in children)
    row.state = "" if children else "no subscription"
    if "activeSegments" in stats:
        layout = f"{stats['activeSegments']} active, {stats['sealedSegments']} sealed"
        row.state = ", ".join(filter(None, (layout, row.state)))
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
    if now is None or before is None or now < before:  # the counter was reset if it decreased
        return stats.get(own)
    return float((now - before) / seconds)


def _least(values: Iterable[int | None]) -> int | None:
    return min((one for one in values if one is not None), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


# -- display -----------------------------------------------------------------------------------------------------------


def ordered(rows: list[Row], key: str, words: str = "") -> Iterator[Row]:
    """Yield rows in the order of the table, sorted by a key of SORTS.

    If ``words`` is set, yield only rows with these words in their name or in the name of a row above or below, ignoring
    case.
    """
    wanted = words.casefold()
    for row in sorted(rows, key=lambda row: (_rank(row, key), row.name)):
        below = "" if wanted in row.name.casefold() else words
        inner = list(ordered(row.children, key, below))
        if inner or not below:
            yield row
            yield from inner


def _rank(row: Row, key: str) -> tuple[bool, float]:
    """Return a sort key; unknown values are last."""
    value = {"p": row.permits, "u": row.unacked, "b": row.backlog, "r": row.rate}.get(key)
    if value is None:
        return True, 0.0
    return False, float(value if key == "p" else -value)


def record(row: Row) -> dict[str, Any]:
    """Return the values of a row by column; None if unknown."""
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
    """Return the cells of a row as text. An unknown value is ``-``."""
    from pcli.codec.observe.text_format import printable

    def text(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, float):
            return f"{value:,.1f}"
        return f"{value:,}" if isinstance(value, int) else printable(value)

    return tuple(map(text, record(row).values()))


def concerns(finding: Any, row: Row) -> bool:
    """Return whether the subject of a finding is the row, or a part of it on a segment of a scalable topic."""
    subject = topic, subscription, consumer = tuple(
        finding.subject.get(name, "") for name in ("topic", "subscription", "consumer")
    )
    whole = scalable_topic(topic), subscription, name_without_segment(consumer, topic)
    parts = len(row.path)
    return row.path in (subject[:parts], whole[:parts])


def statistics_of(row: Row) -> list[tuple[str, str]]:
    """Return the names and values of a row's statistics, without subscriptions and consumers."""
    from pcli.codec.observe.text_format import printable

    shown = {name: value for name, value in row.stats.items() if name not in ("subscriptions", "consumers")}
    return [(printable(name), "-" if value is None else printable(value)) for name, value in shown.items()]
