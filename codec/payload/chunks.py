"""Assembly of large messages from the chunks in several frames.

Rules of this file
1. The chunks of one message have the same ``uuid``; ``chunk_id`` counts from 0 to ``num_chunks_from_msg`` - 1. Chunks
   of different messages may be interleaved, but the chunks of one message are in order.
2. Other cases are handled as the Java client handles them (ConsumerImpl.processMessageChunk). A chunk 0 restarts the
   message, because a redelivery starts with the first chunk. A duplicate chunk is ignored. If any other chunk is out of
   order, the message is discarded.
3. A uuid is unique only within one producer, and each consumer receives a separate sequence of chunks. The caller's
   ``scope``, such as "this consumer on this connection", separates these sequences.
4. The fields of a chunk are checked separately (chunk_problems). Totals that differ between chunks are reported, and
   the message is still assembled.
5. Memory is limited in bytes and in messages: the oldest message is discarded first (``maxPendingChunkedMessage``).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.texts import as_text

MAX_CHUNK_BYTES: Final = 128 * 1024 * 1024
"""Maximum total size of all incomplete messages in bytes."""

MAX_PENDING: Final = 1000
"""Maximum number of incomplete messages. A Java consumer keeps 10, but one joiner is used for a whole capture."""

_CHUNK_COST: Final = 64
"""Memory overhead per chunk in bytes, so that the limit in bytes also applies to empty chunks."""

_SHOWN: Final = 80
"""Maximum number of characters of a uuid that are shown, because a producer may choose any length."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The result of adding one chunk."""

    payload: bytes | None
    """The whole message, still compressed; None if chunks are missing or the added chunk was rejected."""
    problems: tuple[Problem, ...] = ()
    """Problems with this chunk, including older messages that were discarded to free memory for it."""


class _Pending:
    """An incomplete message, with its chunks 0 … next-1."""

    __slots__ = ("cost", "count", "parts", "total")

    def __init__(self, count: int, total: int, cost: int) -> None:
        self.count = count
        self.total = total
        """``total_chunk_msg_size`` of chunk 0; 0 if unset."""
        self.parts: list[bytes] = []
        self.cost = cost


_NOTHING: Final = Joined(None)


def is_chunk(metadata: pb.MessageMetadata) -> bool:
    """Whether the entry is a chunk of a larger message."""
    return metadata.num_chunks_from_msg > 1 or metadata.chunk_id > 0


def chunk_problems(metadata: pb.MessageMetadata, size: int) -> list[Problem]:
    """Return the problems with a single chunk. ``size`` is the decrypted size in bytes, or 0 if unknown."""
    found = []
    count, total = metadata.num_chunks_from_msg, metadata.total_chunk_msg_size
    if not 0 <= metadata.chunk_id < count:
        found.append("has an invalid number")
    if count > 1 and not metadata.HasField("uuid"):
        found.append("has no uuid, so its message is unknown")
    if metadata.HasField("total_chunk_msg_size"):
        if total <= 0:
            found.append(f"belongs to a message of {total} bytes")
        elif total < size:
            found.append(f"of {size} bytes belongs to a message of {total}")
    return [_problem(metadata, what) for what in found]


class ChunkJoiner:
    """A store of chunks until their messages are complete."""

    __slots__ = ("_pending", "_size", "max_bytes", "max_pending")

    def __init__(self, max_bytes: int = MAX_CHUNK_BYTES, max_pending: int = MAX_PENDING) -> None:
        self.max_bytes = max_bytes
        self.max_pending = max_pending
        self._pending: dict[tuple[Hashable, str], _Pending] = {}
        self._size = 0

    @property
    def waiting(self) -> list[tuple[Hashable, str, int, int]]:
        """Incomplete messages, oldest first, as (scope, uuid, chunks received, chunks announced)."""
        return [(scope, uuid, len(one.parts), one.count) for (scope, uuid), one in self._pending.items()]

    @property
    def size(self) -> int:
        """Number of bytes currently stored, including uuids and overhead."""
        return self._size

    def add(self, metadata: pb.MessageMetadata, payload: bytes, scope: Hashable = None) -> Joined:
        """Add one decrypted chunk. Chunks are encrypted separately, but compressed as one message."""
        key = (scope, as_text(metadata.uuid))
        number, count = metadata.chunk_id, metadata.num_chunks_from_msg
        wrong = chunk_problems(metadata, len(payload))
        if not 0 <= number < count:
            return Joined(None, tuple(wrong))
        one = self._pending.get(key)
        if one is not None:
            wrong += _contradictions(one, metadata)
        if number == 0:
            self._drop(key)
            one = self._pending[key] = _Pending(count, metadata.total_chunk_msg_size, len(key[1]))
            self._size += len(key[1])
        if one is None:
            wrong.append(_problem(metadata, "begins in the middle: the earlier chunks were not captured"))
        elif one.count != count:
            self._drop(key)
        elif number > len(one.parts):
            self._drop(key)
            wrong.append(_problem(metadata, f"arrived where {len(one.parts)} was expected: the message is discarded"))
        elif number == len(one.parts):
            one.parts.append(payload)
            one.cost += len(payload) + _CHUNK_COST
            self._size += len(payload) + _CHUNK_COST
            joined = self._finish(key, metadata) if number == count - 1 else self._bound(key)
            return Joined(joined.payload, (*wrong, *joined.problems)) if wrong else joined
        return Joined(None, tuple(wrong)) if wrong else _NOTHING

    def forget(self, metadata: pb.MessageMetadata, scope: Hashable = None) -> None:
        """Discard the message of a chunk that is unusable (truncated, or not decrypted)."""
        self._drop((scope, as_text(metadata.uuid)))

    def _finish(self, key: tuple[Hashable, str], metadata: pb.MessageMetadata) -> Joined:
        payload = b"".join(self._pending[key].parts)
        self._drop(key)
        total = metadata.total_chunk_msg_size
        if metadata.HasField("total_chunk_msg_size") and total != len(payload):
            return Joined(
                payload, (_problem(metadata, f"completes {len(payload)} bytes instead of the announced {total}"),)
            )
        return Joined(payload)

    def _bound(self, newest: tuple[Hashable, str]) -> Joined:
        given_up: list[Problem] = []
        while self._size > self.max_bytes or len(self._pending) > self.max_pending:
            scope_and_uuid = next(iter(self._pending))
            one = self._drop(scope_and_uuid)
            assert one is not None
            this = "this message" if scope_and_uuid == newest else f"message {_short(scope_and_uuid[1])}"
            given_up.append(
                Problem(
                    "chunk",
                    f"{this} is discarded with {len(one.parts)} of {one.count} chunks: too many bytes are pending",
                )
            )
        return Joined(None, tuple(given_up)) if given_up else _NOTHING

    def _drop(self, key: tuple[Hashable, str]) -> _Pending | None:
        one = self._pending.pop(key, None)
        if one is not None:
            self._size -= one.cost
        return one


def _contradictions(one: _Pending, metadata: pb.MessageMetadata) -> list[Problem]:
    """Return the fields of a chunk that contradict the earlier chunks of the message."""
    found = []
    total = metadata.total_chunk_msg_size
    if metadata.num_chunks_from_msg != one.count:
        end = "the message is discarded" if metadata.chunk_id else "the message starts again"
        found.append(_problem(metadata, f"belongs to a message of {one.count} chunks: {end}"))
    if one.total and total and total != one.total:
        what = f"belongs to a message of {total} bytes; chunk 0 specifies {one.total}"
        found.append(_problem(metadata, what))
    return found


def _problem(metadata: pb.MessageMetadata, what: str) -> Problem:
    which = f"chunk {metadata.chunk_id} (from 0) of {metadata.num_chunks_from_msg}"
    return Problem("chunk", f"{which} of {_short(as_text(metadata.uuid))} {what}")


def _short(uuid: str) -> str:
    return repr(uuid if len(uuid) <= _SHOWN else uuid[:_SHOWN] + "…")
