"""The live holders of entries of a Shared subscription: a broker accepts a redelivery request only from the holder."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.player.id_translation import Place, place_of

__all__ = ["Holders"]

_REDELIVER: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number


class Holders:
    """For Shared subscriptions: the connection and consumer that received each live entry last."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], dict[Place, tuple[int, int]]] = {}

    def give(self, part: int, consumer: Consumer, message: pb.CommandMessage) -> None:
        """Record that a consumer of this connection received an entry."""
        if consumer.type == "Shared":
            holders = self._last.setdefault((consumer.topic, consumer.subscription), {})
            holders[place_of(message.message_id)] = part, consumer.id

    def shares(self, part: int, peer: Consumer, data: bytes) -> list[tuple[int, bytes]]:
        """Split a REDELIVER with live ids by holder; return each request with the connection to send it on."""
        holders = self._last.get((peer.topic, peer.subscription))
        ids = Frame(data, _REDELIVER).command.redeliverUnacknowledgedMessages.message_ids
        if holders is None or not ids:
            return [(part, data)]
        shares: dict[tuple[int, int], list[pb.MessageIdData]] = {}
        for one in ids:
            shares.setdefault(holders.get(place_of(one), (part, peer.id)), []).append(one)
        if list(shares) == [(part, peer.id)]:
            return [(part, data)]
        return [
            (other, push_frame(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number, message_ids=share)))
            for (other, number), share in shares.items()
        ]
