"""The partition of each message. tests/codec/wire compares the hashes with Java's."""

from __future__ import annotations

from typing import Any

from pcli.codec.wire.hashes import partition_of
from pcli.replay.client.producer.message_routing import MessageRouter
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer_settings import ProducerSettings


def router(lot: float = 0.5, **settings: Any) -> MessageRouter:
    return MessageRouter(ProducerSettings(**settings), 4, lambda: lot)


def chosen(one: MessageRouter, *times: int, count: int = 4) -> list[int]:
    return [one.choose(OutgoingMessage(b""), count, now) for now in times]


def test_a_key_takes_precedence_over_the_mode() -> None:
    for mode in ("RoundRobinPartition", "SinglePartition"):
        for murmur, scheme in enumerate(("JavaStringHash", "Murmur3_32Hash")):
            one = router(messageRoutingMode=mode, hashingScheme=scheme)
            for key in ("a", "key-7", "", "ü"):
                assert one.choose(OutgoingMessage(b"", key=key), 4, 0) == partition_of(key, 4, murmur=bool(murmur))


def test_round_robin_without_batching() -> None:
    assert chosen(router(batchingEnabled=False), 0, 0, 0, 0, 0) == [2, 3, 0, 1, 2]


def test_round_robin_with_batching_follows_the_clock() -> None:
    one = router(batchingMaxPublishDelayMicros=2000)
    assert chosen(one, 100, 119, 120, 139, 140) == [(5 + 2) % 4, 3, 0, 0, 1]
    assert chosen(router(lot=0, batchingMaxPublishDelayMicros=10), 5, 6) == [1, 2]


def test_single_partition_uses_one_partition() -> None:
    assert chosen(router(lot=0.99, messageRoutingMode="SinglePartition"), 0, 1000, 2000) == [3, 3, 3]


def test_new_partitions_are_used() -> None:
    assert chosen(router(batchingEnabled=False), 0, 0, 0, count=8) == [2, 3, 4]
