"""The documents of one durable subscription: its cursor and its properties (ManagedCursorInfo).

Rules of this file
1. The document of the subscription contains the mark-delete position and all properties. Acknowledged entries after the
   mark-delete position and ack sets of batches are in a document for each page of the cursor, so that an
   acknowledgement changes at most one page and the position.
2. A page before the mark-delete position is deleted. Entries of a page up to the mark-delete position are ignored.
3. Ack sets survive a restart. An unload of the topic removes them, as on the real broker. The real broker also loses
   them if it ends orderly (ManagedCursorImpl recovers them from a cursor ledger only).
4. Changes of the cursor are lazy. Pulsar also writes cursors at intervals, and entries whose acknowledgements were lost
   are redelivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from pcli.minibroker.errors import decoding
from pcli.minibroker.storage.broker_storage import Document
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topics.subscription import Subscription
from pcli.minibroker.topics.transactional_acks import open_handle
from pcli.minibroker.transactions.pending_ack_documents import encode_pending_acks, restore_pending_acks

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

__all__ = ["SubscriptionDocuments", "restore_subscriptions"]

CURSORS: Final = "/cursors/"
PENDING_ACKS: Final = "/pending-acks/"


class SubscriptionDocuments:
    """The documents of one subscription, which are stored while it exists (class CursorChanges)."""

    __slots__ = (
        "_changed",
        "_changed_pages",
        "_deleted",
        "_first_page",
        "_path",
        "_pending_acks",
        "_storage",
        "_subscription",
        "pages",
    )

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
