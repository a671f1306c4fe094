"""Which frames belong to one conversation: a connection, a consumer, a producer, a message, a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pcli.codec.observe.fields import find_field
from pcli.codec.observe.state import Consumer, Facts, Producer
from pcli.codec.wire.message_id import MessageId

__all__ = ["about_message", "of_consumer", "of_producer", "of_request"]

Belongs = Callable[[Facts], bool]
"""Whether a frame belongs to the conversation."""


def of_consumer(name: str) -> Belongs:
    """Frames to and from consumers of this name, on any connection, with the answers to their requests."""
    return lambda facts: _named(facts, Consumer, name)


def of_producer(name: str) -> Belongs:
    """Frames to and from producers of this name, on any connection, with the answers to their requests."""
    return lambda facts: _named(facts, Producer, name)


def _named(facts: Facts, kind: type[Consumer | Producer], name: str) -> bool:
    peer = facts.peer
    if peer is None and facts.request is not None:
        peer = facts.request.peer
    return isinstance(peer, kind) and peer.name == name


def of_request(number: int) -> Belongs:
    """A request with this id, and its answer."""
    get = find_field("pulsar.request_id").get
    return lambda facts: get(facts) == number


def about_message(recording: Iterable[Facts], wanted: MessageId) -> frozenset[int]:
    """The numbers of the frames in which a message was sent, receipted, delivered, acknowledged, asked for again.

    A SEND does not know its id yet: it is found by its receipt. An id without partition or batch index means the
    message whatever they are. A cumulative acknowledgement of a later message is not among them.
    """
    get = find_field("pulsar.message_id").get
    found: set[int] = set()
    for facts in recording:
        ids = get(facts)
        if ids is not None and any(_same(MessageId.parse(one), wanted) for one in _listed(ids)):
            found.add(facts.frame.number)
            if facts.request_number:
                found.add(facts.request_number)
    return frozenset(found)


def _listed(value: object) -> list[str]:
    return value if isinstance(value, list) else [str(value)]


def _same(one: MessageId, wanted: MessageId) -> bool:
    return (
        (one.ledger, one.entry) == (wanted.ledger, wanted.entry)
        and wanted.partition in (-1, one.partition)
        and (wanted.batch == -1 or one.batch in (-1, wanted.batch))
    )
