"""The sections about messages: traffic, durations, unacknowledged messages and the slowest messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pcli.codec.observe.tracking.records.lifecycle import STATES
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE
from pcli.spark.report.charts import LETTERS, Series, lines, spans
from pcli.spark.report.histograms import Histograms, Keys
from pcli.spark.report.message_figures import SLOWEST, MessageFigures
from pcli.spark.report.number_format import duration, moment, name_text, named, number
from pcli.spark.report.page_elements import Chart, Section, TableText

__all__ = ["durations", "held", "slowest", "states", "traffic"]

MOST_ROWS: Final = 25
"""Maximum number of rows in a table of topics, subscriptions or consumers."""

_SHARES: Final = ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))


def traffic(figures: MessageFigures) -> Section:
    """Return the section on messages per second over time."""
    section = Section("Traffic over time", "traffic")
    span = figures.span
    series = [
        Series(word, span.begins(), list(counts.counts.sum(axis=0) / span.seconds))
        for word, counts in (
            ("published", figures.published), ("delivered", figures.delivered), ("acknowledged", figures.acked),
        )
    ]  # fmt: skip
    highest = ", ".join(f"{one.name} at most {max(one.y, default=0):,.0f} per second" for one in series)
    svg = lines(
        series, "seconds", "messages / s", title="Messages per second", alt=f"Lines over time: {highest}.", steps=True
    )
    section.charts.append(
        Chart(
            svg,
            f"In steps of {duration(span.seconds * 1e9)} from {moment(span.first_ns)}: {highest}. "
            "Redeliveries to the same consumer are not counted.",
        )
    )
    rows = []
    for key in _most(figures.published.counts.sum(axis=1)):
        in_all = int(figures.published.counts[key].sum())
        rows.append(
            (named(*figures.topics.names[key]), number(in_all), f"{in_all / (span.seconds * span.stretches):,.1f}")
        )
    head = ("topic", "messages", "per second, mean")
    section.tables.append(
        TableText("Topics by messages published", head, rows, frozenset({1, 2}), _more(figures.topics))
    )
    return section


def durations(figures: MessageFigures) -> list[Section]:
    """Return the section on publish, dispatch and ack durations, each with curves and a table."""
    return [
        _duration(*about)
        for about in (
            ("Publish latency", "publish", "from SEND to SEND_RECEIPT", figures.publish, figures.topics),
            ("Dispatch latency", "dispatch", "from SEND to the first MESSAGE", figures.dispatch, figures.subscriptions),
            ("Acknowledgement latency", "ack", "from MESSAGE to ACK", figures.ack, figures.subscriptions),
        )
    ]


def _duration(title: str, anchor: str, what: str, found: Histograms, keys: Keys) -> Section:
    section = Section(title, anchor)
    counts = np.array([found.count(key) for key in range(len(keys.names))], np.int64)
    order = _most(counts)
    if not order:
        section.texts.append(f"The capture contains no message {what}.")
        return section
    shown = order[: len(LETTERS)]
    series = [Series(letter, *found.curve(key)) for letter, key in zip(LETTERS, shown)]
    worst = max(found.quantile_ns(key, 0.99) for key in shown)
    slowest = f"in the slowest curve, 99 % of the messages take up to {duration(worst)}"
    alt = f"Curves of the percentage of messages by time {what}; {slowest}."
    svg = lines(series, "milliseconds", "% of messages", title=title, alt=alt, log_x=True)
    section.charts.append(
        Chart(svg, f"Time {what}: percentage of messages up to each duration. The letters refer to the table.")
    )
    rows = []
    for place, key in enumerate(order):
        figures = [duration(found.quantile_ns(key, share)) for share, _ in _SHARES]
        letter = LETTERS[place] if place < len(LETTERS) else ""
        rows.append(
            (letter, named(*keys.names[key]), number(int(counts[key])), *figures, duration(found.longest_ns(key)))
        )
    head = (
        "",
        "subscription" if len(keys.names[order[0]]) > 2 else "topic",
        "messages",
        *(name for _, name in _SHARES),
        "longest",
    )
    section.tables.append(TableText(f"Time {what}", head, rows, frozenset(range(2, 7)), _more(keys)))
    return section


def held(figures: MessageFigures) -> Section:
    """Return the section on messages held by consumers over time, and on unacknowledged and redelivered messages."""
    section = Section("Unacknowledged and redelivered", "unacked")
    sums = np.cumsum(figures.held.counts, axis=1)
    order = _most(sums.max(axis=1) if sums.size else np.zeros(0, np.int64))[: len(LETTERS)]
    if order:
        begins = figures.span.begins()
        series = [Series(letter, begins, sums[key].tolist()) for letter, key in zip(LETTERS, order)]
        most = int(sums[order[0]].max())
        alt = f"Lines over time of the messages that consumers held; the maximum is {most:,}."
        svg = lines(series, "seconds", "messages held", title="Delivered and not acknowledged", alt=alt, steps=True)
        section.charts.append(
            Chart(
                svg,
                "Messages that each consumer had received and not acknowledged. A message is counted until it is "
                "delivered to a different consumer. The letters refer to the table.",
            )
        )
        rows = [
            (letter, named(*figures.consumers.names[key]), number(int(sums[key].max())), number(int(sums[key][-1])))
            for letter, key in zip(LETTERS, order)
        ]
        head = ("", "consumer", "maximum held", "held at the end")
        section.tables.append(TableText("Consumers that held the most messages", head, rows, frozenset({2, 3})))
    section.tables.append(_left(figures))
    return section


def _left(figures: MessageFigures) -> TableText:
    names = figures.subscriptions.names
    none: Counter[int] = Counter()
    columns = [sum((figures.left[word] for word in words), none) for words in _LEFT.values()] + [figures.redelivered]
    weights = np.array([sum(column[key] for column in columns) for key in range(len(names))])
    rows = [(named(*names[key]), *(number(column[key]) for column in columns)) for key in _most(weights)]
    caption = (
        "By subscription: messages that were never acknowledged, that a consumer still held at the end of the capture, "
        "whose connections began before the capture, or for which frames are missing; and entries that were "
        "delivered more than once"
    )
    head = ("subscription", *_LEFT, "redelivered")
    return TableText(caption, head, rows, frozenset(range(1, len(head))))


_LEFT: Final = {
    "unacknowledged": ("complete",),
    "open at the end": ("capture_end",),
    "begun earlier": ("capture_start",),
    "uncertain": ("gap_affected", "weak_sync", "late"),
}
"""Descriptions of unacknowledged messages, by keys of EVIDENCE."""


def slowest(figures: MessageFigures) -> Section:
    """Return the section on the slowest messages, each as a row of a timeline."""
    section = Section("Slowest messages", "slowest")
    if not figures.slowest:
        section.texts.append("The capture does not contain both the SEND and the delivery of any message.")
        return section
    bars, rows = [], []
    unit, name = (1e9, "seconds") if figures.slowest[0][0] >= 1e10 else (1e6, "milliseconds")
    for place, (took, row) in enumerate(figures.slowest):
        steps = _steps(row)
        bars.append([(begin / unit, length / unit, what) for begin, length, what in steps])
        timeline = ", ".join(f"{what} after {duration(begin + length)}" for begin, length, what in steps)
        place_of = "–" if row["ledger"] is None else f"{row['ledger']}:{row['entry']}"
        rows.append(
            (str(place + 1), place_of, named(row["cluster"], row["topic"]), duration(took), timeline, _last(row))
        )
    alt = f"The {len(bars)} slowest messages as bars from SEND; the slowest took {duration(figures.slowest[0][0])}."
    svg = spans(bars, f"{name} since SEND", title="The slowest messages", alt=alt)
    section.charts.append(
        Chart(
            svg,
            "From SEND to the receipt, to the first MESSAGE, and to the last ACK. The numbers refer to the table.",
        )
    )
    head = ("", "message id", "topic", "total", "steps after SEND", "last event")
    section.tables.append(
        TableText(f"The {SLOWEST} messages with the longest durations", head, rows, frozenset({0, 3}))
    )
    return section


def _last(row: dict[str, Any]) -> str:
    """Return the subscription and consumer of a message's last event, and its number of deliveries to the consumer."""
    last = max(row["deliveries"], key=lambda one: max(one["delivered_ns"] or 0, one["acked_ns"] or 0))
    times = f", delivered {last['count']} times" if last["count"] > 1 else ""
    again = f" ({name_text(last['again'])})" if last["again"] else ""
    ack = "" if last["acked_ns"] is not None else ", no ACK"
    return f"{name_text(last['subscription'])} / {name_text(last['consumer'])}{times}{again}{ack}"


def _steps(row: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Return consecutive steps (begin, length, kind) in ns since SEND."""
    sent = row["producer"]["sent_ns"]
    deliveries = row["deliveries"]
    moments = [
        ("stored", row["producer"]["receipt_ns"]),
        (
            "delivered",
            min((one["delivered_ns"] for one in deliveries if one["delivered_ns"] is not None), default=None),
        ),
        ("acknowledged", max((one["acked_ns"] for one in deliveries if one["acked_ns"] is not None), default=None)),
    ]
    at, steps = 0, []
    for what, time_ns in moments:
        if time_ns is not None and time_ns - sent > at:
            steps.append((at, time_ns - sent - at, what))
            at = time_ns - sent
    return steps


def states(figures: MessageFigures) -> Section:
    """Return the section on the states of messages and their evidence."""
    section = Section("Final states of the messages", "states")
    rows = [
        (state, number(count), STATES[state], f"{evidence}: {EVIDENCE[evidence]}")
        for (state, evidence), count in sorted(figures.states.items(), key=lambda one: -one[1])
    ]
    caption = f"{number(figures.entries)} entries, by state and evidence"
    section.tables.append(TableText(caption, ("state", "entries", "meaning", "evidence"), rows, frozenset({1})))
    return section


def _most(weights: Sequence[int] | Any) -> list[int]:
    """Return the indices of the largest positive values, at most MOST_ROWS, in descending order of the values."""
    array = np.asarray(weights)
    return [int(key) for key in np.argsort(-array, kind="stable")[:MOST_ROWS] if array[key] > 0]


def _more(keys: Keys) -> str:
    return f"The {MOST_ROWS} highest of {len(keys.names):,} rows." if len(keys.names) > MOST_ROWS else ""
