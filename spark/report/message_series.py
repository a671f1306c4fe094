"""Series over time about messages: rates, latencies, unacknowledged messages and backlogs of objects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from pcli.spark.report.report_data import Curves, Key, ReportData

ALL: Final = "'all'"
"""The name of the only object in sums over all objects; its key is ALL_KEY."""
ALL_KEY: Final = ("all",)
TOPIC: Final = "cluster, topic"
SUBSCRIPTION: Final = "cluster, topic, subscription"
CONSUMER: Final = "cluster, topic, subscription, consumer, connection, consumer_id"
PRODUCER: Final = "cluster, topic, producer"
CONNECTION: Final = "cluster, connection"
_SESSION: Final = "cluster, connection, consumer_id"

Values = Sequence[float | None]

_RATES: Final = {
    "published": ("entries", "sent_ns", "sum(messages)", "true"),
    "delivered": ("deliveries", "delivered_ns", "sum(messages)", "true"),
    "acknowledged": ("deliveries", "acked_ns", "sum(messages)", "true"),
    "redelivered": ("deliveries", "delivered_ns", "sum(messages)", "nth > 1 OR count > 1"),
}
"""Source, time, number of messages and condition of each rate."""

_LATENCIES: Final = {
    "publish": ("entries", "sent_ns", "(receipt_ns - sent_ns) / 1e6", "receipt_ns IS NOT NULL AND sent_ns IS NOT NULL"),
    "dispatch": ("deliveries", "delivered_ns", "(delivered_ns - sent_ns) / 1e6", "nth = 1 AND sent_ns IS NOT NULL"),
    "ack": ("deliveries", "acked_ns", "(acked_ns - delivered_ns) / 1e6", "delivered_ns IS NOT NULL"),
}
"""Source, time of the sample, milliseconds and condition of each latency."""

PERCENTILES: Final = {"median": 0.5, "95 %": 0.95, "99 %": 0.99}


def rates(data: ReportData, kind: str, names: str, chosen: Sequence[Key]) -> dict[Key, Values]:
    """Return messages per second. ``kind`` is a key of _RATES, ``names`` the columns that identify an object."""
    source, time, value, where = _RATES[kind]
    found = data.curves(source, names, time, {"sum": value}, chosen, where)
    step = data.clock.step
    return {key: [(value or 0) / step for value in curve["sum"]] for key, curve in found.items()}


def latencies(data: ReportData, kind: str, names: str, chosen: Sequence[Key]) -> Curves:
    """Return the median and the 99th percentile in ms by object. ``kind`` is a key of _LATENCIES."""
    source, time, value, where = _LATENCIES[kind]
    values = {"median": _percentile(value, 0.5), "99 %": _percentile(value, 0.99)}
    return data.curves(source, names, time, values, chosen, where)


def latency_rows(data: ReportData, kind: str, names: str, most: int) -> list[tuple[Key, int, list[float]]]:
    """Return object, messages, percentiles and maximum in ms, for the objects with most messages.

    Percentiles are computed only for these objects, because the digest of one takes some kilobytes.
    """
    source, time, value, where = _LATENCIES[kind]
    columns = names.split(", ")
    known = " AND ".join(f"{name} <> ''" for name in columns)  # several objects may have no name
    rows = data.rows(
        f"WITH samples AS (SELECT {names}, {value} AS ms FROM {source} WHERE {known} AND {where} AND {time} BETWEEN "  # noqa: S608
        f"{data.clock.first_ns} AND {data.clock.last_ns}), most AS (SELECT {names}, count(*) AS samples FROM samples "
        f"GROUP BY ALL ORDER BY samples DESC, {names} LIMIT {most}) SELECT {names}, samples, {_percentiles('ms')}, "
        f"max(ms) FROM most JOIN samples USING ({names}) GROUP BY ALL ORDER BY samples DESC, {names}"
    )
    count = len(columns)
    return [(row[:count], row[count], [*map(float, row[count + 1]), float(row[count + 2])]) for row in rows]


def held(data: ReportData, names: str, chosen: Sequence[Key]) -> dict[Key, Values]:
    """Return the number of messages that were delivered and not acknowledged at the end of each interval."""
    found = data.curves("changes", names, "at_ns", {"sum": "sum(change)"}, chosen)
    starts = data.starts("changes", names, "at_ns", "sum(change)", chosen)
    return {
        key: list(accumulate(((one or 0) for one in curve["sum"]), initial=starts.get(key, 0)))[1:]
        for key, curve in found.items()
    }


def backlogs(data: ReportData, ends: dict[Key, int]) -> dict[Key, Values]:
    """Return the backlog of subscriptions in entries at the end of each interval.

    ``ends`` are the backlogs at the end of the recording. The earlier values follow from the entries that the topic
    stored and that the subscription acknowledged afterwards.
    """
    topics = list(dict.fromkeys(key[:2] for key in ends))
    after = _after(data) if data.selection.until_ns is not None else {}
    stored = data.curves("entries", TOPIC, "stored_ns", {"count": "count(*)"}, topics, "stored")
    acked = data.curves("acks", SUBSCRIPTION, "acked_ns", {"count": "count(*)"}, list(ends))
    result: dict[Key, Values] = {}
    for key, end in ends.items():
        changes = [(one or 0) - (other or 0) for one, other in zip(stored[key[:2]]["count"], acked[key]["count"])]
        later = list(accumulate(reversed(changes[1:]), initial=0.0))
        last = end - after.get(key[:2], 0) + after.get(key, 0)
        result[key] = [max(0.0, last - one) for one in reversed(later)]
    return result


def _after(data: ReportData) -> dict[Key, int]:
    """Return the entries that topics stored and that subscriptions acknowledged after the range."""
    last = data.clock.last_ns
    return {tuple(row[:-1]): row[-1] for sql in _AFTER for row in data.rows(sql.format(last=last))}


_AFTER: Final = (
    """
    SELECT cluster, coalesce(topic, ''), count(*) FROM messages WHERE NOT marker AND ledger IS NOT NULL
    AND coalesce(producer.receipt_ns, producer.sent_ns, first_ns) > {last} GROUP BY ALL
    """,
    """
    SELECT cluster, coalesce(topic, ''), coalesce(name, ''), count(*) FROM (
      SELECT cluster, topic, deliveries,
             unnest(list_distinct([coalesce(d.subscription, '') FOR d IN deliveries])) AS name
      FROM messages WHERE NOT marker
    ) WHERE list_min([d.acked_ns FOR d IN deliveries IF coalesce(d.subscription, '') = name]) > {last} GROUP BY ALL
    """,
)


def permits(data: ReportData, chosen: Sequence[Key]) -> dict[Key, tuple[Values, Values]]:
    """Return the last and the lowest balance of permits in each interval by consumer, or the one before."""
    values = {"balance": "arg_max(balance, last_frame)", "lowest": "min(lowest)"}
    sessions = {key: (key[0], *key[4:]) for key in chosen}
    found = data.curves("permits", _SESSION, "greatest(bucket_ns, first_ns)", values, list(sessions.values()))
    curves = {key: found[session] for key, session in sessions.items()}
    return {key: (_kept(curve["balance"]), _kept(curve["lowest"], curve["balance"])) for key, curve in curves.items()}


def requests(data: ReportData, chosen: Sequence[Key]) -> Curves:
    """Return requests per second, and the median and the longest time to a response in ms, by connection."""
    value = "latency_ns / 1e6"
    values = {"requests": "count(*)", "median": _percentile(value, 0.5), "longest": f"max({value})"}
    found = data.curves("exchanges", CONNECTION, "asked_ns", values, chosen, "NOT system")
    for curve in found.values():
        curve["requests"] = [(one or 0) / data.clock.step for one in curve["requests"]]
    return found


def _percentiles(value: str) -> str:
    """Return the SQL of a list with all PERCENTILES."""
    return f"approx_quantile(({value})::DOUBLE, {list(PERCENTILES.values())})"


def _percentile(value: str, share: float) -> str:
    """Return the SQL of a percentile. A t-digest approximates it if there are many rows; the memory is bounded."""
    return f"approx_quantile(({value})::DOUBLE, {share})"


def _kept(values: Values, before: Values | None = None) -> Values:
    """Return values in which an unknown one is the one before it, or the last known one in ``before``."""
    result: list[float | None] = []
    last: float | None = None
    for value, other in zip(values, before or values):
        result.append(last if value is None else value)
        last = other if other is not None else last
    return result
