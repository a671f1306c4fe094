"""The trace headers of messages, collected from frames until the lifecycle of the message is complete.

Rules of this file
1. Trace headers are properties of messages: in the metadata of the entry, or in the metadata of each message of a
   batch.
2. Only frames with a trace header are kept, at most MAX_FRAMES; the oldest frames are dropped first and counted.
3. Most messages have no trace header. Uncompressed entries are searched for the names of headers before they are
   decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.telemetry.trace_ids import TraceContext, headers_of, is_marked
from pcli.codec.observe.tracking.entry_metadata import FIELD, fields_of
from pcli.codec.wire.commands import PAYLOAD_TYPES

MAX_FRAMES: Final = 100_000
"""Maximum number of frames whose headers are kept. They occupy about 40 MB if each has one message."""

Contexts = tuple[tuple[int, TraceContext], ...]
"""The contexts of an entry's messages: the index in the batch, or -1 for an entry that is no batch, and the context."""


class MessageContexts:
    """The trace headers of the messages whose lifecycles are open."""

    def __init__(self, maximum: int = MAX_FRAMES) -> None:
        self._frames: BoundedDict[int, Contexts] = BoundedDict(maximum)
        self.malformed: dict[str, int] = {}
        """Number of messages with a malformed header, by its name."""
        self.dropped = 0
        """Number of frames whose headers were dropped."""

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        frame = facts.frame
        if frame.type not in PAYLOAD_TYPES or frame.parts.metadata_start < 0:
            return
        found = tuple(self._found(facts))
        if found:
            self.dropped += len(self._frames) >= self._frames.maximum
            self._frames[frame.number] = found

    def take(self, frames: Iterable[int]) -> Contexts:
        """Remove the headers of the frames of one message, and return those of the first frame that has any."""
        found: Contexts = ()
        for number in frames:
            own = self._frames.pop(number, ())
            found = found or own
        return found

    def peek(self, frames: Iterable[int]) -> Contexts:
        """Return the headers of the first of these frames that has any."""
        return next((found for number in frames if (found := self._frames.get(number))), ())

    def _found(self, facts: Facts) -> Iterator[tuple[int, TraceContext]]:
        frame = facts.frame
        data, parts = frame.data, frame.parts
        fields = fields_of(frame)
        batch = _BATCH in fields
        plain = not batch or not (_COMPRESSION in fields or _ENCRYPTION in fields)
        if plain and not is_marked(data, parts.metadata_start, len(data) if batch else parts.metadata_end):
            return
        for one in facts.batch if batch else [{"properties": facts.metadata.get("pulsar.metadata.properties", ())}]:
            headers = headers_of(_pairs(one))
            if headers.malformed:
                self.malformed[headers.malformed] = self.malformed.get(headers.malformed, 0) + frame.from_client
            if headers.context is not None:
                yield int(one.get("index", -1)), headers.context


def _pairs(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for pair in message.get("properties", ()):
        yield pair.get("key", ""), pair.get("value", "")


_BATCH: Final = FIELD["num_messages_in_batch"]
_COMPRESSION: Final = FIELD["compression"]
_ENCRYPTION: Final = FIELD["encryption_keys"]
