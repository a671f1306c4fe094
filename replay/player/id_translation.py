"""Translation between captured and live ids, in both directions.

Rules of this file
1. An id is mapped when a captured and a live frame concern the same object: the SEND_RECEIPTs of one SEND, the MESSAGEs
   of one entry, the PRODUCER_SUCCESSes of one PRODUCER. The first mapping is kept; a later mapping that contradicts it
   is a difference. An impossible mapping is also a difference: one live name or version for two captured names or
   versions, a name that differs from the requested name, a version where the capture has none, or entries of a ledger
   in a different order.
2. In a message id, ledger and entry are rewritten; partition, batch index and ack sets are kept. Ids that identify no
   message (earliest, latest: ledger -1 or 2^63-1) are unchanged.
3. If nothing changes in a frame, the captured bytes are sent.
4. The producer's name in a message's metadata is unchanged: no broker compares it with the name in PRODUCER,
   deduplication uses it, and Key_Shared hashes it for messages without a key.
5. Topics are mapped by the user's rules: from captured to live in requests, and back in responses. The names of
   segments also contain the ids of segments (segment_translation.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.texts import as_text
from pcli.replay.player.segment_translation import SegmentIds

Position = tuple[int, int]
"""Ledger and entry id, signed."""

TopicRule = tuple[re.Pattern[str], str]

_NOWHERE: Final = 1 << 63
_FIELDS: Final = ("message_id", "message_ids", "start_message_id")
_TOPICS: Final = ("topic", "topics", "topics_pattern", "partitions")


def position_of(data: pb.MessageIdData) -> Position:
    """Return the ledger and entry id of a message id."""
    return signed(data.ledgerId), signed(data.entryId)


@dataclass(slots=True)
class Ids:
    """The id mappings of one replay."""

    topics: Sequence[TopicRule] = ()
    segments: SegmentIds = field(default_factory=SegmentIds)
    """The ids of the segments of scalable topics."""
    positions: dict[Position, Position] = field(default_factory=dict)
    """Ledger and entry ids, captured to live."""
    live_positions: dict[Position, Position] = field(default_factory=dict)
    """Ledger and entry ids, live to captured."""
    names: dict[str, str] = field(default_factory=dict)
    """Producer names that the broker generated, captured to live."""
    versions: dict[bytes, bytes] = field(default_factory=dict)
    """Schema versions, captured to live."""
    transactions: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Transaction ids (most bits, least bits), captured to live."""
    contents: dict[bytes, bytes] = field(default_factory=dict)
    """Captured metadata and payload of each rewritten entry, by its sent metadata and payload."""
    shift_ms: int = 0
    """Milliseconds from the capture to the replay, added to delivery times and to a reader's rollback duration. Publish
    times are unchanged."""
    mapped: dict[str, str] = field(default_factory=dict)
    """Topics renamed by a rule, live to captured."""
    unknown: list[Position] = field(default_factory=list)
    """Captured ids, in commands to send, for which no live id is known."""

    # -- mapping ---------------------------------------------------------------------------------------------------

    def map_ids(self, captured: Any, live: Any) -> None:
        """Map the ids of two bodies that belong to the same request or the same entry."""
        for name in ("message_id", "producer_name", "schema_version", "txnid_least_bits"):
            fields = captured.DESCRIPTOR.fields_by_name
            if name in fields and fields[name].is_repeated is False and captured.HasField(name) and live.HasField(name):
                _MAPPERS[name](self, captured, live)

    def _map_position(self, captured: Any, live: Any) -> None:
        mine, theirs = position_of(captured.message_id), position_of(live.message_id)
        if mine[0] >= 0 and theirs[0] >= 0 and mine not in self.positions and theirs not in self.live_positions:
            self.positions[mine], self.live_positions[theirs] = theirs, mine

    def _map_name(self, captured: Any, live: Any) -> None:
        if live.producer_name not in self.names.values():
            self.names.setdefault(captured.producer_name, live.producer_name)

    def _map_version(self, captured: Any, live: Any) -> None:
        versions = captured.schema_version, live.schema_version
        if all(versions) and live.schema_version not in self.versions.values():
            self.versions.setdefault(*versions)

    def _map_transaction(self, captured: Any, live: Any) -> None:
        mine = captured.txnid_most_bits, captured.txnid_least_bits
        self.transactions.setdefault(mine, (live.txnid_most_bits, live.txnid_least_bits))

    # -- requests --------------------------------------------------------------------------------------------------

    def rewritten(self, frame: Frame) -> bytes:
        """Return the frame with live ids, or no bytes if it contains message ids and none has a live id."""
        if frame.type not in COMMANDS:
            return frame.data
        command = pb.BaseCommand()
        command.CopyFrom(frame.command)
        body = getattr(command, COMMANDS[frame.type].field)
        if not self._replace_ids(body):
            return b""
        self._replace_names(body)
        entry = self._entry(frame)
        if command == frame.command and entry is None:
            return frame.data
        return join_frame(
            command.SerializePartialToString(), frame.data[frame.parts.command_end :] if entry is None else entry
        )

    def _replace_ids(self, body: Any) -> bool:
        """Replace message ids. Return False if the body contains message ids and none has a live id."""
        for name, value in body.ListFields():
            if name.name in _FIELDS:
                if not name.is_repeated:
                    if not self._replace_id(value):
                        return False
                    continue
                unmapped = [position for position, one in enumerate(value) if not self._replace_id(one)]
                for position in reversed(unmapped):
                    del value[position]
                if unmapped and not value:
                    return False
        return True

    def _replace_id(self, data: pb.MessageIdData) -> bool:
        position = position_of(data)
        live = self.positions.get(position)
        if live is not None:
            data.ledgerId, data.entryId = live[0] & 2**64 - 1, live[1] & 2**64 - 1
            if data.HasField("first_chunk_message_id"):
                self._replace_id(data.first_chunk_message_id)
            return True
        if 0 <= position[0] < _NOWHERE - 1 and position != (0, 0):
            self.unknown.append(position)
            return False
        return True

    def _replace_names(self, body: Any) -> None:
        fields = body.DESCRIPTOR.fields_by_name
        if "producer_name" in fields and body.producer_name:  # the name that the broker or the client chose
            body.producer_name = self.names.setdefault(body.producer_name, body.producer_name)
        if "schema_version" in fields and body.schema_version in self.versions:
            body.schema_version = self.versions[body.schema_version]
        if "txnid_least_bits" in fields and body.HasField("txnid_least_bits"):
            known = self.transactions.get((body.txnid_most_bits, body.txnid_least_bits))
            if known is not None:
                body.txnid_most_bits, body.txnid_least_bits = known
        if self.shift_ms and getattr(body, "start_message_rollback_duration_sec", 0):
            body.start_message_rollback_duration_sec += -(-self.shift_ms // 1000)
        if self.topics or not self.segments.unchanged:
            for name in _TOPICS:
                if name in fields and getattr(body, name):
                    self._replace_topics(body, name)
            for one in body.subscription if isinstance(body, pb.CommandAddSubscriptionToTxn) else ():
                self._replace_topics(one, "topic")

    def _replace_topics(self, body: Any, name: str) -> None:
        value = getattr(body, name)
        if isinstance(value, str):
            setattr(body, name, self.topic(value))
        else:
            value[:] = [self.topic(one) for one in value]

    def topic(self, name: str) -> str:
        """Return the live name of a topic, according to the first rule that matches, with the live id of a segment."""
        captured = as_text(name)
        name = self.segments.live_name(captured)
        for pattern, replacement in self.topics:
            live, count = pattern.subn(replacement, name)
            if count:
                self.mapped[live] = captured
                return live
        if name != captured:
            self.mapped[name] = captured
        return name

    def _entry(self, frame: Frame) -> bytes | None:
        """Return the headers and payload with shifted times and live ids, or None if nothing changes."""
        metadata = frame.metadata
        if metadata is None or not (self._shifts(metadata) or self._versions_in(metadata) or self._txn_of(metadata)):
            return None
        changed = pb.MessageMetadata()
        changed.CopyFrom(metadata)
        if self._shifts(metadata):
            changed.deliver_at_time += self.shift_ms
        if self._versions_in(metadata):
            changed.schema_version = self.versions[metadata.schema_version]
        if known := self._txn_of(metadata):
            changed.txnid_most_bits, changed.txnid_least_bits = known
        parts, payload = frame.parts, frame.payload or b""
        entry = push_entry(changed, payload, checksum=parts.checksum is not None)
        self.contents[entry[6:] if parts.checksum is not None else entry] = frame.data[parts.checked_start :]
        return entry

    def _shifts(self, metadata: pb.MessageMetadata) -> bool:
        return bool(self.shift_ms) and metadata.HasField("deliver_at_time")

    def _versions_in(self, metadata: pb.MessageMetadata) -> bool:
        version = metadata.schema_version
        return self.versions.get(version, version) != version

    def _txn_of(self, metadata: pb.MessageMetadata) -> tuple[int, int] | None:
        mine = metadata.txnid_most_bits, metadata.txnid_least_bits
        live = self.transactions.get(mine) if metadata.HasField("txnid_least_bits") else None
        return live if live != mine else None

    # -- responses -------------------------------------------------------------------------------------------------

    def content(self, frame: Frame) -> bytes:
        """Return the metadata and payload of a live MESSAGE, or the captured bytes if they were rewritten when sent."""
        content = frame.data[frame.parts.checked_start :]
        return self.contents.get(content, content)

    def same_place(self, captured: Position, live: Position) -> bool:
        """Return whether a live id is mapped to a captured id. If both are unmapped, map them first."""
        if captured in self.positions or live in self.live_positions:
            return self.positions.get(captured) == live and self._in_order(captured, live)
        if captured[0] < 0 or live[0] < 0:
            return captured == live
        if captured[1] != live[1]:
            return False
        self.positions[captured], self.live_positions[live] = live, captured
        return True

    def _in_order(self, captured: Position, live: Position) -> bool:
        """Return whether a live id is between the live ids of the previous and next entries of the captured ledger."""
        ledger, entry = captured
        before, after = self.positions.get((ledger, entry - 1)), self.positions.get((ledger, entry + 1))
        return (before is None or before < live) and (after is None or live < after)

    def captured_topics(self, names: Sequence[str]) -> Iterator[str]:
        """Return the captured names of live topics."""
        return (self.mapped.get(name, name) for name in names)


_MAPPERS: Final = {
    "message_id": Ids._map_position,
    "producer_name": Ids._map_name,
    "schema_version": Ids._map_version,
    "txnid_least_bits": Ids._map_transaction,
}
