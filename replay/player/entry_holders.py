"""Who has an entry of a Shared subscription, live: he asks for its redelivery, a broker hears it from nobody else."""

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
    """Of Shared subscriptions: connection and consumer that got each live entry last."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], dict[Place, tuple[int, int]]] = {}

    def give(self, part: int, consumer: Consumer, message: pb.CommandMessage) -> None:
        """A consumer of this connection got an entry."""
        if consumer.type == "Shared":
            holders = self._last.setdefault((consumer.topic, consumer.subscription), {})
            holders[place_of(message.message_id)] = part, consumer.id

    def shares(self, part: int, peer: Consumer, data: bytes) -> list[tuple[int, bytes]]:
        """A REDELIVER with live ids, and its connection: the same, or one for each who has some of its entries."""
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
