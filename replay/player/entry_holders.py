"""The live holder of each entry of a Shared subscription. A broker accepts redelivery requests only from the holder."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.player.id_translation import Position, position_of

__all__ = ["EntryHolders"]

_REDELIVER: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number


class EntryHolders:
    """The connection and consumer that last received each live entry of a Shared subscription."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], dict[Position, tuple[int, int]]] = {}

    def give(self, stream: int, consumer: Consumer, message: pb.CommandMessage) -> None:
        """Record that a consumer of this connection received an entry."""
        if consumer.type == "Shared":
            holders = self._last.setdefault((consumer.topic, consumer.subscription), {})
            holders[position_of(message.message_id)] = stream, consumer.id

    def split_by_holder(self, stream: int, peer: Consumer, data: bytes) -> list[tuple[int, bytes]]:
        """Split a REDELIVER with live ids by holder.

        Return each request and the connection on which it must be sent.
        """
        holders = self._last.get((peer.topic, peer.subscription))
        ids = Frame(data, _REDELIVER).command.redeliverUnacknowledgedMessages.message_ids
        if holders is None or not ids:
            return [(stream, data)]
        split_by_holder: dict[tuple[int, int], list[pb.MessageIdData]] = {}
        for one in ids:
            split_by_holder.setdefault(holders.get(position_of(one), (stream, peer.id)), []).append(one)
        if list(split_by_holder) == [(stream, peer.id)]:
            return [(stream, data)]
        return [
            (other, push_frame(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number, message_ids=share)))
            for (other, number), share in split_by_holder.items()
        ]
