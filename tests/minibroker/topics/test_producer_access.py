"""The table of access modes, with producers that only record their notifications."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topics.producer_access import ProducerAccess

SHARED, EXCLUSIVE, WAIT, FENCING = pb.Shared, pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing


class _Producer:
    def __init__(self, topic: _Topic, name: str, mode: int, epoch: int | None) -> None:
        self.topic, self.name, self.access_mode, self.topic_epoch = topic, name, mode, epoch
        self.closed = False
        self.refused: Refused | None = None

    def refuse(self, refusal: Refused) -> None:
        self.closed, self.refused = True, refusal

    def leave(self) -> None:
        self.closed = True
        self.topic.left(self.name)


class _Topic:
    """A registry of the current producers, like a topic."""

    def __init__(self) -> None:
        self.producers: dict[str, _Producer] = {}
        self.access = ProducerAccess(self.producers)  # type: ignore[arg-type]

    def joins(self, name: str, mode: int, epoch: int | None = None) -> str:
        """Return the result for a producer: its epoch, that it waits, or the error."""
        producer = _Producer(self, name, mode, epoch)
        try:
            admitted = self.access.admit(producer)  # type: ignore[arg-type]
        except Refused as refusal:
            return pb.ServerError.Name(pb.ServerError.ValueType(refusal.code))
        if not admitted:
            return "waits"
        self.producers[name] = producer
        return f"epoch {self.access.epoch}"

    def left(self, name: str) -> str:
        """Return the holder after one producer has left."""
        self.producers.pop(name)
        promoted = self.access.next_holder()
        if promoted is None:
            return "nobody"
        self.producers[promoted.name] = promoted  # type: ignore[assignment]
        return f"{promoted.name}, epoch {self.access.epoch}"


@pytest.fixture
def topic() -> _Topic:
    return _Topic()


def test_shared_producers_have_no_epoch(topic: _Topic) -> None:
    assert topic.joins("a", SHARED) == "epoch None"
    assert topic.joins("b", SHARED) == "epoch None"


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [(SHARED, "ProducerBusy"), (EXCLUSIVE, "ProducerFenced"), (WAIT, "waits"), (FENCING, "epoch 1")],
)
def test_claims_with_an_exclusive_producer(topic: _Topic, mode: int, outcome: str) -> None:
    assert topic.joins("a", EXCLUSIVE) == "epoch 0"
    assert topic.joins("b", mode) == outcome


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [(SHARED, "epoch None"), (EXCLUSIVE, "ProducerFenced"), (WAIT, "waits"), (FENCING, "epoch 0")],
)
def test_claims_with_a_shared_producer(topic: _Topic, mode: int, outcome: str) -> None:
    topic.joins("a", SHARED)
    assert topic.joins("b", mode) == outcome


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [(SHARED, "ProducerBusy"), (EXCLUSIVE, "ProducerFenced"), (WAIT, "waits"), (FENCING, "epoch 0")],
)
def test_claims_with_a_waiting_producer(topic: _Topic, mode: int, outcome: str) -> None:
    topic.joins("a", SHARED)
    topic.joins("b", WAIT)
    assert topic.joins("c", mode) == outcome


def test_the_refusal_contains_the_exclusive_producer_or_null(topic: _Topic) -> None:
    topic.joins("a", SHARED)
    topic.joins("b", WAIT)
    with pytest.raises(Refused, match="existing exclusive producer: null"):
        topic.access.admit(_Producer(topic, "c", SHARED, None))  # type: ignore[arg-type]
    topic.left("a")
    with pytest.raises(Refused, match="existing exclusive producer: b"):
        topic.access.admit(_Producer(topic, "c", SHARED, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCING])
def test_a_free_topic_can_be_claimed(topic: _Topic, mode: int) -> None:
    assert topic.joins("a", mode) == "epoch 0"
    assert topic.access.holder == "a"


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCING])
def test_claimed_epochs(topic: _Topic, mode: int) -> None:
    for claim, outcome in ((None, "epoch 0"), (None, "epoch 1"), (0, "ProducerFenced"), (1, "epoch 1"), (7, "epoch 7")):
        assert topic.joins("a", mode, claim) == outcome
        if topic.producers:
            topic.left("a")
    # A Shared producer also receives the epoch, but does not change it.
    assert topic.joins("a", SHARED) == "epoch 7"


def test_epochs_overflow_like_a_long(topic: _Topic) -> None:
    assert topic.joins("a", EXCLUSIVE, 2**63 - 1) == f"epoch {2**63 - 1}"
    topic.left("a")
    assert topic.joins("a", EXCLUSIVE) == f"epoch {-(2**63)}"


@pytest.mark.parametrize(("claim", "outcome"), [(-2, "ProducerFenced"), (-1, "epoch -1")])
def test_the_epoch_before_the_first_is_minus_one(topic: _Topic, claim: int, outcome: str) -> None:
    assert topic.joins("a", EXCLUSIVE, claim) == outcome


def test_the_queue_is_served_in_order(topic: _Topic) -> None:
    topic.joins("a", EXCLUSIVE)
    assert [topic.joins(name, WAIT) for name in "bc"] == ["waits", "waits"]
    assert topic.left("a") == "b, epoch 1"
    assert topic.left("b") == "c, epoch 2"
    assert topic.left("c") == "nobody"
    assert topic.joins("d", SHARED) == "epoch 2"


def test_a_promoted_producer_sets_its_claimed_epoch(topic: _Topic) -> None:
    # As on 4.2.4, only claims that are granted at once are compared.
    topic.joins("a", EXCLUSIVE, 5)
    topic.joins("b", WAIT, 1)
    assert topic.left("a") == "b, epoch 1"


def test_a_waiting_producer_is_promoted_when_the_last_shared_one_leaves(topic: _Topic) -> None:
    topic.joins("a", SHARED)
    topic.joins("b", SHARED)
    topic.joins("c", WAIT)
    assert topic.left("a") == "nobody"
    assert topic.left("b") == "c, epoch 0"


def test_fencing_closes_producers_and_notifies_waiting_ones(topic: _Topic) -> None:
    topic.joins("a", EXCLUSIVE)
    held = topic.producers["a"]
    waiting = _Producer(topic, "b", WAIT, None)
    assert not topic.access.admit(waiting)  # type: ignore[arg-type]
    assert topic.joins("c", FENCING) == "epoch 1"
    assert held.closed
    assert held.refused is None
    assert waiting.refused is not None
    assert waiting.refused.code == pb.ProducerFenced
    assert list(topic.producers) == ["c"]
    assert topic.left("c") == "nobody"


def test_fencing_with_an_old_epoch_closes_producers_too(topic: _Topic) -> None:
    topic.joins("a", EXCLUSIVE, 5)
    assert topic.joins("b", FENCING, 4) == "ProducerFenced"
    assert not topic.producers
    assert topic.joins("c", SHARED) == "epoch 5"


def test_reset_empties_the_queue_and_keeps_the_epoch(topic: _Topic) -> None:
    topic.joins("a", EXCLUSIVE)
    topic.joins("b", WAIT)
    topic.producers.clear()
    topic.access.reset()
    assert topic.access.waiting == 0
    assert topic.joins("c", EXCLUSIVE) == "epoch 1"
