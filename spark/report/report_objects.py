"""Topics, subscriptions, consumers, producers and connections: their order, names, links and figures.

Rules of this file
1. Objects with errors come first, then those with warnings, then those with most traffic.
2. An object of the tables and the subject of a finding have the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pcli.spark.report.incident_rows import Findings, Found
from pcli.spark.report.number_format import duration, moment, name_text, named, number
from pcli.spark.report.page_elements import Cell, TableText
from pcli.spark.report.report_data import Key, ReportData

_TIMES_FROM: Final = 10**17
"""A value in ns is a time since 1970 from here, and a duration below; 1e17 ns is in March 1973."""

Href = Callable[[str, Key], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object."""

    name: str
    """The table, and the anchor of the section."""
    title: str
    names: tuple[str, ...]
    """The columns of the key."""
    traffic: tuple[str, ...]
    """The columns whose sum is the traffic."""
    columns: tuple[str, ...]
    """The columns of the table of all objects."""
    most: int
    """Maximum number of objects with a section in a page."""

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that the order, the names and the table of all objects need."""
        more = _READ.get(self.name, ())
        return tuple(dict.fromkeys((*self.names, *self.traffic, *self.columns, *more)))


_READ: Final = {
    "consumers": ("connection", "consumer_id"),
    "connections": ("client", "client_port", "server", "server_port"),
}

PLACE: Final = "row of the table"
"""The name of the place of a row among `ReportData.objects`, in rows with some columns only."""


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            "topics", "Topics", ("cluster", "topic"), ("messages_in",),
            ("messages_in", "bytes_in", "entries_in", "unloads"), 10,
        ),
        Kind(
            "subscriptions", "Subscriptions", ("cluster", "topic", "subscription"), ("delivered",),
            ("type", "consumers", "delivered", "msg_backlog", "unacked_messages"), 12,
        ),
        Kind(
            "consumers", "Consumers", ("cluster", "topic", "subscription", "consumer"), ("msg_out_counter",),
            ("sessions", "msg_out_counter", "acked", "available_permits", "exhausted_ns", "never_acked"), 12,
        ),
        Kind(
            "producers", "Producers", ("cluster", "topic", "producer"), ("msg_in_counter",),
            ("sessions", "msg_in_counter", "receipts", "resent", "open_sends"), 8,
        ),
        Kind(
            "connections", "Connections", ("cluster", "connection"), ("client_frames", "broker_frames"),
            ("client", "server", "kind", "client_frames", "broker_frames", "end"), 8,
        ),
    )
}  # fmt: skip
"""The kinds of objects in the order of the page."""

_NOT_SHOWN: Final = frozenset(("cluster", "topic", "subscription", "consumer", "producer", "connection", "system"))


class Objects:
    """The selected objects of a run in the order of the page."""

    def __init__(self, data: ReportData, found: Findings) -> None:
        self._data = data
        self._found = found
        self._ordered: dict[str, list[tuple[Key, dict[str, Any]]]] = {}

    def of(self, kind: Kind) -> list[tuple[Key, dict[str, Any]]]:
        """Return the keys and rows of the objects of a kind."""
        if kind.name not in self._ordered:
            rows = self._data.objects(kind.name, kind.read)
            keyed = [(_key(kind, row), row | {PLACE: place}) for place, row in enumerate(rows)]
            self._ordered[kind.name] = sorted(keyed, key=lambda one: (*self._weight(kind, *one), *map(str, one[0])))
        return self._ordered[kind.name]

    def findings(self, kind: Kind, key: Key) -> list[Found]:
        """Return the findings of an object."""
        return self._found.of.get((kind.name, key), [])

    def anchor(self, name: str, key: Key) -> str:
        """Return the link to the section of an object in the same page; empty if it has none."""
        kind = KINDS[name]
        place = next((at for at, one in enumerate(self.of(kind)[: kind.most]) if one[0] == key), None)
        return "" if place is None else f"#{name}-{place + 1}"

    def table(self, kind: Kind, href: Href, rows: Sequence[tuple[Key, dict[str, Any]]], more: str = "") -> TableText:
        """Return the table of these objects with links."""
        cells = [
            (
                Cell(self.state(kind, key), float(self._weight(kind, key, row)[0])),
                Cell(title(kind, row), None, href(kind.name, key)),
                *(_cell(row, name) for name in kind.columns),
            )
            for key, row in rows
        ]
        head = ("state", kind.title.lower()[:-1], *kind.columns)
        numbers = frozenset(at for at, name in enumerate(head) if at > 1 and name not in _TEXTS)
        return TableText(f"{kind.title}; a dash marks an unknown value", head, cells, numbers, more)

    def state(self, kind: Kind, key: Key) -> str:
        """Return ``error``, ``warning`` or ``–``, from the findings of an object."""
        severities = {one.finding.severity for one in self.findings(kind, key)}
        return next((one for one in ("error", "warning") if one in severities), "–")

    def _weight(self, kind: Kind, key: Key, row: dict[str, Any]) -> tuple[int, int]:
        state = self.state(kind, key)
        return ("error", "warning", "–").index(state), -sum(row[name] or 0 for name in kind.traffic)


_TEXTS: Final = frozenset(("type", "client", "server", "kind", "end"))


def title(kind: Kind, row: dict[str, Any]) -> str:
    """Return the name of an object."""
    if kind.name == "connections":
        ends = f"{name_text(row['client'])}:{row['client_port']} to {name_text(row['server'])}:{row['server_port']}"
        return f"{named(row['cluster'], str(row['connection']))} ({ends})"
    return named(*_key(kind, row))


def facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of an object that are known and not 0, by the names of docs/tables.md."""
    return [(name, _text(name, value)) for name, value in row.items() if value and name not in _NOT_SHOWN]


def balance_table(data: ReportData, key: Key) -> TableText | None:
    """Return the message balance of a topic and its subscriptions, or of one subscription."""
    rows = [row for row in data.rows_of_topic("balances", *key[:2]) if len(key) == 2 or row["subscription"] == key[2]]
    names = [name for name in _BALANCE if any(row[name] is not None for row in rows)]
    cells: list[Sequence[Cell | str]] = [
        (name_text(row["subscription"]) if row["subscription"] else "topic", *(_cell(row, one) for one in names))
        for row in rows
    ]
    head = ("", *names)
    caption = "Message balance: what became of the messages; a dash marks an unknown value"
    return TableText(caption, head, cells, frozenset(range(1, len(head)))) if rows else None


_BALANCE: Final = (
    "sent", "refused", "deduplicated", "stored", "stored_twice", "aborted", "delivered", "redelivered", "acknowledged",
    "dropped", "skipped", "removed", "remaining", "unaccounted",
)  # fmt: skip


def _key(kind: Kind, row: dict[str, Any]) -> Key:
    names = tuple(row[name] for name in kind.names)
    if kind.name == "consumers" and not row["consumer"]:  # as in the subjects of findings
        return (*names[:-1], f"consumer #{row['consumer_id']} of stream {row['connection']}")
    return names


def _cell(row: dict[str, Any], name: str) -> Cell:
    value = row[name]
    if value is None:
        return Cell("–", -1 if name not in _TEXTS else None)
    return Cell(_text(name, value), value if isinstance(value, int | float) else None)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, int):
        if name.endswith("_ns"):
            return moment(value) if value >= _TIMES_FROM else duration(value)
        return number(value)
    if isinstance(value, list):
        return ", ".join(_item(one) for one in value)
    return name_text(str(value))


def _item(one: Any) -> str:
    if not isinstance(one, dict):
        return name_text(str(one))
    if "figure" in one:
        return f"{one['figure']} ({one['reason']})"
    return f"{name_text(str(one['name']))} ×{one['count']}"
