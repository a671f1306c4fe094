"""BrokerStorage: where a broker stores entries and documents, in memory or in a database.

Rules of this file
1. A document is a JSON value with a path, such as ``/managed-ledgers/public/default/persistent/orders``, as in Pulsar's
   metadata store. An entry belongs to a storage, which has an id, and has a number in it.
2. The changes of a turn belong to one batch, and a batch is written as one transaction. A crash therefore never leaves
   half of a turn. `seal` ends the batch; documents are encoded then, once for any number of changes. If two objects
   have the same document, for example a deleted topic and its successor, the last one that changed is stored.
3. A lazy change is written with the next batch that must be written, or after the flush interval. All other changes
   must be written before the output of their turn is sent. `require` makes the lazy changes so far required.
4. Entries that are not written yet are read from memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from pcli.minibroker.errors import decoding
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage, Storage, StorageFull

_LAST_STORAGE_ID: Final = "/last-storage-id"
"""The path of the document with the highest storage id that was ever used."""


class Documented(Protocol):
    """An object whose state is stored as documents."""

    def changed_documents(self) -> Iterable[tuple[str, Any]]:
        """Return the paths and JSON values of the documents that changed since the last call; None deletes one."""


class BrokerStorage(Protocol):
    """The storage of one broker."""

    @property
    def durable(self) -> bool:
        """Whether the state survives a restart of the process."""

    def changed(self, source: Documented, *, lazy: bool = False) -> None:
        """Record that documents of an object have changed. They are encoded at the end of the batch."""

    def require(self) -> None:
        """Require that all changes so far are written before the output of this turn is sent."""

    def documents(self, prefix: str) -> Iterable[tuple[str, Any]]:
        """Return the stored documents whose path starts with ``prefix``, in the order of their paths."""

    def paths(self, prefix: str) -> Iterable[str]:
        """Return the paths of the stored documents that start with ``prefix``."""

    def document(self, path: str) -> Any:
        """Return a stored document, or None."""

    def close(self) -> None:
        """Ignore all later changes.

        The broker calls this before it closes its topics, because a topic that is unloaded loses state that a restart
        restores.
        """

    def open(self, storage_id: int, empty_at: int = 0) -> Storage:
        """Return the entries of a storage. If there are none, the next entry has the number ``empty_at``."""

    def new_storage_id(self) -> int:
        """Return the id of a new storage."""


class Document:
    """One document whose value a function returns (class Documented)."""

    __slots__ = ("_encode", "_path", "_storage")

    def __init__(self, storage: BrokerStorage, path: str, encode: Callable[[], Any]) -> None:
        """``encode`` returns the JSON value, or None if the document is deleted. It is called once per batch."""
        self._storage = storage
        self._path = path
        self._encode = encode

    def changed(self, *, lazy: bool = False) -> None:
        """Record that the value has changed."""
        self._storage.changed(self, lazy=lazy)

    def changed_documents(self) -> Iterable[tuple[str, Any]]:
        """Return the document, as defined in Documented."""
        yield self._path, self._encode()


class MemoryBrokerStorage:
    """A storage without a database: entries are kept in the pool, and documents are not stored."""

    durable = False

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def changed(self, source: Documented, *, lazy: bool = False) -> None:
        """Do nothing, because the objects of the broker are the only copy."""

    def require(self) -> None:
        """Do nothing."""

    def documents(self, prefix: str) -> Iterable[tuple[str, Any]]:
        """Return no documents."""
        return ()

    def paths(self, prefix: str) -> Iterable[str]:
        """Return nothing, because no documents are stored."""
        return ()

    def document(self, path: str) -> Any:
        """Return None."""
        return None

    def close(self) -> None:
        """Do nothing."""

    def open(self, storage_id: int, empty_at: int = 0) -> Storage:
        """Return a new storage in the pool."""
        return SpillingStorage(self._pool)

    def new_storage_id(self) -> int:
        """Return 0, because storages in memory have no ids."""
        return 0


class Batch:
    """The changes that are written in one transaction."""

    __slots__ = ("documents", "entries", "number", "size", "storages", "trimmed")

    def __init__(self, number: int) -> None:
        self.number = number
        """Batches are numbered from 1 in the order in which they are written."""
        self.entries: list[tuple[int, int, bytes]] = []
        """New entries: storage id, number, data."""
        self.trimmed: dict[int, int] = {}
        """The number of the first entry that is not trimmed, by the id of a storage with trimmed entries."""
        self.documents: dict[str, str | None] = {}
        """Changed documents as JSON text by path; None deletes the document."""
        self.size = 0
        """Size of the new entries in bytes."""
        self.storages: dict[StoredEntries, None] = {}
        """The storages with new entries."""


class Database(Protocol):
    """What stores the batches. `write` and `collect` may run in another thread."""

    def write(self, batch: Batch) -> None:
        """Write a batch as one transaction. When this method returns, the batch survives a crash. Raises OSError."""

    def read(self, storage_id: int, first: int, count: int) -> list[bytes]:
        """Return up to ``count`` written entries from number ``first`` on, and at least one if any exists."""

    def bounds(self, storage_id: int) -> tuple[int, int] | None:
        """Return the first number and the end of the numbers of a storage, or None if it has no entries."""

    def documents(self, prefix: str) -> Iterable[tuple[str, str]]:
        """Return the documents whose path starts with ``prefix``, as paths and JSON texts in the order of the paths."""

    @property
    def collectable(self) -> bool:
        """Whether `collect` has something to do."""

    def collect(self) -> None:
        """Delete a part of the trimmed entries, and release space. Raises OSError."""

    def out_of_space(self) -> str:
        """Return why no entries can be added, or an empty string."""


class DurableBrokerStorage:
    """The storage of a broker with a database."""

    durable = True

    def __init__(self, database: Database) -> None:
        self.database = database
        self._batch = Batch(1)
        self._changed: dict[Documented, None] = {}
        self._closed = False
        self._required = False
        self._last_storage_id: int = self.document(_LAST_STORAGE_ID) or 0
        self._storage_id_document = Document(self, _LAST_STORAGE_ID, lambda: self._last_storage_id)
        self.full = ""
        """Why entries are refused, or an empty string."""

    # -- changes -------------------------------------------------------------------------------------------------------

    def changed(self, source: Documented, *, lazy: bool = False) -> None:
        """Record a change, as defined in BrokerStorage."""
        if self._closed:
            return
        self._changed.pop(source, None)
        self._changed[source] = None
        if not lazy:
            self._required = True

    def require(self) -> None:
        """Require the changes so far, as defined in BrokerStorage."""
        if self._changed:
            self._required = True

    def add(self, storage: StoredEntries, number: int, data: bytes) -> None:
        """Add an entry to the batch. Raises StorageFull."""
        if self._closed:
            return
        if self.full:
            raise StorageFull(self.full)
        batch = self._batch
        batch.entries.append((storage.id, number, data))
        batch.size += len(data)
        batch.storages[storage] = None
        self._required = True

    def trim(self, storage: StoredEntries, first: int) -> None:
        """Delete the entries below number ``first``."""
        if self._closed:
            return
        self._batch.trimmed[storage.id] = first
        self._required = True

    # -- batches -------------------------------------------------------------------------------------------------------

    @property
    def required(self) -> int:
        """Number of the batch that must be written before the output so far is sent; it can be written already."""
        return self._batch.number if self._required else self._batch.number - 1

    @property
    def dirty(self) -> bool:
        """Whether the batch has any changes."""
        return self._required or bool(self._changed)

    @property
    def size(self) -> int:
        """Size of the batch in bytes of entries."""
        return self._batch.size

    def seal(self) -> Batch:
        """End the batch and return it. The caller must write it, and call `written` afterwards."""
        self._encode()
        batch, self._batch = self._batch, Batch(self._batch.number + 1)
        self._required = False
        return batch

    def _encode(self) -> None:
        """Add the changed documents to the batch."""
        changed, self._changed = self._changed, {}
        for source in changed:
            for path, value in source.changed_documents():
                self._batch.documents[path] = None if value is None else json.dumps(value, separators=(",", ":"))

    def written(self, batch: Batch) -> None:
        """Release the entries of a written batch from memory."""
        last = {storage_id: number for storage_id, number, _ in batch.entries}
        for storage in batch.storages:
            storage.written(last[storage.id])

    # -- reading -------------------------------------------------------------------------------------------------------

    def documents(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Return the written documents, as defined in BrokerStorage. Unwritten changes are not included."""
        for path, text in self.database.documents(prefix):
            with decoding(path):
                value = json.loads(text)
            yield path, value

    def paths(self, prefix: str) -> Iterable[str]:
        """Return the paths of the written documents, as defined in BrokerStorage."""
        return (path for path, _ in self.database.documents(prefix))

    def document(self, path: str) -> Any:
        """Return a written document, as defined in BrokerStorage."""
        return next((value for found, value in self.documents(path) if found == path), None)

    def close(self) -> None:
        """Ignore all later changes, as defined in BrokerStorage. The changes so far are required."""
        self._required = self.dirty
        self._encode()
        self._closed = True

    def open(self, storage_id: int, empty_at: int = 0) -> Storage:
        """Return a storage, as defined in BrokerStorage."""
        return StoredEntries(self, storage_id, *(self.database.bounds(storage_id) or (empty_at, empty_at)))

    def new_storage_id(self) -> int:
        """Return the id of a new storage."""
        self._last_storage_id += 1
        self._storage_id_document.changed()
        return self._last_storage_id


class StoredEntries:
    """The entries of one storage in a database (class Storage)."""

    def __init__(self, owner: DurableBrokerStorage, storage_id: int, start: int, end: int) -> None:
        self._owner = owner
        self.id = storage_id
        self.start = start
        self.end = end
        self._unwritten: list[bytes] = []
        """The last entries, which are not written yet."""

    def append(self, data: bytes) -> None:
        """Store an entry, as defined in Storage."""
        self._owner.add(self, self.end, data)
        self._unwritten.append(data)
        self.end += 1

    def read(self, first: int, count: int) -> list[bytes]:
        """Return entries, as defined in Storage."""
        first = max(first, self.start)
        if first >= self.end or count <= 0:
            return []
        at = first - (self.end - len(self._unwritten))
        if at >= 0:
            return self._unwritten[at : at + count]
        return self._owner.database.read(self.id, first, min(count, -at))

    def trim(self, first: int) -> None:
        """Delete entries, as defined in Storage."""
        first = min(first, self.end)
        if first > self.start:
            self._owner.trim(self, first)
            self.start = first

    def written(self, last: int) -> None:
        """Record that the entries up to number ``last`` are written."""
        del self._unwritten[: last + 1 - (self.end - len(self._unwritten))]
