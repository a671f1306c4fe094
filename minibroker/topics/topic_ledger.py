"""The ledger of one topic: how it is opened, when its closed ledgers are deleted, and its last entry for consumers.

Rules of this file
1. A closed ledger that no durable cursor needs and retention does not keep is deleted. This is checked when a ledger is
   closed, a subscription is deleted or a mark-delete position moves, and at intervals.
2. Consumers at the end of the topic read an entry before its ledger is deleted.
3. Before the check, cursors at the end of a closed ledger move to the start of the next ledger
   (maybeUpdateCursorBeforeTrimmingConsumedLedger).

Source of the rules: ManagedLedgerFactoryImpl, ManagedLedgerImpl.internalTrimLedgers,
PersistentTopic.getLastDispatchablePosition.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.shadow_ledger import ShadowManagedLedger

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.transactions.transaction_buffer import TopicTransactionBuffer


def open_ledger(topic: Topic) -> ManagedLedger:
    """Return the ledger of a topic. Raises Refused (PersistenceError) if the source of a shadow topic is missing."""
    broker, name = topic.broker, topic.name
    if topic.shadow_source is not None:
        source = topic.load_topic(topic.shadow_source)
        if source is None or source.ledger is None:
            raise Refused(pb.PersistenceError, "Managed ledger not found")
        return ShadowManagedLedger(str(name), source.ledger, broker.now)
    if topic.documents is not None:
        return topic.documents.open_ledger(broker, name)
    storage = broker.storage.open(0)
    return ManagedLedger(str(name), storage, broker.next_ledger_id, broker.settings, broker.now, cache=broker.cache)


class LedgerTrimming:
    """The checks of one persistent topic."""

    __slots__ = ("_checked", "_ledger", "_topic")

    def __init__(self, topic: Topic, ledger: ManagedLedger) -> None:
        self._topic = topic
        self._ledger = ledger
        self._checked = ledger.ledgers[-1].id
        """The id of the last ledger at the last check."""

    @property
    def due(self) -> bool:
        """Whether a ledger was closed since the last check."""
        return self._ledger.ledgers[-1].id != self._checked

    def ledger_closed(self) -> None:
        """Move the cursors, and delete ledgers."""
        self._skip_closed_ledgers()
        self.trim()

    def unloaded(self) -> None:
        """Move the cursors of a topic that was loaded again. Ledgers are only deleted if a cursor has moved."""
        self._checked = self._ledger.ledgers[-1].id
        if self._skip_closed_ledgers():
            self.trim()

    def _skip_closed_ledgers(self) -> bool:
        """Move cursors from the end of a closed ledger to the start of the next one. Return whether one moved."""
        cursors = [one.cursor for one in self._topic.subscriptions.values() if one.cursor is not None]
        moved = [cursor.skip_closed_ledger() for cursor in cursors]
        return any(moved)

    def trim(self, *, all_closed: bool = False) -> None:
        """Delete closed ledgers that all durable cursors have acknowledged and that retention does not keep.

        ``all_closed`` ignores retention.
        """
        topic, ledger = self._topic, self._ledger
        minutes = 0 if all_closed else topic.effective("defaultRetentionTimeInMinutes")
        megabytes = 0 if all_closed else topic.effective("defaultRetentionSizeInMB")
        ledger.trim(min(mark_delete_positions(topic), default=None), minutes, megabytes, topic.broker.now)
        self._checked = ledger.ledgers[-1].id
        for one in topic.subscriptions.values():
            if one.cursor is not None and one.cursor.mark_delete < ledger.first - 1:
                topic.broker.schedule(one)


def mark_delete_positions(topic: Topic) -> list[int]:
    """Return the mark-delete positions of all durable cursors of a topic."""
    places = [one.cursor.mark_delete for one in topic.subscriptions.values() if one.durable and one.cursor]
    snapshot = topic.deduplication_snapshot
    return places if snapshot is None else [*places, snapshot.cursor.mark_delete]


class LastDispatchableEntry:
    """The last readable entry that is neither a marker nor aborted. Only entries after the last search are searched.

    Whether an entry is a marker depends on the flag of its SEND, until the topic is loaded again or a transaction ends.
    After that, it depends on the metadata.
    """

    __slots__ = ("_answer", "_first", "_found", "_published", "_searched", "_segment", "flagged")

    def __init__(self, ledger_end: int, *, segment: bool = False) -> None:
        """``ledger_end`` is the offset after the last entry that is stored already.

        ``segment`` keeps the first result until the topic is loaded again, as a real 5.0.1 does for segments.
        """
        self._segment = segment
        self._answer: list[Entry | None] = []
        self.flagged: set[int] = set()
        """The offsets of the entries that were published with the marker flag."""
        self._published = ledger_end
        """The first offset for which the flag decides."""
        self._first = 0
        """The first offset of the ledger at the last search."""
        self._found = -1
        """The offset that the last search found, or the offset before the first entry."""
        self._searched = 0
        """The end of the last search."""

    def loaded(self, ledger_end: int) -> None:
        """Forget the results before an unload."""
        self._answer.clear()
        self.reset(ledger_end)

    def reset(self, ledger_end: int) -> None:
        """Let the metadata decide which of the entries so far are markers."""
        self._published, self._searched = ledger_end, min((self._searched, *self.flagged))
        self.flagged.clear()

    def find(self, ledger: ManagedLedger, buffer: TopicTransactionBuffer | None) -> Entry | None:
        """Return the last dispatchable entry, or None."""
        if not self._answer:
            self._answer.append(self._find(ledger, buffer))
        return self._answer[0] if self._segment else self._answer.pop()

    def _find(self, ledger: ManagedLedger, buffer: TopicTransactionBuffer | None) -> Entry | None:
        if self._first != ledger.first:
            # With the ledger of its marker, an aborted transaction is forgotten.
            self._first = self._searched = ledger.first
            self._found = ledger.first - 1
        end = ledger.next if buffer is None else buffer.read_end
        new, old = range(end - 1, self._searched - 1, -1), range(self._found, self._first - 1, -1)
        self._searched, self._found = end, self._first - 1
        for offset in chain(new, old):
            entry = ledger.entry(offset)
            assert entry is not None
            if not entry.parsed:
                entry.parse()
            marker = entry.marker if offset < self._published else offset in self.flagged
            if not marker and not (buffer is not None and buffer.is_aborted(entry)):
                self._found = offset
                return entry
        if self.flagged:  # nothing was published without the flag
            self.reset(end)
            return self._find(ledger, buffer)
        return None
