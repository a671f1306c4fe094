"""Messages that a producer sends twice: MessageDeduplication.

Rules of this file
1. Known is, per producer name, the highest sequence id stored. Judged is a message's lowest id: a batch of which some
   messages are known is refused as a whole.
2. Of a message in chunks only the last one is judged and remembered; the others pass.
3. A topic for which this is switched on begins to know then. Over an unload what is known stays.
4. A name whose producer has been gone for brokerDeduplicationProducerInactivityTimeoutMinutes is forgotten.

Source of the rules: MessageDeduplication. There ids are pushed first and persisted later, and what lies between the
two is Unknown; here an entry is stored at once, so the answer Unknown does not arise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pcli.codec.proto import pb
from pcli.minibroker.settings import Settings

__all__ = ["MessageDeduplication"]

_MINUTE: Final = 60_000


class MessageDeduplication:
    """What one topic knows of its producers' sequence ids."""

    __slots__ = ("_before", "_gone", "_highest", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._highest: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        """Names without a producer, and since when (ms)."""
        self._before: tuple[str, int | None] | None = None
        """What the last check overwrote: name and its id, None: unknown till then."""

    def check(self, name: str, sequence: int, highest: int, metadata: Callable[[], pb.MessageMetadata] | None) -> bool:
        """Whether a message with the ids of its SEND is a duplicate; they are remembered if it is none.

        ``highest``: of a batch, else anything lower. ``metadata``: of a chunk, None for what is none.
        """
        self._before = None
        if metadata is not None and not _is_last_chunk(metadata()):
            return False
        known = self._highest.get(name)
        if known is not None and sequence <= known:
            return True
        self._before = name, known
        self._highest[name] = max(sequence, highest)
        return False

    def undo_last_check(self) -> None:
        """The message checked last was not stored: it is new when it comes again."""
        if self._before is None:
            return
        name, known = self._before
        self._before = None
        if known is None:
            del self._highest[name]
        else:
            self._highest[name] = known

    def last_sequence_id(self, name: str) -> int:
        """The highest id known of a name, -1 if there is none; PRODUCER_SUCCESS says it."""
        return self._highest.get(name, -1)

    def producer_added(self, name: str) -> None:
        """A producer of that name is there."""
        self._gone.pop(name, None)

    def producer_removed(self, name: str, now: int) -> None:
        """The producer of that name is gone."""
        if name in self._highest:
            self._gone[name] = now

    def purge(self, now: int) -> None:
        """Forget names that have been gone for long; Pulsar looks at them now and then."""
        limit = now - self._settings.brokerDeduplicationProducerInactivityTimeoutMinutes * _MINUTE
        for name in [name for name, since in self._gone.items() if since < limit]:
            del self._gone[name]
            self._highest.pop(name, None)


def _is_last_chunk(metadata: pb.MessageMetadata) -> bool:
    """Also true of what says of itself that it is no chunk."""
    return metadata.chunk_id == metadata.num_chunks_from_msg - 1
