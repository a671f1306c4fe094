"""Chunks: complete messages, and the handling of incomplete ones."""

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.consumer.chunked_message_buffer import ChunkedMessageBuffer
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.settings import ConsumerSettings


class Kept:
    def __init__(self, network, **settings):
        self.network, self.acked, self.tracked = network, [], []
        self.buffer = ChunkedMessageBuffer(
            network.engine,
            ConsumerSettings(**settings),
            acknowledge=lambda one: self.acked.append(one.entry),
            track=lambda one: self.tracked.append(one.entry),
        )

    def __call__(self, entry, number, count, uuid="a", age=0):
        time = self.network.engine.now - age
        metadata = pb.MessageMetadata(uuid=uuid, chunk_id=number, num_chunks_from_msg=count, publish_time=time)
        whole = self.buffer.add(metadata, b"%d" % number, ClientMessageId(1, entry))
        return whole and (whole[0], [one.entry for one in whole[1]])


@pytest.fixture
def keep(fake_broker):
    return lambda **settings: Kept(fake_broker(), **settings)


def test_in_order(keep):
    kept = keep()
    assert [kept(0, 0, 3), kept(1, 1, 3), kept(2, 2, 3)] == [None, None, (b"012", [0, 1, 2])]


def test_interleaved_chunked_messages(keep):
    kept = keep()
    kept(0, 0, 2)
    kept(1, 0, 2, uuid="b")
    assert kept(2, 1, 2) == (b"01", [0, 2])
    assert kept(3, 1, 2, uuid="b") == (b"01", [1, 3])


def test_a_redelivered_first_chunk_restarts_the_message(keep):
    kept = keep()
    kept(0, 0, 2)
    kept(0, 0, 2)
    assert kept(1, 1, 2) == (b"01", [0, 1])
    assert kept.acked == []


def test_resent_chunks_are_acknowledged(keep):
    kept = keep()
    kept(0, 0, 3)
    kept(1, 1, 3)
    kept(5, 0, 3)
    assert kept.acked == [0, 1]
    kept(6, 1, 3)
    kept(7, 1, 3)  # a copy of a received chunk with a different id
    assert kept.acked == [0, 1, 7]
    kept(6, 1, 3)  # the same chunk, redelivered
    assert kept.acked == [0, 1, 7]
    assert kept(8, 2, 3) == (b"012", [5, 6, 8])


def test_a_missing_chunk_drops_the_message(keep):
    kept = keep()
    kept(0, 0, 4)
    kept(2, 2, 4)
    kept(3, 3, 4, age=60_001)
    assert (kept.tracked, kept.acked) == ([2], [3])


@pytest.mark.parametrize("auto_ack", [True, False])
def test_the_number_of_incomplete_messages_is_limited(keep, auto_ack):
    kept = keep(maxPendingChunkedMessage=2, autoAckOldestChunkedMessageOnQueueFull=auto_ack)
    for entry, uuid in enumerate("abc"):
        kept(entry, 0, 2, uuid)
    assert (kept.acked if auto_ack else kept.tracked) == [0]
    assert kept(3, 1, 2, "b") == (b"01", [1, 3])


def test_incomplete_messages_expire(keep):
    kept = keep(expireTimeOfIncompleteChunkedMessageMillis=1000)
    kept(0, 0, 2)
    kept.network.run(1500)
    kept(1, 0, 2, uuid="b")
    kept.network.run(500)
    assert kept.acked == [0]
    kept.network.run(1000)
    assert kept.acked == [0, 1]
    kept.buffer.clear()
    assert kept.network.engine.deadline is None
