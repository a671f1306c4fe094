"""The compaction of one topic: its start, its status, and the subscription of the compactor.

Rules of this file (PersistentTopic, Compactor, PulsarCompactorSubscription, PulsarTopicCompactionService)
1. A compaction reads the compacted ledger and then the topic, with the durable subscription ``__compaction``, which
   prevents that entries are deleted before they are compacted. At the end, this subscription acknowledges everything up
   to the last message, and its cursor gets the id of the new compacted ledger.
2. A compaction does not start if nothing was published since the last one. It starts by REST, or if the backlog of
   ``__compaction`` exceeds the threshold, which is checked every ``brokerServiceCompactionMonitorIntervalInSeconds``.
3. The compactor is a client of the broker, so the limits and the allowed types of subscriptions apply to it. If its
   SUBSCRIBE is refused, the compaction fails.
4. A compaction is processed in slices between other work. An unload ends it, and resets the status and the statistics.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.compaction.compacted_topic import CompactedLedger, CompactedTopic
from pcli.minibroker.compaction.compactor import TwoPhaseCompactor
from pcli.minibroker.compaction.raw_batch_converter import DamagedBatchError
from pcli.minibroker.errors import Refused, decoding
from pcli.minibroker.storage.backlog_size import backlog_size
from pcli.minibroker.storage.broker_storage import Document
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.spilling_storage import StorageFull
from pcli.minibroker.topics.dispatcher import EXCLUSIVE

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

COMPACTION: Final = "__compaction"
"""The name of the compactor's subscription (Compactor.COMPACTION_SUBSCRIPTION)."""

_LEDGER_PROPERTY: Final = "CompactedTopicLedger"
_READ_ENTRIES: Final = 100
_READ_BYTES: Final = 1024 * 1024
_BY_EVENT_TIME: Final = "EventTimeCompactionServiceFactory"
_CLIENT: Final = "org.apache.pulsar.client.api.PulsarClientException"


def is_system_cursor(topic: Topic, name: str) -> bool:
    """Return whether a subscription is that of the compactor or in additionalSystemCursorNames (isSystemCursor)."""
    return name == COMPACTION or name in topic.broker.settings.additionalSystemCursorNames


class AlreadyRunningError(Exception):
    """A compaction is requested while another one is running."""


@dataclass(slots=True)
class CompactionRecord:
    """The statistics of the last compaction (CompactionRecord). Times are in milliseconds."""

    removed: int = 0
    """Number of removed messages."""
    succeeded: int = 0
    """End of the last successful compaction, or 0."""
    failed: int = 0
    """End of the last failed compaction, or 0."""
    duration: int = 0
    successes: int = 0
    """Number of successful compactions."""
    failures: int = 0
    removed_total: int = 0
    """Number of messages removed by all compactions."""


class TopicCompaction:
    """The compacted part of a persistent topic, and its compactions."""

    def __init__(self, topic: Topic, ledger: ManagedLedger) -> None:
        self._topic = topic
        self._ledger = ledger
        self.compacted = CompactedTopic()
        self.status = "NOT_RUN"
        """The status of the last compaction: NOT_RUN, RUNNING, SUCCESS or ERROR (LongRunningProcessStatus)."""
        self.error = ""
        """The text of the error if the status is ERROR."""
        self.record = CompactionRecord()
        self._timer: Timer | None = None
        """The timer of the next slice of the running compaction."""
        self._run: Generator[None, None, None] | None = None
        self._compactor: TwoPhaseCompactor | None = None
        self._started = 0

    # -- start ---------------------------------------------------------------------------------------------------------

    def create_subscription(self) -> None:
        """Create the subscription of the compactor if the topic is compacted by threshold.

        A topic does this when it is loaded and when its policies change (preCreateSubscriptionForCompactionIfNeeded).
        """
        if self._is_enabled:
            self._subscription()

    @property
    def _is_enabled(self) -> bool:
        """Whether the topic is compacted by threshold. System topics always are (SystemTopic.isCompactionEnabled)."""
        return self._topic.effective_policies.system or self._threshold > 0

    @property
    def _threshold(self) -> int:
        return int(self._topic.effective("brokerServiceCompactionThresholdInBytes"))

    def check(self) -> None:
        """Start a compaction if the uncompacted messages exceed the threshold (PersistentTopic.checkCompaction)."""
        if self._is_enabled and self.status != "RUNNING" and self._uncompacted_size() > self._threshold:
            self.trigger()

    def _uncompacted_size(self) -> int:
        """Return the bytes after the cursor of the compactor, or else the slowest durable cursor, or else all bytes."""
        subscriptions = self._topic.subscriptions
        own = subscriptions.get(COMPACTION)
        slowest = [own] if own is not None else [one for one in subscriptions.values() if one.durable]
        places = [one.cursor.mark_delete for one in slowest if one.cursor is not None]
        return backlog_size(self._ledger, min(places)) if places else self._ledger.total_size

    def trigger(self) -> None:
        """Start a compaction if there are messages that are not compacted yet. Raises AlreadyRunningError."""
        last = self._topic.last_dispatchable_entry()
        if self.compacted.ledger is not None and (last is None or last.offset <= self.compacted.horizon):
            return
        if self.status == "RUNNING":
            raise AlreadyRunningError("Compaction already in progress")
        self.status, self.error = "RUNNING", ""
        self._timer = self._topic.broker.call_later(0, self._begin)

    def _begin(self) -> None:
        """Subscribe as the compactor, and start phase one."""
        self._started = self._topic.broker.now
        try:
            self._check_subscribe()
        except Refused as refused:
            self.status, self.error = "ERROR", _client_error(refused)
            return
        subscription = self._subscription()
        subscription.kind = EXCLUSIVE
        subscription.last_flow = self._topic.broker.now
        last = self._topic.last_dispatchable_entry()
        if last is None:
            self._end("SUCCESS")
        elif last.metadata is None:
            self._end("ERROR", f"{_CLIENT}$BrokerMetadataException: Failed to get batch size for entry")
        else:
            self._start(subscription, last.offset)

    def _check_subscribe(self) -> None:
        """Raise Refused if the broker would refuse a SUBSCRIBE of the compactor."""
        topic = self._topic
        if "Exclusive" not in topic.effective("subscriptionTypesEnabled"):
            raise Refused(pb.NotAllowedError, f"Topic[{topic.full_name}] doesn't support Exclusive sub type!")
        if 0 < topic.effective("maxConsumersPerTopic") <= len(topic.consumers):
            raise Refused(pb.ConsumerBusy, "Topic reached max consumers limit")
        subscription = topic.subscriptions.get(COMPACTION)
        if subscription is None:
            topic.check_subscription_limit()
        elif subscription.consumers:
            raise Refused(pb.ConsumerBusy, "Exclusive consumer is already connected")

    def _subscription(self) -> Subscription:
        known = self._topic.subscriptions.get(COMPACTION)
        return known or self._topic.create_subscription(COMPACTION, self._ledger.first)

    # -- run -----------------------------------------------------------------------------------------------------------

    def _start(self, subscription: Subscription, horizon: int) -> None:
        topic, settings = self._topic, self._topic.broker.settings
        if topic.documents is None:
            ledger = CompactedLedger(topic.broker.next_ledger_id(), topic.partition, topic.broker.storage.open(0))
        else:
            ledger = topic.documents.compacted.new_ledger()
        self._compactor = TwoPhaseCompactor(
            lambda: self._entries(horizon),
            ledger,
            retain_null_key=settings.topicCompactionRetainNullKey,
            by_event_time=settings.compactionServiceFactoryClassName.endswith(_BY_EVENT_TIME),
        )
        self._run = self._compact(self._compactor, ledger, subscription, horizon)
        self._next_slice()

    def _compact(
        self, compactor: TwoPhaseCompactor, ledger: CompactedLedger, subscription: Subscription, horizon: int
    ) -> Generator[None, None, None]:
        error = "the topic was unloaded"
        try:
            yield from compactor.run()
            ledger.store_index()
            error = ""
        except DamagedBatchError as damage:
            error = f"java.lang.IndexOutOfBoundsException: {damage}"
        except StorageFull as full:
            error = full.text
        except Exception as fault:
            self._end("ERROR", f"{type(fault).__name__}: {fault}")
            raise
        finally:
            if error:
                ledger.delete()
                self._changed()
        self._count(compactor, subscription)
        self._end("ERROR" if error else "SUCCESS", error)
        if not error:
            self.compacted.new_compacted_ledger(horizon, ledger)
            assert subscription.cursor is not None
            subscription.cursor.put_properties({_LEDGER_PROPERTY: ledger.id})
            subscription.advance_mark_delete(horizon)
            subscription.last_mark_delete = 0  # CompactorSubscription does not record the time
            self._changed()

    def _changed(self) -> None:
        """Record that the compacted ledger has changed."""
        if self._topic.documents is not None:
            self._topic.documents.compacted.changed()

    @staticmethod
    def _count(compactor: TwoPhaseCompactor, subscription: Subscription) -> None:
        """Count what the compactor received from its subscription."""
        subscription.messages_out_removed += compactor.messages_read
        subscription.bytes_out_removed += compactor.bytes_read

    def _entries(self, horizon: int) -> Iterator[Entry]:
        """Read the compacted ledger, and then the topic up to the new horizon."""
        offset, old = 0, self.compacted
        while entries := old.read(offset, _READ_ENTRIES, _READ_BYTES):
            yield from entries
            offset = entries[-1].offset + 1
        offset = old.horizon + 1
        exposes = self._topic.broker.settings.exposingBrokerEntryMetadataToClientEnabled
        while max(offset, self._ledger.first) <= horizon:
            # A truncation can delete entries between two slices.
            offset = max(offset, self._ledger.first)
            for entry in self._ledger.read(offset, min(_READ_ENTRIES, horizon + 1 - offset), _READ_BYTES):
                if not entry.parsed:
                    entry.parse()
                offset = entry.offset + 1
                buffer = self._topic.transaction_buffer
                if buffer is None or not buffer.is_aborted(entry):
                    yield entry if exposes or not entry.block else _without_broker_entry(entry)

    def _next_slice(self) -> None:
        """Continue the running compaction, and continue it again after a pause."""
        run, self._timer = self._run, None
        if run is not None:
            next(run, None)
            if self.status == "RUNNING":
                self._timer = self._topic.broker.call_later(0, self._next_slice)

    def _end(self, status: str, error: str = "") -> None:
        now, record = self._topic.broker.now, self.record
        self.status, self.error, self._run = status, error, None
        record.duration = now - self._started
        record.removed = 0 if self._compactor is None else self._compactor.removed
        record.removed_total += record.removed
        self._compactor = None
        if status == "SUCCESS":
            record.succeeded = now
            record.successes += 1
        else:
            record.failed = now
            record.failures += 1

    # -- end -----------------------------------------------------------------------------------------------------------

    def unload(self) -> None:
        """End the running compaction, and forget its status and the statistics.

        The compacted ledger is kept if the cursor has its id. Otherwise the real broker does not find it again.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._run is not None:
            self._run.close()
        self._timer = self._run = self._compactor = None
        self.status, self.error, self.record = "NOT_RUN", "", CompactionRecord()
        self.check_ledger()

    def check_ledger(self) -> None:
        """Delete the compacted ledger if the cursor does not have its id."""
        subscription = self._topic.subscriptions.get(COMPACTION)
        cursor = None if subscription is None else subscription.cursor
        if cursor is not None and _LEDGER_PROPERTY not in cursor.properties:
            self.compacted.reset()
            self._changed()

    def delete(self) -> None:
        """Release everything, because the topic is deleted."""
        self.unload()
        self.compacted.reset()

    def subscription_removed(self) -> None:
        """Delete the compacted ledger after a running compaction, because the compactor's subscription was deleted."""
        if self._run is not None:
            for _ in self._run:
                pass
            if self._timer is not None:
                self._timer.cancel()
        self.compacted.reset()
        self._changed()

    # -- positions -----------------------------------------------------------------------------------------------------

    def next_valid(self, ledger_id: int, entry_id: int) -> int:
        """Return the offset of the first entry at or after a position.

        The entry can be a compacted entry whose ledger was deleted. If there is none, the end of the topic is returned.
        """
        ledger = self._ledger
        if self.compacted.ledger is not None and ledger_id < ledger.ledgers[0].id:
            offset = self.compacted.ledger.offset_at(ledger_id, entry_id)
            if offset is not None:
                return offset
        return ledger.next_valid(ledger_id, entry_id)

    def mark_delete_position(self, cursor: ManagedCursor) -> tuple[int, int]:
        """Return the ledger id and entry id of a mark-delete position.

        The position of a reader with readCompacted can be before a compacted entry whose ledger was deleted.
        """
        offset = cursor.mark_delete
        if self.compacted.ledger is not None and offset < self._ledger.first - 1:
            for entry in self.compacted.read(offset, 1, _READ_BYTES):
                return entry.ledger_id, max(-1, entry.entry_id - (entry.offset - offset))
        return cursor.mark_delete_position


def _client_error(refused: Refused) -> str:
    """Return the text of the Java client's exception for an error of the broker."""
    name = pb.ServerError.Name(pb.ServerError.ValueType(refused.code)).removesuffix("Error")
    return f'{_CLIENT}${name}Exception: {{"errorMsg":"{refused.text}"}}'


def _without_broker_entry(entry: Entry) -> Entry:
    return Entry(entry.offset, entry.ledger_id, entry.entry_id, entry.data[entry.block :])


# -- the document of the compacted ledger ------------------------------------------------------------------------------


_COMPACTED: Final = "/compacted-ledgers/"


class CompactionDocument:
    """The document of one topic."""

    def __init__(self, topic: Topic, path: str) -> None:
        """``path`` is the end of the paths of the topic."""
        self._topic = topic
        self._path = f"{_COMPACTED}{path}"
        self._document = Document(topic.broker.storage, self._path, self._encode)
        self._ledgers: dict[CompactedLedger, tuple[int, int]] = {}
        """The storages of the compacted ledgers: those of their entries and of their positions."""
        self.deleted = False
        """Whether the topic is deleted."""

    def changed(self) -> None:
        """Record that there is another compacted ledger, or that a ledger was deleted."""
        if self._ledgers:
            self._document.changed()

    def new_ledger(self) -> CompactedLedger:
        """Return the ledger of a new compaction."""
        broker = self._topic.broker
        ledger = self._open(broker.next_ledger_id(), broker.storage.new_storage_id(), broker.storage.new_storage_id())
        self._document.changed()
        return ledger

    def _open(self, ledger_id: int, entries: int, index: int) -> CompactedLedger:
        storage = self._topic.broker.storage
        ledger = CompactedLedger(ledger_id, self._topic.partition, storage.open(entries), storage.open(index))
        self._ledgers[ledger] = entries, index
        return ledger

    def _encode(self) -> Any:
        compaction = self._topic.compaction
        assert compaction is not None
        self._ledgers = {ledger: ids for ledger, ids in self._ledgers.items() if not ledger.deleted}
        if self.deleted or not self._ledgers:
            return None
        kept = compaction.compacted.ledger
        running = [ids for ledger, ids in self._ledgers.items() if ledger is not kept]
        value: dict[str, Any] = {"running": running, "horizon": compaction.compacted.horizon}
        return value if kept is None else {**value, "id": kept.id, "size": kept.size, "storages": self._ledgers[kept]}

    def restore(self) -> None:
        """Restore the compacted ledger of a topic that is loaded, and delete those of interrupted compactions."""
        storage, compaction = self._topic.broker.storage, self._topic.compaction
        assert compaction is not None
        value = storage.document(self._path)
        if value is None:
            return
        with decoding(self._path):
            if "storages" in value:
                ledger = self._open(value["id"], *value["storages"])
                ledger.restore(value["size"])
                compaction.compacted.new_compacted_ledger(value["horizon"], ledger)
            for ids in value["running"]:
                for entries in map(storage.open, ids):
                    entries.trim(entries.end)
        compaction.check_ledger()
        self._document.changed()
