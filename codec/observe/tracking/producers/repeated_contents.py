"""Messages that a new producer sends with the content of messages of a producer that has lost its connection.

Rules of this file
1. A producer is new if its PRODUCER has the epoch 0: clients increment the epoch when they reconnect. The messages that
   a client resends after a reconnect are resends (recent_sends.py).
2. The content of an entry is its payload, keys and properties. Payloads are compared by their size and CRC-32C, which
   follows from the checksum in the frame; the payload is not read. A batch is compared as a whole, and a chunked
   message by its last chunk. The payloads of encrypted entries always differ. Transactions are not compared.
3. Content that earlier producers sent more than once proves nothing: a heartbeat. Two consecutive entries of the
   earlier producer must be repeated in the same order, unless the earlier entry has no receipt or is the last one.
4. The last MAX_ENTRIES entries of all attached producers are kept, and MAX_LOST entries of lost producers. A new
   producer is not compared any more after MAX_NEW entries without an earlier content.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import google_crc32c

from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.observe.tracking.entry_metadata import FIELD, pull_fields
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.connection_records import LOST
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.wire.crc_suffix import crc_of_suffix

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.producers.producer_session import ProducerSession

MAX_ENTRIES: Final = 10_000
"""Maximum number of entries of all attached producers. They occupy about 5 MB."""

MAX_LOST: Final = 10_000
"""Maximum number of entries of lost producers. They occupy about 5 MB."""

MAX_NEW: Final = 1_000
"""Number of entries without an earlier content after which a new producer is not compared any more."""

LOST_PRODUCER: Final = LOST | {"fin_client", "reset_client", "silence"}
"""Ends of sessions of producers that neither side closed."""

_MOST_PAIRS: Final = 64
"""Maximum number of pairs per session that wait for a receipt."""

_CONTENT: Final = tuple(
    FIELD[name]
    for name in (
        "properties", "partition_key", "ordering_key", "null_value", "compression", "num_messages_in_batch", "chunk_id",
    )
)  # fmt: skip

SentEntry = tuple[Lifecycle, int, bytes, int]
"""An entry: its lifecycle, the CRC-32C of its metadata and payload, the metadata with its length, and the number of
bytes of its payload."""

_Content = tuple[Any, ...]


class _LostProducer(NamedTuple):
    """The last entries of a producer that has lost its connection."""

    topic: str
    name: str
    end: str
    """A key of ENDS."""
    ended_frame: int
    lifecycles: list[Lifecycle]
    contents: list[_Content]


_Index = dict[_Content, tuple[_LostProducer, int] | None]
"""The producer and place of each content of a topic; None if the content was sent more than once."""


class Comparison:
    """The comparison of a new producer with the lost producers of its topic."""

    __slots__ = ("_last", "_others", "_pairs", "index")

    def __init__(self, index: _Index) -> None:
        self.index = index
        self._others = 0
        """Number of entries since the start or the last repetition."""
        self._last: tuple[_LostProducer, int, Lifecycle, bool] | None = None
        """The last entry, if it is a repetition: the earlier producer, the place, the lifecycle, and whether the pair
        was added."""
        self._pairs: list[tuple[Lifecycle, Lifecycle]] = []
        """Earlier entries and their repetitions, which may have no receipt yet."""

    def compare(self, entry: SentEntry, record: ProducerRecord) -> bool:
        """Compare an entry of the new producer; return whether the comparison continues."""
        found = self.index.get(_content_of(entry))
        if found is None:
            self._last = None
            self._others += 1
            return self._others <= MAX_NEW
        lost, place = found
        new, old, last = entry[0], lost.lifecycles[place], self._last
        follows = last is not None and last[0] is lost and last[1] == place - 1
        if last is not None and follows and not last[3]:
            self._pairs.append((lost.lifecycles[place - 1], last[2]))
        added = follows or old.receipt_ns < 0 or place == len(lost.lifecycles) - 1
        if added:
            self._pairs.append((old, new))
            record.restart_of, record.restart_end = lost.name, (lost.end, lost.ended_frame)
        self._last, self._others = (lost, place, new, added), 0
        if len(self._pairs) > _MOST_PAIRS:
            self.settle(record)
        return True

    def count(self, record: ProducerRecord) -> int:
        """Count the repetitions that are stored, if the earlier entry is stored too or has no response.

        Return the number of messages that are stored twice.
        """
        total = 0
        for old, new in self._pairs:
            if _is_stored(new) and not (old.error or old.state == "duplicate"):
                twice = _is_stored(old)
                counter = record.restart_duplicates if twice else record.restart_duplicates_blind
                sample = f"{old.id} and {new.id}" if twice else new.id
                total += new.messages if twice else 0
                counter.add(new.sent_ns, old.sent_frame, new.sent_frame, sample=sample, count=new.messages)
        return total

    def settle(self, record: ProducerRecord) -> None:
        """Count the repetitions; those that have no receipt yet are dropped."""
        total = self.count(record)
        if record.topic_record is not None:
            record.topic_record.messages.sent_again += total
        self._pairs = []


class RepeatedContents:
    """The contents of the entries of all producers."""

    def __init__(self) -> None:
        self._order: deque[ProducerSession] = deque()
        """The producer of each entry, the oldest first."""
        self._indexes: dict[str, _Index] = {}
        self._lost: deque[_LostProducer] = deque()
        self._lost_count = 0

    def put(self, producer: ProducerSession, lifecycle: Lifecycle, frame: ObservedFrame, size: int) -> None:
        """Add an entry of ``size`` bytes after the command, and compare it with the entries of lost producers."""
        parts = frame.parts
        start = parts.payload_start
        if parts.checksum is None or start < 0 or lifecycle.txn is not None:
            return
        head = frame.data[parts.checked_start : start]
        entry = (lifecycle, parts.checksum, head, size - start + parts.command_end)
        producer.sent_entries.append(entry)
        self._order.append(producer)
        if len(self._order) > MAX_ENTRIES:
            oldest = self._order.popleft().sent_entries
            if oldest:
                oldest.popleft()
        comparison = producer.comparison
        if comparison is not None and not comparison.compare(entry, producer.record):
            comparison.settle(producer.record)
            producer.comparison = None

    def lost(self, producer: ProducerSession) -> None:
        """Keep the entries of a producer that has lost its connection."""
        if producer.topic is None or not producer.sent_entries:
            return
        entries, producer.sent_entries = producer.sent_entries, deque()
        session, name = producer.session, producer.topic.name
        lost = _LostProducer(
            name, producer.record.name, session.end, session.ended_frame, [one[0] for one in entries],
            list(map(_content_of, entries)),
        )  # fmt: skip
        index = self._indexes.setdefault(name, {})
        for place, content in enumerate(lost.contents):
            index[content] = None if content in index else (lost, place)
        self._lost.append(lost)
        self._lost_count += len(entries)
        while self._lost_count > MAX_LOST:
            self._forget(self._lost.popleft())

    def _forget(self, lost: _LostProducer) -> None:
        self._lost_count -= len(lost.contents)
        index = self._indexes[lost.topic]
        for content in lost.contents:
            index.pop(content, None)
        if not index:
            del self._indexes[lost.topic]

    def begin(self, producer: ProducerSession) -> None:
        """Begin the comparison of a new producer if its topic has lost producers."""
        index = self._indexes.get(producer.topic.name) if producer.topic is not None else None
        producer.comparison = Comparison(index) if index else None


def _content_of(entry: SentEntry) -> _Content:
    """Return the values that are equal for entries with equal content."""
    _, checksum, head, size = entry
    fields = pull_fields(head, 4, len(head))
    payload = crc_of_suffix(checksum, google_crc32c.value(head), size)
    return (payload, size, *map(fields.get, _CONTENT))


def _is_stored(lifecycle: Lifecycle) -> bool:
    """Return whether an entry has an id. Refused entries and duplicates have none."""
    return lifecycle.receipt_ns >= 0 and (lifecycle.ledger >= 0 or lifecycle.state == "non_persistent")
