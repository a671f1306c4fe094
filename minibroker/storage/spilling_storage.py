"""Where the entries of the topics lie: in memory, and what is too much in an unlinked temporary file.

Rules of this file
1. Entries are numbered from 0 on, appended at the end, trimmed at the start, and never changed.
2. All storages share one pool. Entries gather in blocks; when the pool is over its memory, the block that was begun
   first goes to the file, whatever topic it is of. A file's space is given back when its last block is trimmed.
3. A block is read from the file as a whole and kept for a while, so reading on is about as quick as from memory.
   A block in the file costs memory by the block, not by the entry: where its entries end is written in front of them.
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

__all__ = ["Pool", "SpillingStorage", "Storage", "StorageFull"]

_MEMORY: Final = 32 * 1024 * 1024
"""Bytes of entries in memory, all topics together, before blocks go to the file."""

_BLOCK_ENTRIES: Final = 1024
_BLOCK_BYTES: Final = 256 * 1024
"""A block is full when it has that many entries, or that many bytes or more."""

_FILE_BYTES: Final = 256 * 1024 * 1024
"""When a file has that many bytes the next one is begun: space is given back by the file."""

_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of blocks that were read from the file and are kept; one is kept in any case."""

_SLICE: Final = 16 * 1024
"""Bytes that a storage sets aside at once, at most: room is counted by slices, not by the entry."""

_OVERHEAD: Final = 56
"""What an entry in memory costs beside its bytes: head of the object, rounding, place in the list."""

_UNBOUNDED: Final = 1 << 62


class StorageFull(Refused):
    """There is no room for another entry: PersistenceError."""

    def __init__(self, text: str) -> None:
        super().__init__(pb.PersistenceError, text)


class Storage(Protocol):
    """The entries of one topic."""

    @property
    def start(self) -> int:
        """Number of the oldest entry kept."""

    @property
    def end(self) -> int:
        """Number of the next entry."""

    @property
    def size(self) -> int:
        """Bytes kept; trimmed entries count for as long as their block is kept."""

    def append(self, data: bytes) -> None:
        """Keep ``data`` as number ``end``. StorageFull if there is no room; nothing is changed then."""

    def read(self, first: int, count: int) -> list[bytes]:
        """Up to ``count`` entries from number ``first`` on, at least one if there is one; ask again for the rest."""

    def trim(self, first: int) -> None:
        """Forget all entries below number ``first``."""


class _File:
    """A temporary file, its end, and how many of its blocks are still wanted."""

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
        """Whose it is: told when the block leaves the memory, it may be the one that is being filled."""
        self.first = first
        self.entries: list[bytes] | None = []
        """None: in the file, or trimmed."""
        self.cost = 0
        """Bytes it is counted with: what was set aside for it."""
        self.file: _File | None = None
        self.count = self.position = self.length = 0
        """In the file: entries; where the block begins there, and its bytes with the index in front."""

    def size(self) -> int:
        """Bytes of its entries."""
        return self.length - 4 * (self.count + 1) if self.entries is None else sum(map(len, self.entries))


class Pool:
    """The room that all storages share.

    ``max_backlog``: bytes of entries kept, in memory and in files, all topics together, 56 added for each entry.
    ``open_file`` gives a new empty temporary file that nobody else sees.
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
        """Bytes set aside for entries in memory."""
        self.kept = 0
        """Bytes set aside for all entries kept."""
        self._open_file = open_file or _temporary_file
        self._blocks: OrderedDict[_Block, None] = OrderedDict()
        """Those in memory, in the order in which they were begun."""
        self._files: list[_File] = []
        self._read: OrderedDict[_Block, tuple[bytes, array[int]]] = OrderedDict()
        self._read_bytes = 0

    def close(self) -> None:
        """Give the files back. What lies there is lost; memory stays as it is."""
        for file in self._files:
            file.file.close()
        self._files.clear()
        self._read.clear()
        self._read_bytes = 0

    def begin(self, owner: SpillingStorage, first: int) -> _Block:
        """A new block whose first entry will be number ``first``."""
        block = _Block(owner, first)
        self._blocks[block] = None
        return block

    def reserve(self, block: _Block, cost: int) -> None:
        """Set ``cost`` more bytes aside for a block."""
        block.cost += cost
        self.memory += cost
        self.kept += cost

    def make_room(self) -> None:
        """Move the oldest blocks to the file until memory is in its limit; StorageFull if the file takes no more."""
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
            raise StorageFull(f"The backlog does not fit into memory, and the file takes no more: {error}") from error
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
        """The bytes of a block in a file, and where in them its entries begin and end."""
        loaded = self._read.get(block)
        if loaded is not None:
            self._read.move_to_end(block)
            return loaded
        assert block.file is not None
        try:
            block.file.file.seek(block.position)
            data = block.file.file.read(block.length)
        except (OSError, ValueError) as error:
            raise Refused(pb.PersistenceError, f"The backlog's file cannot be read: {error}") from error
        ends = array("I", data[: 4 * (block.count + 1)])
        self._read[block] = data, ends
        self._read_bytes += len(data)
        while self._read_bytes > _KEPT_BYTES and len(self._read) > 1:
            self._read_bytes -= len(self._read.popitem(last=False)[1][0])
        return data, ends

    def forget(self, block: _Block) -> None:
        """A block is trimmed."""
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
    """Storage in a pool."""

    __slots__ = ("_blocks", "_entries", "_pool", "_reserved", "_tail", "start")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._blocks: list[_Block] = []
        self._tail = _NO_BLOCK
        """The last block while it is in memory and may grow."""
        self._entries: list[bytes] = []
        """Those of the tail."""
        self._reserved = 0
        """Bytes that are set aside for the tail and not used yet."""
        self.start = 0

    @property
    def end(self) -> int:
        """See Storage."""
        if not self._blocks:
            return self.start
        last = self._blocks[-1]
        return last.first + (last.count if last.entries is None else len(last.entries))

    @property
    def size(self) -> int:
        """See Storage."""
        return sum(block.size() for block in self._blocks)

    def append(self, data: bytes) -> None:
        """See Storage."""
        cost = len(data) + _OVERHEAD
        if cost > self._reserved:
            self._reserve(cost)
        self._reserved -= cost
        self._entries.append(data)

    def _reserve(self, cost: int) -> None:
        """Set room aside for one entry of that cost and some more, in a new block if the tail is full.

        By and by more, so that small topics take little of the pool and busy ones seldom come here.
        """
        pool = self._pool
        if pool.memory > pool.memory_limit:
            pool.make_room()
        tail = self._tail
        cost -= self._reserved
        more = min(tail.cost, _SLICE, pool.max_backlog - pool.kept - cost)
        if more < 0:
            raise StorageFull(f"The backlog takes {pool.kept} bytes, {pool.max_backlog} are allowed")
        if tail is _NO_BLOCK or tail.cost >= _BLOCK_BYTES or len(self._entries) >= _BLOCK_ENTRIES:
            tail = self._tail = pool.begin(self, self.end)
            self._blocks.append(tail)
            assert tail.entries is not None
            self._entries = tail.entries
        pool.reserve(tail, cost + more)
        self._reserved += cost + more

    def block_spilled(self, block: _Block) -> None:
        """A block went to the file; if it was the tail, the next entry begins another."""
        if block is self._tail:
            self._tail, self._entries, self._reserved = _NO_BLOCK, [], 0

    def read(self, first: int, count: int) -> list[bytes]:
        """See Storage; ends where a block ends."""
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
        """See Storage."""
        end = self.end
        first = min(first, end)
        if first <= self.start:
            return
        gone = len(self._blocks) if first == end else self._index(first)
        for block in self._blocks[:gone]:
            self._pool.forget(block)
            self.block_spilled(block)
        del self._blocks[:gone]
        self.start = first

    def _index(self, number: int) -> int:
        """Which block has the entry of that number."""
        return bisect_right(self._blocks, number, key=_first) - 1


_NO_BLOCK: Final = _Block(None, 0)


def _first(block: _Block) -> int:
    return block.first


def _temporary_file() -> BinaryIO:
    import tempfile

    return tempfile.TemporaryFile()
