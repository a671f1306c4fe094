"""The documents of one persistent topic: its ledgers and subscriptions (ManagedLedgerInfo).

Rules of this file
1. The document of the ledgers is written when the list of ledgers or the topic epoch changes, and after every 1000
   entries. The entries after it are counted when the topic is loaded.
2. A topic that is loaded has the state of a topic after an unload: the last ledger is closed, and cursors at its end
   move to the next ledger. Unlike an unload, a restart also restores the ack sets of batches.
3. A shadow topic has subscriptions, but no entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from pcli.codec.proto import pb
from pcli.minibroker.errors import decoding
from pcli.minibroker.storage.broker_storage import Document
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.ledger_document import encode_ledgers, restore_ledgers
from pcli.minibroker.topic_names import document_path
from pcli.minibroker.topics.acknowledgements import open_handle
from pcli.minibroker.topics.deduplication import DeduplicationSnapshot
from pcli.minibroker.topics.subscription import Subscription
from pcli.minibroker.topics.topic_compaction import CompactionDocument
from pcli.minibroker.transactions.transaction_documents import encode_pending_acks, restore_pending_acks

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.topics.broker_service import BrokerService
    from pcli.minibroker.topics.deduplication import MessageDeduplication
    from pcli.minibroker.topics.topic import Topic

_DEDUPLICATION: Final = "/deduplication/"
_TRANSACTIONS: Final = "/transaction-buffers/"

LEDGERS: Final = "/managed-ledgers/"
"""Start of the paths of the documents of ledgers. A topic exists if it has such a document."""

_INTERVAL: Final = 1000
"""Number of entries after which the document of the ledgers is written."""


class TopicDocuments:
    """The documents of one topic, which are stored while it exists (class Follower)."""

    def __init__(self, topic: Topic, *, stored: bool) -> None:
        """``stored`` means that the topic was stored before the broker started and is not loaded yet."""
        self._topic = topic
        self._storage = topic.broker.storage
        self._path = path = document_path(topic.name)
        """The end of the paths of all documents of the topic."""
        self._ledgers = Document(self._storage, f"{LEDGERS}{path}", self._encode)
        self._stored: dict[str, Any] = (self._storage.document(f"{LEDGERS}{path}") if stored else None) or {}
        """The stored document while the topic is loaded; empty for a new topic and for a partition without ledgers."""
        self._storage_id: int = self._stored.get("storage", 0)
        self._epoch: int | None = None
        """The stored topic epoch."""
        self._next = 0
        """The offset of the entry at which the document of the ledgers is written again."""
        self._deduplication = Document(self._storage, f"{_DEDUPLICATION}{path}", self._encode_deduplication)
        self._transactions = Document(self._storage, f"{_TRANSACTIONS}{path}", self._encode_transactions)
        self.compacted = CompactionDocument(topic, path)
        """The document of the compacted ledger."""
        self._deleted = False

    # -- loading -------------------------------------------------------------------------------------------------------

    def open_ledger(self, broker: BrokerService, name: TopicName) -> ManagedLedger:
        """Return the ledger with the stored entries."""
        self._storage_id = self._storage_id or broker.storage.new_storage_id()
        with decoding(f"{LEDGERS}{self._path}"):
            storage = broker.storage.open(self._storage_id, self._stored.get("next", 0))
            ledgers = restore_ledgers(self._stored, storage, broker.now) if self._stored else ([], False)
        return ManagedLedger(
            str(name), storage, broker.next_ledger_id, broker.settings, broker.now, cache=broker.cache, stored=ledgers
        )

    def restore(self) -> None:
        """Restore the values and subscriptions of the topic, whose ledger is open."""
        topic, value = self._topic, self._stored
        assert topic.ledger is not None
        topic.ledger.followers.append(self)
        if value:
            with decoding(f"{LEDGERS}{self._path}"):
                topic.created = value["created"]
                topic.producer_access.epoch = value["epoch"]
                topic.message_index = _last_index(topic.ledger, value["index"])
            restore_subscriptions(topic, self._path)
            self.compacted.restore()
            transactions = self._storage.document(f"{_TRANSACTIONS}{self._path}")
            if transactions is not None and topic.transactions_enabled:
                with decoding(f"{_TRANSACTIONS}{self._path}"):
                    topic.open_transaction_buffer().restore(transactions)
        self._ledgers.changed()

    def open_deduplication(self, deduplication: MessageDeduplication) -> DeduplicationSnapshot:
        """Return the cursor of deduplication, which is enabled. While the topic is loaded, restore the sequence ids."""
        topic, settings = self._topic, self._topic.broker.settings
        assert topic.ledger is not None
        value = self._storage.document(f"{_DEDUPLICATION}{self._path}") if self._stored else None
        if value is None:
            snapshot = DeduplicationSnapshot(settings, topic.ledger)
            self._deduplication.changed()
        else:
            with decoding(f"{_DEDUPLICATION}{self._path}"):
                snapshot = DeduplicationSnapshot(settings, topic.ledger, value["mark_delete"])
                deduplication.restore(value["sequence_ids"], snapshot.entries(), topic.broker.now)
        snapshot.on_take = partial(self._deduplication.changed, lazy=True)
        return snapshot

    def close_deduplication(self) -> None:
        """Delete the sequence ids, because deduplication is disabled."""
        if self._topic.deduplication is not None or self._stored:
            self._deduplication.changed()

    def loaded(self) -> None:
        """Forget the stored document after the topic is loaded."""
        self._stored = {}

    # -- changes -------------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Record that the list of ledgers has changed."""
        if not self._deleted:
            self._ledgers.changed()

    def check(self) -> None:
        """Write the document of the ledgers if the topic epoch has changed or enough entries were added."""
        topic = self._topic
        assert topic.ledger is not None
        if topic.producer_access.epoch != self._epoch or topic.ledger.next >= self._next:
            self.follow()

    def transactions_changed(self) -> None:
        """Record that the transactions of the topic have changed."""
        self._transactions.changed()

    def changed_by_request(self) -> None:
        """Record that a REST request can have changed the topic and its subscriptions."""
        self.follow()
        for subscription in self._topic.subscriptions.values():
            if subscription.documents is not None:
                subscription.documents.created()

    def add_subscription(self, subscription: Subscription) -> None:
        """Store a new subscription if it is durable."""
        cursor = subscription.cursor
        if cursor is not None and subscription.durable:
            subscription.documents = cursor.changes = SubscriptionDocuments(subscription, self._path)
            subscription.documents.created()

    def remove_subscription(self, subscription: Subscription) -> None:
        """Delete the documents of a subscription."""
        if subscription.documents is not None and subscription.cursor is not None:
            subscription.documents.delete()
            subscription.documents = subscription.cursor.changes = None

    def delete(self) -> None:
        """Delete all documents, because the topic is deleted."""
        for subscription in self._topic.subscriptions.values():
            self.remove_subscription(subscription)
        self._deleted = self.compacted.deleted = True
        self.compacted.changed()
        for document in (self._ledgers, self._deduplication, self._transactions):
            document.changed()

    # -- documents -----------------------------------------------------------------------------------------------------

    def _encode(self) -> Any:
        topic = self._topic
        if self._deleted or topic.ledger is None:
            return None
        self._epoch, self._next = topic.producer_access.epoch, topic.ledger.next + _INTERVAL
        ledgers = {} if topic.shadow_source is not None else encode_ledgers(topic.ledger)
        values = {"created": topic.created, "epoch": self._epoch, "index": topic.message_index}
        return {"storage": self._storage_id, **values, **ledgers}

    def _encode_deduplication(self) -> Any:
        deduplication, snapshot = self._topic.deduplication, self._topic.deduplication_snapshot
        if self._deleted or deduplication is None or snapshot is None:
            return None
        return {"mark_delete": snapshot.cursor.mark_delete, "sequence_ids": deduplication.sequence_ids()}

    def _encode_transactions(self) -> Any:
        buffer = self._topic.transaction_buffer
        return None if self._deleted or buffer is None else buffer.encode()


def _last_index(ledger: ManagedLedger, stored: int) -> int:
    """Return the index of the last message: that of the last entry, or else the stored one."""
    entry = ledger.entry(ledger.next - 1)
    if entry is not None:
        entry.parse()
        if entry.block:
            metadata = pb.BrokerEntryMetadata.FromString(entry.data[6 : entry.block])
            if metadata.HasField("index"):
                return max(stored, metadata.index)
    return stored


CURSORS: Final = "/cursors/"
PENDING_ACKS: Final = "/pending-acks/"


class SubscriptionDocuments:
    """The documents of one subscription, which are stored while it exists (class CursorChanges)."""

    def __init__(self, subscription: Subscription, path: str) -> None:
        """``path`` is the end of the paths of the topic."""
        self._subscription = subscription
        self._storage = subscription.topic.broker.storage
        name = quote(subscription.name, safe="")
        self._path = f"{CURSORS}{path}/{name}"
        self._pending_acks = Document(self._storage, f"{PENDING_ACKS}{path}/{name}", self._encode_pending_acks)
        self._changed = self._deleted = False
        self._changed_pages: set[int] = set()
        self._first_page = 0
        self.pages: set[int] = set()
        """The numbers of the stored pages."""

    # -- changes -------------------------------------------------------------------------------------------------------

    def moved(self) -> None:
        """Record that the mark-delete position or the properties of the cursor have changed."""
        if not self._changed:
            self._changed = True
            self._storage.changed(self, lazy=True)

    def page_changed(self, number: int) -> None:
        """Record that acknowledged entries or ack sets of a page have changed."""
        self._changed_pages.add(number)
        if not self._changed:
            self._changed = True
            self._storage.changed(self, lazy=True)

    def all_changed(self) -> None:
        """Record that the cursor was reset."""
        self._changed_pages |= self.pages | self._cursor.page_numbers()
        self.moved()

    def created(self) -> None:
        """Record that the subscription was created, or that its properties have changed."""
        self._changed = True
        self._storage.changed(self)

    def pending_acks_changed(self) -> None:
        """Record that the acknowledgements in transactions have changed."""
        self._pending_acks.changed()

    def delete(self) -> None:
        """Delete the documents."""
        self._deleted = True
        if self._subscription.pending_ack_handle is not None:
            self._pending_acks.changed()
        self._storage.changed(self)

    # -- documents -----------------------------------------------------------------------------------------------------

    @property
    def _cursor(self) -> ManagedCursor:
        assert self._subscription.cursor is not None
        return self._subscription.cursor

    def _encode_pending_acks(self) -> Any:
        handle = self._subscription.pending_ack_handle
        return None if self._deleted or handle is None else encode_pending_acks(handle)

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the changed documents, as defined in Documented."""
        self._changed = False
        changed, self._changed_pages = self._changed_pages, set()
        if self._deleted:
            yield self._path, None
            for number in changed | self.pages:
                yield f"{self._path}/{number}", None
            return
        subscription, cursor = self._subscription, self._cursor
        yield (
            self._path,
            {
                "mark_delete": cursor.mark_delete,
                "cursor_properties": cursor.properties,
                "properties": subscription.properties,
                "replicated": subscription.replicated,
            },
        )
        if cursor.first_page != self._first_page:
            self._first_page = cursor.first_page
            changed |= {number for number in self.pages if number < self._first_page}
        for number in sorted(changed):
            yield from self._page(number)

    def _page(self, number: int) -> Iterator[tuple[str, Any]]:
        """Return the document of a changed page; nothing if the page is not stored and is empty."""
        bits, ack_sets = self._cursor.page(number) if number >= self._first_page else (0, {})
        if bits or ack_sets:
            self.pages.add(number)
            sets = {str(index): f"{left:x}" for index, left in ack_sets.items()}
            yield f"{self._path}/{number}", {"deleted": f"{bits:x}", "ack_sets": sets}
        elif number in self.pages:
            self.pages.discard(number)
            yield f"{self._path}/{number}", None


def restore_subscriptions(topic: Topic, path: str) -> None:
    """Create the subscriptions of a topic that is loaded. ``path`` is the end of the paths of the topic."""
    storage = topic.broker.storage
    cursors: dict[str, Any] = {}
    pages: dict[str, dict[int, Any]] = {}
    for found, value in storage.documents(f"{CURSORS}{path}/"):
        name, _, number = found.removeprefix(f"{CURSORS}{path}/").partition("/")
        if number:
            pages.setdefault(name, {})[int(number)] = value
        else:
            cursors[name] = value
    for name, value in cursors.items():
        with decoding(f"{CURSORS}{path}/{name}"):
            _restore(topic, path, unquote(name), value, pages.get(name, {}))
    for found, value in storage.documents(f"{PENDING_ACKS}{path}/"):
        with decoding(found):
            subscription = topic.subscriptions[unquote(found.removeprefix(f"{PENDING_ACKS}{path}/"))]
            restore_pending_acks(open_handle(subscription), value, topic.broker.now)


def _restore(topic: Topic, path: str, name: str, value: dict[str, Any], pages: dict[int, Any]) -> None:
    assert topic.ledger is not None
    cursor = ManagedCursor(topic.ledger, name, value["mark_delete"], durable=True)
    for number, page in pages.items():
        sets = {int(index): int(left, 16) for index, left in page["ack_sets"].items()}
        cursor.restore_page(number, int(page["deleted"], 16), sets)
    cursor.properties = value["cursor_properties"]
    subscription = Subscription(topic, name, cursor, properties=value["properties"], replicated=value["replicated"])
    subscription.documents = cursor.changes = documents = SubscriptionDocuments(subscription, path)
    documents.pages = set(pages)
    topic.subscriptions[name] = subscription
