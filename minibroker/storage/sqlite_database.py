"""SqliteDatabase: the data directory of a broker (`pcli broker --data DIR`).

Rules of this file
1. The directory contains ``broker.db``, its write-ahead log, and ``lock``. A broker holds an exclusive lock on ``lock``
   until it ends, so that no second broker uses the directory.
2. Entries are stored in blocks: consecutive entries of a batch in the same storage. A block starts with its number of
   entries, its CRC32C and the ends of its entries. The row id of a block contains the storage id and the number of its
   first entry.
3. The database is in WAL mode with ``synchronous=FULL``: when COMMIT returns, the batch is on the disk. Without
   ``sync``, the mode is NORMAL: a batch survives the end of the process, but not the loss of power.
4. The table ``starts`` contains the number of the first entry that is not trimmed, by storage. Blocks before it are
   deleted in slices, with later batches or by `collect`. The file shrinks when more than a quarter of it is free.
5. A directory whose write-ahead log is damaged is refused, unless commits are not synchronized (without ``sync``).
6. One thread calls `write` and `collect`; another thread may read at the same time.
"""

from __future__ import annotations

import shutil
import sqlite3
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Final

import google_crc32c

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.broker_storage import Batch
from pcli.minibroker.storage.write_ahead_log import damage

FILE: Final = "broker.db"
"""The name of the file in the data directory."""

FORMAT: Final = 1
"""The version of the format (``PRAGMA user_version``)."""

_APPLICATION: Final = 0x70636C69
"""``PRAGMA application_id``: the letters pcli."""

_VERSION: Final = "PRAGMA user_version"

_AFTER: Final = "\U0010ffff"
"""A character after all characters of a path."""

_SHIFT: Final = 40
"""Number of bits of an entry's number in a row id."""

_MASK: Final = (1 << _SHIFT) - 1

_BLOCK_BYTES: Final = 256 * 1024
_BLOCK_ENTRIES: Final = 1024

_SLICE: Final = 64
"""Number of trimmed blocks that are deleted at once."""

_CACHE: Final = 4 << 20
"""Limit of the cached blocks in bytes. At least one block is cached."""

_PAGE: Final = 8192
"""Size of a page in bytes. Larger pages need fewer writes for large batches, but more bytes for small ones."""

_WAL_PAGES: Final = 512
"""Pages in the write-ahead log at which it is copied to the database."""

_WAL_LIMIT: Final = 64 << 20

_LEAST_FREE: Final = 8 << 20
"""Free bytes that are kept for documents and deletions; at most an eighth of the file system."""

_READ_BYTES: Final = 64 * 1024
"""A read of small blocks returns at least this many bytes."""

_VACUUM_PAGES: Final = 256
"""Maximum number of free pages that `collect` returns to the file system at once."""

_SIZES: Final = ("page_count", "freelist_count", "page_size")

_TABLES: Final = """
CREATE TABLE blocks (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE documents (path TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE starts (storage INTEGER PRIMARY KEY, first INTEGER NOT NULL);
"""


class StoredBlock:
    """The entries of a block."""

    __slots__ = ("_data", "_ends", "row_id")

    def __init__(self, row_id: int, data: bytes) -> None:
        """Read the index of a block. Raises ValueError if the block is damaged."""
        count, checksum = array("I", data[:8])
        if google_crc32c.value(data[8:]) != checksum:
            raise ValueError("a block of entries is damaged (its checksum differs)")
        self.row_id = row_id
        self._data = data
        self._ends = array("I", data[8 : 8 + 4 * (count + 1)])

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self._data)

    def entries(self, first: int, count: int) -> list[bytes]:
        """Return up to ``count`` entries from number ``first`` on."""
        ends, at = self._ends, first - (self.row_id & _MASK)
        return [self._data[ends[index] : ends[index + 1]] for index in range(at, min(at + count, len(ends) - 1))]


class SqliteDatabase:
    """An open data directory (class Database)."""

    def __init__(self, directory: Path, *, sync: bool = True, max_backlog: int | None = None) -> None:
        """Open a directory, and create it if it is missing.

        Entries are refused while the used part of the database has at least ``max_backlog`` bytes.
        Raises LocalError if it cannot be written, if another broker uses it, or if its database cannot be read.
        """
        self.directory = directory
        self._max_backlog = max_backlog
        self._blocks: OrderedDict[int, StoredBlock] = OrderedDict()
        """Cached blocks by row id, least recently used first."""
        self._cached = 0
        self._may_shrink = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(f"{directory}: {(error.strerror or str(error)).lower()}") from None
        with ExitStack() as stack:
            stack.enter_context(closing(_lock(directory)))
            if sync and (reason := damage(self.path, _PAGE)):
                raise self._damaged(reason)
            try:
                self._writer = stack.enter_context(closing(_open(self.path, sync=sync)))
                self._reader = stack.enter_context(closing(_connect(self.path)))
                self._trimmed = dict(self._writer.execute("SELECT storage, first FROM starts"))
                """The starts of the storages that can have blocks to delete."""
            except sqlite3.Error as error:
                if error.sqlite_errorname.startswith("SQLITE_READONLY"):
                    raise LocalError(f"{directory}: {error}; the broker must be able to write here") from None
                raise self._damaged(str(error)) from None
            self._files = stack.pop_all()

    def _damaged(self, reason: str) -> LocalError:
        text = f"{reason}. Nothing was changed; pcli broker --check {self.directory} describes the damage"
        return LocalError(f"{self.path}: {text}")

    @property
    def path(self) -> Path:
        """The file of the database."""
        return self.directory / FILE

    def close(self) -> None:
        """Copy the write-ahead log to the database, close the files and release the lock."""
        self._files.close()

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        """Write a batch, as defined in Database. If this fails, nothing is written."""
        execute = self._writer.execute
        try:
            execute("BEGIN IMMEDIATE")
            for row_id, data in _pack_all(batch):
                execute("INSERT INTO blocks VALUES (?, ?)", (row_id, data))
            for path, value in batch.documents.items():
                if value is None:
                    execute("DELETE FROM documents WHERE path = ?", (path,))
                else:
                    execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", (path, value))
            for storage_id, first in batch.trimmed.items():
                execute("INSERT OR REPLACE INTO starts VALUES (?, ?)", (storage_id, first))
                self._trimmed[storage_id] = first
            self._delete_slice()
            execute("COMMIT")
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                execute("ROLLBACK")
            raise OSError(str(error)) from error

    @property
    def collectable(self) -> bool:
        """Whether `collect` has something to do."""
        return bool(self._trimmed) or self._may_shrink

    def collect(self) -> None:
        """Delete a slice of the trimmed blocks, or return free pages to the file system; see Database."""
        if self._trimmed:
            self.write(Batch(0))
            self._may_shrink = True
        elif self._may_shrink:
            self._may_shrink = self._shrink()
        if not self.collectable or self.out_of_space():
            self._empty_log()

    def _shrink(self) -> bool:
        """Return free pages to the file system if they are more than a quarter. Return whether there can be more."""
        try:
            [(free,)] = self._writer.execute("PRAGMA freelist_count")
            [(pages,)] = self._writer.execute("PRAGMA page_count")
            if free > pages // 4:
                # `execute` would release only one page.
                self._writer.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
                return True
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        return False

    def _empty_log(self) -> None:
        """Copy the write-ahead log to the database, and truncate it. Raises OSError."""
        try:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def _delete_slice(self) -> None:
        """Delete up to ``_SLICE`` blocks of one storage whose entries are all trimmed."""
        execute = self._writer.execute
        for storage_id, first in self._trimmed.items():
            start, end = storage_id << _SHIFT, storage_id << _SHIFT | first
            found = execute("SELECT id FROM blocks WHERE id >= ? AND id < ? LIMIT ?", (start, end, _SLICE + 1))
            ids = [row_id for (row_id,) in found]
            # The last block can contain entries that are not trimmed. The blocks before it cannot.
            if ids and (len(ids) > _SLICE or self._end(self._writer, ids[-1]) > first):
                ids.pop()
            if ids:
                execute("DELETE FROM blocks WHERE id BETWEEN ? AND ?", (ids[0], ids[-1]))
            if len(ids) < _SLICE:
                if self._first_id(self._writer, storage_id) is None:
                    execute("DELETE FROM starts WHERE storage = ?", (storage_id,))
                del self._trimmed[storage_id]
            return

    def out_of_space(self) -> str:
        """Return why no entries can be added, or an empty string. The copy of the write-ahead log also needs space."""
        if self._max_backlog is not None:
            used = self._used_bytes()
            if used >= self._max_backlog:
                return f"The backlog of {used} bytes has reached the limit of {self._max_backlog}"
        usage = shutil.disk_usage(self.directory)
        log = self.path.with_name(f"{FILE}-wal").stat().st_size
        if usage.free - log >= min(_LEAST_FREE, usage.total // 8):
            return ""
        return f"{self.directory}: no space left on device ({usage.free} bytes are free)"

    def _used_bytes(self) -> int:
        """Return the size of the pages in use."""
        pages, free, size = (self._reader.execute(f"PRAGMA {name}").fetchone()[0] for name in _SIZES)
        return int((pages - free) * size)

    # -- reading -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise Refused (PersistenceError) instead of the errors of a damaged database."""
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise Refused(pb.PersistenceError, f"{self.path}: {error}") from error

    def documents(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Return documents, as defined in Database."""
        query = "SELECT path, value FROM documents WHERE path >= ? AND path < ? ORDER BY path"
        with self._reading():
            yield from self._reader.execute(query, (prefix, prefix + _AFTER))

    def bounds(self, storage_id: int) -> tuple[int, int] | None:
        """Return the bounds of a storage, as defined in Database."""
        with self._reading():
            first_id = self._first_id(self._reader, storage_id)
            if first_id is None:
                return None
            [(last_id,)] = self._reader.execute("SELECT max(id) FROM blocks WHERE id < ?", (storage_id + 1 << _SHIFT,))
            starts = self._reader.execute("SELECT first FROM starts WHERE storage = ?", (storage_id,)).fetchone()
            return max(first_id & _MASK, starts[0] if starts else 0), self._end(self._reader, last_id)

    @staticmethod
    def _first_id(connection: sqlite3.Connection, storage_id: int) -> int | None:
        """Return the row id of the first block of a storage, or None."""
        range_ = storage_id << _SHIFT, storage_id + 1 << _SHIFT
        row = connection.execute("SELECT id FROM blocks WHERE id >= ? AND id < ? LIMIT 1", range_).fetchone()
        return None if row is None else int(row[0])

    @staticmethod
    def _end(connection: sqlite3.Connection, row_id: int) -> int:
        """Return the number after the last entry of a block."""
        [(head,)] = connection.execute("SELECT substr(data, 1, 4) FROM blocks WHERE id = ?", (row_id,))
        [count] = array("I", head)
        return (row_id & _MASK) + int(count)

    def storages(self) -> list[int]:
        """Return the ids of the storages with entries."""
        found: list[int] = []
        while row := self._reader.execute(
            "SELECT id >> ? FROM blocks WHERE id >= ? LIMIT 1", (_SHIFT, (found[-1] + 1 if found else 0) << _SHIFT)
        ).fetchone():
            found.append(row[0])
        return found

    def next_block(self, storage_id: int, number: int) -> int | None:
        """Return the number of the first entry of the next block after an entry, or None."""
        range_ = storage_id << _SHIFT | number, storage_id + 1 << _SHIFT
        row = self._reader.execute("SELECT id FROM blocks WHERE id > ? AND id < ? LIMIT 1", range_).fetchone()
        return None if row is None else int(row[0]) & _MASK

    def read(self, storage_id: int, first: int, count: int) -> list[bytes]:
        """Return entries, as defined in Database."""
        with self._reading():
            block = self._block(storage_id << _SHIFT | first)
            entries = block.entries(first, count)
            if not entries:
                raise ValueError(f"entry {first} of storage {storage_id} is missing")
            self._read_more(entries, block, storage_id << _SHIFT | first + count)
        return entries

    def _read_more(self, entries: list[bytes], block: StoredBlock, end: int) -> None:
        """Add the entries of the next blocks up to but not including row id ``end``, if the first block is small."""
        size = block.size
        if size >= _READ_BYTES:
            return
        query = "SELECT id, data FROM blocks WHERE id > ? AND id < ? ORDER BY id"
        for row_id, data in self._reader.execute(query, (block.row_id, end)):
            entries += StoredBlock(row_id, data).entries(row_id & _MASK, (end - row_id) & _MASK)
            size += len(data)
            if size >= _READ_BYTES:
                return

    def _block(self, row_id: int) -> StoredBlock:
        """Return the block that contains an entry."""
        [(found,)] = self._reader.execute("SELECT max(id) FROM blocks WHERE id <= ?", (row_id,))
        if found is None:
            raise ValueError("a block of entries is missing")
        block = self._blocks.get(found)
        if block is not None:
            self._blocks.move_to_end(found)
            return block
        [(data,)] = self._reader.execute("SELECT data FROM blocks WHERE id = ?", (found,))
        block = self._blocks[found] = StoredBlock(found, data)
        self._cached += block.size
        while self._cached > _CACHE and len(self._blocks) > 1:
            self._cached -= self._blocks.popitem(last=False)[1].size
        return block


def _pack_all(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Yield row ids and data of the blocks of a batch."""
    open_blocks: dict[int, tuple[int, list[bytes], int]] = {}
    for storage_id, number, data in batch.entries:
        first, entries, size = open_blocks.get(storage_id) or (number, [], 0)
        entries.append(data)
        size += len(data)
        if size >= _BLOCK_BYTES or len(entries) >= _BLOCK_ENTRIES:
            yield storage_id << _SHIFT | first, _pack(entries)
            open_blocks.pop(storage_id, None)
        else:
            open_blocks[storage_id] = first, entries, size
    for storage_id, (first, entries, _) in open_blocks.items():
        yield storage_id << _SHIFT | first, _pack(entries)


def _pack(entries: list[bytes]) -> bytes:
    ends = array("I", accumulate(map(len, entries), initial=8 + 4 * (len(entries) + 1)))
    body = b"".join((ends.tobytes(), *entries))
    return array("I", (len(entries), google_crc32c.value(body))).tobytes() + body


def _connect(path: Path) -> sqlite3.Connection:
    # Each connection is used by one thread at a time, but not always by the thread that created it.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _lock(directory: Path) -> sqlite3.Connection:
    """Return a connection that holds the lock of a directory. Raises LocalError."""
    connection = sqlite3.connect(directory / "lock", isolation_level=None, timeout=0, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        locked = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
        reason = "another broker uses this directory" if locked else f"{error}; the broker must be able to write here"
        raise LocalError(f"{directory}: {reason}") from None
    return connection


def _open(path: Path, *, sync: bool) -> sqlite3.Connection:
    """Open the database for writing, and create it if it is missing. Raises LocalError and sqlite3.Error."""
    connection = _connect(path)
    try:
        [(application,)], [(version,)] = connection.execute("PRAGMA application_id"), connection.execute(_VERSION)
        [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema")
        if tables and application != _APPLICATION:
            raise LocalError(f"{path}: not a database of pcli broker")
        if version > FORMAT:
            raise LocalError(f"{path}: format {version} is newer than format {FORMAT} of this version of pcli")
        if not tables:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA secure_delete = OFF")  # the default of some distributions writes deleted pages
        connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        if not tables:
            identity = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT};"
            connection.executescript(f"BEGIN; {_TABLES} {identity} COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection
