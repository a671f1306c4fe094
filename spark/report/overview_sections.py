"""The sections about all messages: traffic, latencies, unacknowledged messages, permits, slowest messages, states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pcli.codec.observe.tracking.records.lifecycle import STATES
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE
from pcli.spark.report import message_series as series_of
from pcli.spark.report.message_series import ALL, ALL_KEY, CONSUMER, SUBSCRIPTION, TOPIC
from pcli.spark.report.number_format import duration, name_text, named, number
from pcli.spark.report.page_elements import Cell, Section, TableText, count_cell
from pcli.spark.report.report_data import Key, ReportData
from pcli.spark.report.vega_charts import COLORS, MAX_SERIES, Bar, Mark, Series, bar_chart, time_chart

MOST_ROWS: Final = 200
"""Maximum number of rows in a table of topics, subscriptions or consumers."""
SLOWEST: Final = 20
"""Number of slowest messages that the report shows."""

_STEPS: Final = {"stored": COLORS[0], "delivered": COLORS[1], "acknowledged": COLORS[2]}


def traffic(data: ReportData, marks: Sequence[Mark]) -> Section:
    """Return the section on messages per second."""
    section = Section("Traffic over time", "traffic")
    sql = "SELECT cluster, topic, sum(messages) AS n FROM entries GROUP BY ALL HAVING n > 0 ORDER BY n DESC, 1, 2"
    keys = [row[:2] for row in data.rows(sql)]
    lines = [
        Series(kind, series_of.rates(data, kind, ALL, [ALL_KEY])[ALL_KEY])
        for kind in ("published", "delivered", "acknowledged")
    ]
    step = duration(data.clock.step * 1e9)
    caption = f"All topics, in intervals of {step}. Redeliveries to the same consumer are not counted."
    _add_chart(section, data, marks, ("traffic-all", "Messages", "messages / s"), lines, caption)
    published = series_of.rates(data, "published", TOPIC, keys[:MAX_SERIES])
    by_topic = [Series(named(*key), values) for key, values in published.items()]
    more = f"The {MAX_SERIES} topics with most messages of {number(len(keys))}." if len(keys) > MAX_SERIES else ""
    text = ("traffic-topics", "Messages published by topic", "messages / s")
    _add_chart(section, data, marks, text, by_topic, more)
    return section


def latencies(data: ReportData, marks: Sequence[Mark]) -> list[Section]:
    """Return the sections on publish, dispatch and ack latencies: 99th percentiles over time, and a table."""
    return [
        _latency(data, marks, *about)
        for about in (
            ("Publish latency", "publish", "from SEND to SEND_RECEIPT", TOPIC),
            ("Dispatch latency", "dispatch", "from SEND to the first MESSAGE", SUBSCRIPTION),
            ("Acknowledgement latency", "ack", "from MESSAGE to ACK", SUBSCRIPTION),
        )
    ]


def _latency(data: ReportData, marks: Sequence[Mark], title: str, kind: str, what: str, names: str) -> Section:
    section = Section(title, kind)
    found = series_of.latency_rows(data, kind, names, MOST_ROWS)
    if not found:
        section.texts.append(f"The capture contains no message {what}.")
        return section
    keys = [key for key, _, _ in found[:MAX_SERIES]]
    curves = series_of.latencies(data, kind, names, keys)
    lines = [Series(named(*key), curves[key]["99 %"]) for key in keys]
    word = "topic" if names == TOPIC else "subscription"
    caption = f"Time {what} that 99 % of the messages of each {word} in an interval do not exceed."
    if len(found) > MAX_SERIES:
        caption += f" The {MAX_SERIES} with most messages."
    _add_chart(section, data, marks, (f"{kind}-chart", f"{title}, 99 %", "ms"), lines, caption)
    rows: list[Sequence[Cell | str]] = [
        (named(*key), count_cell(count), *(Cell(duration(value * 1e6), value) for value in values))
        for key, count, values in found
    ]
    head = (word, "messages", *series_of.PERCENTILES, "longest")
    more = f"The {MOST_ROWS} with most messages." if len(found) == MOST_ROWS else ""
    section.tables.append(TableText(f"Time {what}, by {word}", head, rows, frozenset(range(1, 6)), more))
    return section


def unacknowledged(data: ReportData, marks: Sequence[Mark]) -> Section:
    """Return the section on messages held by consumers, backlogs, and unacknowledged and redelivered messages."""
    section = Section("Unacknowledged, backlog and redelivered", "unacked")
    keys = [row[:6] for row in data.rows(_HOLDERS)]
    curves = series_of.held(data, CONSUMER, keys)
    lines = [Series(named(*key[:4]), curves[key]) for key in keys]
    caption = (
        f"Messages that a consumer had received and not acknowledged: the {MAX_SERIES} consumers that held most. A "
        "message is counted until it is delivered to a different consumer."
    )
    text = ("unacked-chart", "Delivered and not acknowledged", "messages")
    _add_chart(section, data, marks, text, lines, caption, wide=False)
    rows = sorted(data.objects("subscriptions", _BACKLOG), key=lambda row: -(row["msg_backlog"] or 0))
    ends = {subscription_key(row): row["msg_backlog"] for row in rows[:MAX_SERIES] if row["msg_backlog"] is not None}
    backlogs = series_of.backlogs(data, ends)
    caption = (
        "Entries that a subscription had not acknowledged, computed backwards from the backlog at the end of the "
        f"recording: the {MAX_SERIES} largest."
    )
    lines = [Series(named(*key), values) for key, values in backlogs.items()]
    _add_chart(section, data, marks, ("backlog-chart", "Backlog", "entries"), lines, caption, wide=False)
    section.tables.append(_left(data))
    return section


_BACKLOG: Final = ("cluster", "topic", "subscription", "msg_backlog")
_PERMITS: Final = (
    "cluster", "topic", "subscription", "consumer", "connection", "consumer_id", "flows", "exhausted_ns", "lowest",
    "available_permits", "unacked_messages", "msg_out_counter",
)  # fmt: skip

_HOLDERS: Final = f"""
SELECT {CONSUMER}, max(held) AS most FROM (
  SELECT {CONSUMER}, sum(change) OVER (PARTITION BY {CONSUMER} ORDER BY at_ns) AS held FROM changes
) GROUP BY ALL HAVING most > 0 ORDER BY most DESC, {CONSUMER} LIMIT {MAX_SERIES}
"""  # noqa: S608

_LEFT: Final = {
    "unacknowledged": "('complete')",
    "open at the end": "('capture_end')",
    "begun earlier": "('capture_start')",
    "uncertain": "('gap_affected', 'weak_sync', 'late')",
}
"""Descriptions of unacknowledged messages, by keys of EVIDENCE."""


def _left(data: ReportData) -> TableText:
    columns = ", ".join(f"sum(unacked) FILTER (nth = 1 AND evidence IN {words})" for words in _LEFT.values())
    found = data.rows(
        f"SELECT {SUBSCRIPTION}, {columns}, count(*) FILTER (nth = 1 AND times > 1) AS redelivered FROM "  # noqa: S608
        f"deliveries GROUP BY ALL HAVING sum(unacked) > 0 OR redelivered > 0 ORDER BY sum(unacked) DESC, "
        f"{SUBSCRIPTION} LIMIT {MOST_ROWS}"
    )
    cells: list[Sequence[Cell | str]] = [
        (named(*row[:3]), *(count_cell(int(value or 0)) for value in row[3:])) for row in found
    ]
    caption = (
        "By subscription: messages that were never acknowledged, that a consumer still held at the end of the capture, "
        "whose connections began before the capture, or for which frames are missing; and entries that were "
        "delivered more than once"
    )
    head = ("subscription", *_LEFT, "redelivered")
    more = f"The first {MOST_ROWS} subscriptions." if len(cells) == MOST_ROWS else ""
    return TableText(caption, head, cells, frozenset(range(1, len(head))), more)


def permits(data: ReportData, marks: Sequence[Mark]) -> Section:
    """Return the section on permits over time, for the consumers that had no permits for the longest time."""
    section = Section("Permits over time", "permits")
    rows = [row for row in data.objects("consumers", _PERMITS) if row["flows"]]
    rows.sort(key=lambda row: (-(row["exhausted_ns"] or 0), row["available_permits"] or 0))
    if not rows:
        section.texts.append("The capture contains no FLOW.")
        return section
    keys = {consumer_key(row): row for row in rows[:MAX_SERIES]}
    curves = series_of.permits(data, list(keys))
    lines = [Series(named(*key[:4]), lowest) for key, (_, lowest) in curves.items()]
    caption = "The lowest balance in each interval. If the balance is 0 or below, the broker sends nothing."
    if len(rows) > MAX_SERIES:
        caption += f" The {MAX_SERIES} consumers that were without permits for the longest time."
    _add_chart(section, data, marks, ("permits-chart", "Permits", "permits"), lines, caption)
    cells: list[Sequence[Cell | str]] = [
        (
            named(row["cluster"], row["topic"], row["subscription"], row["consumer"]),
            Cell(duration(row["exhausted_ns"] or 0), row["exhausted_ns"] or 0),
            *(count_cell(row[name]) for name in ("lowest", "available_permits", "unacked_messages", "msg_out_counter")),
        )
        for row in rows[:MOST_ROWS]
    ]  # fmt: skip
    head = ("consumer", "without permits", "lowest below 0", "availablePermits", "unackedMessages", "msgOutCounter")
    more = f"The first {MOST_ROWS} of {len(rows):,} consumers." if len(rows) > MOST_ROWS else ""
    caption = "Consumers by the time without permits; a dash marks an unknown value"
    section.tables.append(TableText(caption, head, cells, frozenset(range(1, 6)), more))
    return section


def slowest(data: ReportData) -> Section:
    """Return the section on the slowest messages, each as a row of a timeline."""
    section = Section("Slowest messages", "slowest")
    found = _slowest(data, "true", SLOWEST)
    if not found:
        section.texts.append("The capture does not contain both the SEND and the delivery of any message.")
        return section
    unit, name = (1e9, "seconds") if found[0][3] >= 1e10 else (1e6, "milliseconds")
    bars = [
        Bar(
            str(place + 1),
            begin / unit,
            end / unit,
            what,
            f"{what} after {duration(end)}, {_id(row)} of {named(*row[:2])}",
        )
        for place, row in enumerate(found)
        for begin, end, what in _steps(row)
    ]
    alt = f"The {len(found)} slowest messages as bars from SEND; the slowest took {duration(found[0][3])}."
    caption = "From SEND to the receipt, to the first MESSAGE, and to the last ACK. The numbers refer to the table."
    section.charts.append(
        bar_chart(
            "slowest-chart", "The slowest messages", bars, _STEPS, None, f"{name} since SEND", caption=caption, alt=alt
        )
    )
    section.tables.append(_slowest_text(found, f"The {len(found)} messages with the longest durations"))
    return section


def slowest_table(data: ReportData, key: Key, most: int) -> TableText | None:
    """Return the table of the slowest messages of a topic or a subscription."""
    names = [name.strip() for name in SUBSCRIPTION.split(",")][: len(key)]
    found = _slowest(data, " AND ".join(f"{name} = ?" for name in names), most, [value or "" for value in key])
    return _slowest_text(found, f"The {len(found)} messages with the longest durations") if found else None


def _slowest(data: ReportData, where: str, most: int, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return data.rows(_SLOWEST.format(where=where, most=most), values)


_SLOWEST: Final = """
SELECT cluster, topic, id, took, ledger, entry, sent_ns, receipt_ns, first_ns, ack_ns, d.subscription, d.consumer,
       d.count, d.again, d.acked_ns
FROM (
  SELECT id, any_value(sent_ns) AS sent_ns, min(delivered_ns) AS first_ns, max(acked_ns) AS ack_ns,
         max(greatest(delivered_ns, acked_ns)) - any_value(sent_ns) AS took,
         arg_max({{'subscription': subscription, 'consumer': consumer, 'count': count, 'again': again,
                   'acked_ns': acked_ns}}, greatest(delivered_ns, acked_ns)) AS d
  FROM deliveries WHERE sent_ns IS NOT NULL AND {where} GROUP BY id HAVING took IS NOT NULL
  ORDER BY took DESC, id LIMIT {most}
) JOIN (SELECT id, cluster, topic, ledger, entry, receipt_ns FROM entries) USING (id) ORDER BY took DESC, id
"""


def _slowest_text(found: Sequence[tuple[Any, ...]], caption: str) -> TableText:
    rows = [
        (
            Cell(str(place + 1), place), _id(row), named(*row[:2]), Cell(duration(row[3]), row[3]),
            ", ".join(f"{what} after {duration(end)}" for _, end, what in _steps(row)), _last(row),
        )
        for place, row in enumerate(found)
    ]  # fmt: skip
    head = ("", "message id", "topic", "total", "steps after SEND", "last event")
    return TableText(caption, head, rows, frozenset({0, 3}))


def _id(row: Sequence[Any]) -> str:
    return "–" if row[4] is None else f"{row[4]}:{row[5]}"


def _last(row: Sequence[Any]) -> str:
    """Return the subscription and consumer of a message's last event, and its number of deliveries to the consumer."""
    subscription, consumer, count, again, acked = row[10:]
    times = f", delivered {count} times" if count and count > 1 else ""
    cause = f" ({name_text(again)})" if again else ""
    return f"{name_text(subscription)} / {name_text(consumer)}{times}{cause}{', no ACK' if acked is None else ''}"


def _steps(row: Sequence[Any]) -> list[tuple[int, int, str]]:
    """Return consecutive steps (begin, end, kind) in ns since SEND."""
    at, steps = 0, []
    for what, time_ns in zip(_STEPS, row[7:10]):
        if time_ns is not None and time_ns - row[6] > at:
            steps.append((at, time_ns - row[6], what))
            at = time_ns - row[6]
    return steps


def states(data: ReportData) -> Section:
    """Return the section on the states of messages and their evidence."""
    section = Section("Final states of the messages", "states")
    found = data.rows("SELECT state, evidence, count(*) AS n FROM entries GROUP BY ALL ORDER BY n DESC, 1, 2")
    rows = [
        (state, count_cell(count), STATES[state], f"{evidence}: {EVIDENCE[evidence]}")
        for state, evidence, count in found
    ]
    caption = f"{number(sum(row[2] for row in found))} entries, by state and evidence"
    section.tables.append(TableText(caption, ("state", "entries", "meaning", "evidence"), rows, frozenset({1})))
    return section


def consumer_key(row: dict[str, Any]) -> Key:
    """Return the key of a row of the table consumers, as in the tables of messages and permits."""
    return (*subscription_key(row), row["consumer"] or "", row["connection"], row["consumer_id"])


def subscription_key(row: dict[str, Any]) -> Key:
    """Return the key of a row of the table subscriptions, as in the tables of messages."""
    return row["cluster"], row["topic"] or "", row["subscription"] or ""


def _add_chart(
    section: Section,
    data: ReportData,
    marks: Sequence[Mark],
    text: tuple[str, str, str],
    series: Iterable[Series],
    caption: str,
    *,
    wide: bool = True,
) -> None:
    """Add a chart over time to a section, if a series has a value; ``text`` is its key, title and unit."""
    chart = time_chart(*text, series, data.clock, marks, caption, wide=wide)
    if chart is not None:
        section.charts.append(chart)
