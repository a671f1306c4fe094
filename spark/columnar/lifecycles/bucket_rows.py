"""The rows of one bucket as arrays, with their producers, consumers and subscriptions.

Rules of this file
1. Rows of duplicate connections (the second connection of a proxied conversation) are removed in this module.
2. If several rows publish the same id, the first row is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.cumulative_acks import subscriptions_of
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.row_operations import longs


@dataclass(slots=True)
class Producers:
    """Rows of PUBLISHED."""

    table: pa.Table
    ledger: Longs
    entry: Longs
    publisher: Longs
    """Index into `RecordingFacts.publishers`; -1 if the PRODUCER was not captured."""
    persistent: Bools

    def pick(self, rows: Longs) -> Producers:
        """Return some of the rows."""
        return Producers(
            self.table.take(pa.array(rows)),
            self.ledger[rows], self.entry[rows], self.publisher[rows], self.persistent[rows],
        )  # fmt: skip

    def of_persistent_topics(self) -> Producers:
        """Return the rows of persistent topics."""
        return self if self.persistent.all() else self.pick(np.flatnonzero(self.persistent))


@dataclass(slots=True)
class Consumers:
    """Rows of CONSUMED."""

    table: pa.Table
    ledger: Longs
    entry: Longs
    sub: Longs
    """Number of the subscription; negative if the SUBSCRIBE was not captured."""
    session: Longs
    """Index into `RecordingFacts.sessions`; -1 if the SUBSCRIBE was not captured."""
    delivered: Longs
    acked: Longs
    """Frame of an effective ACK; -1 if none. A row without a delivery can have an ACK."""
    persistent: Bools
    unusual: Bools
    """Whether the columns lack data of the frame."""
    nacked: Longs
    """Frame of the redelivery request; -1 if none."""

    def pick(self, rows: Longs) -> Consumers:
        """Return some of the rows."""
        return Consumers(
            self.table.take(pa.array(rows)), self.ledger[rows], self.entry[rows], self.sub[rows], self.session[rows],
            self.delivered[rows], self.acked[rows], self.persistent[rows], self.unusual[rows], self.nacked[rows],
        )  # fmt: skip

    def of_persistent_topics(self) -> Consumers:
        """Return the rows of persistent topics."""
        return self if self.persistent.all() else self.pick(np.flatnonzero(self.persistent))

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dicts with the added keys ``sub`` and ``session``.

        If an ACK has no effect, its columns are -1.
        """
        found: list[dict[str, Any]] = self.table.to_pylist()
        for row, sub, session, acked in zip(
            found, self.sub.tolist(), self.session.tolist(), self.acked.tolist(), strict=True
        ):
            row["sub"], row["session"], row["acked_number"] = sub, session, acked
        return found


def producers_of(published: pa.Table, facts: RecordingFacts) -> Producers:
    """Return rows of PUBLISHED with their producers."""
    published = _without_duplicate_connections(published, facts)
    stream, owner, number = (longs(published, name) for name in ("stream", "producer_id", "sent_number"))
    at = facts.producers.find(stream, owner, number)
    publisher = np.where(at >= 0, facts.publisher[at], -1) if len(facts.publisher) else at
    persistent = np.array([*(one.persistent for one in facts.publishers), True])
    return Producers(published, longs(published, "ledger"), longs(published, "entry"), publisher, persistent[publisher])


def consumers_of(consumed: pa.Table, facts: RecordingFacts) -> Consumers:
    """Return rows of CONSUMED with their consumers and subscriptions."""
    consumed = _without_duplicate_connections(consumed, facts)
    names = ("stream", "consumer_id", "delivered_number", "acked_number", "nacked_number")
    stream, owner, delivered, acked, nacked = (longs(consumed, name) for name in names)
    first = np.where(delivered >= 0, delivered, np.where(acked >= 0, acked, nacked))
    sub, at = subscriptions_of(facts, stream, owner, first)
    session = np.where(at >= 0, facts.session[at], -1) if len(facts.session) else at
    persistent = np.array([*(one.persistent for one in facts.sessions), True])
    unusual = np.zeros(len(nacked), np.bool_)
    for name in ("head", "ack"):
        column = consumed.column(name)
        if column.null_count < len(column):
            unusual = unusual | column.is_valid().to_numpy()
    return Consumers(
        consumed, longs(consumed, "ledger"), longs(consumed, "entry"), sub, session, delivered,
        _counting(facts, stream, owner, acked, at), persistent[session], unusual, nacked,
    )  # fmt: skip


def _counting(facts: RecordingFacts, stream: Longs, owner: Longs, acked: Longs, at: Longs) -> Longs:
    """Return the ACKs that the broker processes: the ACKs of attached consumers."""
    if not len(facts.ready):
        return acked
    later = np.flatnonzero((acked >= 0) & (at >= 0) & (acked >= facts.until[at]))
    if len(later):
        at = at.copy()
        at[later] = facts.consumers.find(stream[later], owner[later], acked[later])
    return np.where((at < 0) | facts.ready[at], acked, -1)


def _without_duplicate_connections(table: pa.Table, facts: RecordingFacts) -> pa.Table:
    if not facts.duplicate_connections:
        return table
    return table.filter(pa.array(~np.isin(longs(table, "stream"), list(facts.duplicate_connections))))
