"""SpillingStorage: the entries of all topics in memory and, above a limit, in unlinked temporary files.

Rules of this file
1. Entries are numbered from 0, appended at the end, trimmed at the start, and never changed.
2. All storages share one pool. Entries are collected in blocks. When the pool exceeds its memory limit, the oldest
   block of any topic is written to the file. The space of a file is released when its last block is trimmed.
3. A block is read from the file as a whole and cached, so sequential reads are about as fast as from memory. A block in
   a file uses a fixed amount of memory, whatever its number of entries, because the index of the entries is stored
   before them in the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from typing import BinaryIO, Final, Protocol

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused

_MEMORY: Final = 32 * 1024 * 1024
"""Limit of the entries in memory, in bytes, for all topics together."""

_BLOCK_ENTRIES: Final = 1024
_BLOCK_BYTES: Final = 256 * 1024
"""A block is full if it contains ``_BLOCK_ENTRIES`` entries or at least ``_BLOCK_BYTES`` bytes."""

_FILE_BYTES: Final = 256 * 1024 * 1024
"""Size at which a new file is started. Space is released per file."""

_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Limit of the cached blocks that were read from the file, in bytes. At least one block is cached."""

_SLICE: Final = 16 * 1024
"""Maximum number of bytes that a storage reserves at once. Room is reserved in slices, not per entry."""

_OVERHEAD: Final = 56
"""Memory of an entry in addition to its bytes: object header, rounding, list slot."""

_UNBOUNDED: Final = 1 << 62


class StorageFull(Refused):
    """The entry cannot be stored because there is no room (PersistenceError)."""

    def __init__(self, text: str) -> None:
        super().__init__(pb.PersistenceError, text)


class Storage(Protocol):
    """The stored entries of one topic."""

    @property
    def start(self) -> int:
        """Number of the oldest stored entry."""

    @property
    def end(self) -> int:
        """Number of the next entry."""

    def append(self, data: bytes) -> None:
        """Store ``data`` as entry number ``end``. Raises StorageFull, without any change, if there is no room."""

    def read(self, first: int, count: int) -> list[bytes]:
        """Return up to ``count`` entries from number ``first`` on, and at least one if any exists.

        To read the rest, call this method again.
        """

    def trim(self, first: int) -> None:
        """Delete all entries below number ``first``."""


class _File:
    """A temporary file, its end, and the number of its blocks in use."""

    __slots__ = ("blocks", "end", "file")

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.end = 0
        self.blocks = 0


class _Block:
    """Consecutive entries, in memory or in a file."""

    __slots__ = ("cost", "count", "entries", "file", "first", "length", "owner", "position")

    def __init__(self, owner: SpillingStorage | None, first: int) -> None:
        self.owner = owner
        """The storage that may still be filling the block. It is notified when the block is spilled."""
        self.first = first
        self.entries: list[bytes] | None = []
        """The entries; None if the block is in a file or was trimmed."""
        self.cost = 0
        """Reserved bytes."""
        self.file: _File | None = None
        self.count = self.position = self.length = 0
        """For a block in a file: number of entries, start of the block, and its length including the index."""

    def size(self) -> int:
        """Return the size of the entries in bytes."""
        return self.length - 4 * (self.count + 1) if self.entries is None else sum(map(len, self.entries))


class Pool:
    """The room that all storages share.

    ``max_backlog`` limits the stored bytes of all topics, in memory and in files; 56 bytes are added per entry.
    ``open_file`` returns a new empty temporary file.
    """

    def __init__(
        self,
        memory_limit: int = _MEMORY,
        max_backlog: int | None = None,
        open_file: Callable[[], BinaryIO] | None = None,
    ) -> None:
        self.memory_limit = memory_limit
        self.max_backlog = _UNBOUNDED if max_backlog is None else max_backlog
        self.memory = 0
        """Bytes reserved for entries in memory."""
        self.kept = 0
        """Bytes reserved for all stored entries."""
        self._open_file = open_file or _temporary_file
        self._blocks: OrderedDict[_Block, None] = OrderedDict()
        """The blocks in memory, oldest first."""
        self._files: list[_File] = []
        self._read: OrderedDict[_Block, tuple[bytes, array[int]]] = OrderedDict()
        self._read_bytes = 0

    def close(self) -> None:
        """Close the files. The entries in them are lost; entries in memory are kept."""
        for file in self._files:
            file.file.close()
        self._files.clear()
        self._read.clear()
        self._read_bytes = 0

    def begin(self, owner: SpillingStorage, first: int) -> _Block:
        """Return a new block whose first entry will be number ``first``."""
        block = _Block(owner, first)
        self._blocks[block] = None
        return block

    def reserve(self, block: _Block, cost: int) -> None:
        """Reserve ``cost`` more bytes for a block."""
        block.cost += cost
        self.memory += cost
        self.kept += cost

    def make_room(self) -> None:
        """Write the oldest blocks to the file until memory is within its limit.

        Raises StorageFull if the write fails.
        """
        while self.memory > self.memory_limit and self._blocks:
            block = next(iter(self._blocks))
            self._spill(block)
            del self._blocks[block]

    def _spill(self, block: _Block) -> None:
        assert block.entries is not None
        entries = block.entries
        ends = array("I", accumulate(map(len, entries), initial=4 * (len(entries) + 1)))
        try:
            file = self._file()
            file.file.seek(file.end)
            file.file.write(ends.tobytes() + b"".join(entries))
        except OSError as error:
            raise StorageFull(
                f"The backlog exceeds the memory limit and cannot be written to a file: {error}"
            ) from error
        block.file, block.position, block.length, block.count = file, file.end, ends[-1], len(entries)
        file.end += block.length
        file.blocks += 1
        self.memory -= block.cost
        block.entries = None
        if block.owner is not None:
            block.owner.block_spilled(block)

    def _file(self) -> _File:
        if not self._files or self._files[-1].end >= _FILE_BYTES:
            self._files.append(_File(self._open_file()))
        return self._files[-1]

    def load(self, block: _Block) -> tuple[bytes, array[int]]:
        """Return the bytes of a block in a file and the boundaries of its entries."""
        loaded = self._read.get(block)
        if loaded is not None:
            self._read.move_to_end(block)
            return loaded
        assert block.file is not None
        try:
            block.file.file.seek(block.position)
            data = block.file.file.read(block.length)
        except (OSError, ValueError) as error:
            raise Refused(pb.PersistenceError, f"The file of the backlog cannot be read: {error}") from error
        ends = array("I", data[: 4 * (block.count + 1)])
        self._read[block] = data, ends
        self._read_bytes += len(data)
        while self._read_bytes > _KEPT_BYTES and len(self._read) > 1:
            self._read_bytes -= len(self._read.popitem(last=False)[1][0])
        return data, ends

    def forget(self, block: _Block) -> None:
        """Release a trimmed block."""
        self.kept -= block.cost
        if block.entries is not None:
            del self._blocks[block]
            self.memory -= block.cost
            block.entries = None
            return
        if block in self._read:
            self._read_bytes -= len(self._read.pop(block)[0])
        if block.file is not None:
            self._release(block.file)

    def _release(self, file: _File) -> None:
        file.blocks -= 1
        if not file.blocks and file in self._files:
            self._files.remove(file)
            file.file.close()


class SpillingStorage:
    """The storage of one topic in a pool."""

    __slots__ = ("_blocks", "_entries", "_pool", "_reserved", "_tail", "start")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._blocks: list[_Block] = []
        self._tail = _NO_BLOCK
        """The last block while it is in memory and not full."""
        self._entries: list[bytes] = []
        """The entries of the tail."""
        self._reserved = 0
        """Bytes that are reserved for the tail but not used yet."""
        self.start = 0

    @property
    def end(self) -> int:
        """The attribute ``end`` of Storage."""
        if not self._blocks:
            return self.start
        last = self._blocks[-1]
        return last.first + (last.count if last.entries is None else len(last.entries))

    @property
    def size(self) -> int:
        """Stored bytes, including trimmed entries in blocks that are still stored."""
        return sum(block.size() for block in self._blocks)

    def append(self, data: bytes) -> None:
        """Store an entry, as defined in Storage."""
        cost = len(data) + _OVERHEAD
        if cost > self._reserved:
            self._reserve(cost)
        self._reserved -= cost
        self._entries.append(data)

    def _reserve(self, cost: int) -> None:
        """Reserve room for one entry of this cost and for further entries, in a new block if the tail is full.

        The reservation grows gradually: small topics use little of the pool, and busy topics seldom call this method.
        """
        pool = self._pool
        if pool.memory > pool.memory_limit:
            pool.make_room()
        tail = self._tail
        cost -= self._reserved
        more = min(tail.cost, _SLICE, pool.max_backlog - pool.kept - cost)
        if more < 0:
            raise StorageFull(f"The backlog of {pool.kept} bytes has reached the limit of {pool.max_backlog}")
        if tail is _NO_BLOCK or tail.cost >= _BLOCK_BYTES or len(self._entries) >= _BLOCK_ENTRIES:
            tail = self._tail = pool.begin(self, self.end)
            self._blocks.append(tail)
            assert tail.entries is not None
            self._entries = tail.entries
        pool.reserve(tail, cost + more)
        self._reserved += cost + more

    def block_spilled(self, block: _Block) -> None:
        """Record that a block was spilled. If it was the tail, the next entry starts a new block."""
        if block is self._tail:
            self._tail, self._entries, self._reserved = _NO_BLOCK, [], 0

    def read(self, first: int, count: int) -> list[bytes]:
        """Return entries, as defined in Storage. A read ends at the end of a block."""
        first = max(first, self.start)
        if first >= self.end or count <= 0:
            return []
        block = self._blocks[-1]
        if first < block.first:
            block = self._blocks[self._index(first)]
        at = first - block.first
        if block.entries is not None:
            return block.entries[at : at + count]
        data, ends = self._pool.load(block)
        last = min(at + count, block.count)
        return [data[ends[number] : ends[number + 1]] for number in range(at, last)]

    def trim(self, first: int) -> None:
        """Delete entries, as defined in Storage."""
        end = self.end
        first = min(first, end)
        if first <= self.start:
            return
        deleted = len(self._blocks) if first == end else self._index(first)
        for block in self._blocks[:deleted]:
            self._pool.forget(block)
            self.block_spilled(block)
        del self._blocks[:deleted]
        self.start = first

    def _index(self, number: int) -> int:
        """Return the index of the block that contains an entry number."""
        return bisect_right(self._blocks, number, key=_first) - 1


_NO_BLOCK: Final = _Block(None, 0)


def _first(block: _Block) -> int:
    return block.first


def _temporary_file() -> BinaryIO:
    import tempfile

    return tempfile.TemporaryFile()
