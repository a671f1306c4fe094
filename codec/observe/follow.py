"""The frames of one conversation: a connection, a consumer, a producer, a message, a request, or a scalable topic.

The producers and consumers of a V5 client on the segments of a scalable topic belong to its producer or consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pcli.codec.observe.fields.field_table import find_field
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.scalable.segment_name import name_without_segment, scalable_topic, selected_topic
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.message_id import MessageId

Belongs = Callable[[Facts], bool]
"""Function that returns whether a frame belongs to the conversation."""


def of_consumer(name: str) -> Belongs:
    """Match frames of consumers with this name on any connection, and the responses to their requests."""
    return lambda facts: _named(facts, Consumer, name)


def of_producer(name: str) -> Belongs:
    """Match frames of producers with this name on any connection, and the responses to their requests."""
    return lambda facts: _named(facts, Producer, name)


def _named(facts: Facts, kind: type[Consumer | Producer], name: str) -> bool:
    peer = facts.peer
    if peer is None and facts.request is not None:
        peer = facts.request.peer
    return isinstance(peer, kind) and name in (peer.name, name_without_segment(peer.name, peer.topic))


def of_scalable_topic(name: str) -> Belongs:
    """Match the history of a scalable topic: new layouts, assignments, and clients of segments that open and close.

    The function must be called with all frames in order, because it omits layouts that sessions have received before.
    """
    topic = selected_topic(name)
    layouts: set[tuple[int, int]] = set()

    def belongs(facts: Facts) -> bool:
        request = facts.request
        kind = facts.frame.type if request is None else request.type
        if kind not in _HISTORY or topic not in _topics_of(facts):
            return False
        if facts.frame.type != _UPDATE:
            return True
        if facts.layout is None:
            return False
        place = facts.layout.after.order
        new = place not in layouts  # each session receives the layout, often several times
        layouts.add(place)
        return new

    return belongs


def _topics_of(facts: Facts) -> Iterator[str]:
    """Return the scalable topics that a frame, or the request that it answers, names."""
    if facts.layout is not None:
        yield facts.layout.topic
    for peer in (facts.peer, None if facts.request is None else facts.request.peer):
        if peer is not None:
            yield scalable_topic(peer.topic)


_UPDATE: Final = BY_NAME["SCALABLE_TOPIC_UPDATE"].number

_HISTORY: Final = frozenset(
    BY_NAME[name].number
    for name in (
        "SCALABLE_TOPIC_LOOKUP",
        "SCALABLE_TOPIC_UPDATE",
        "SCALABLE_TOPIC_SUBSCRIBE",
        "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE",
        "SCALABLE_TOPIC_ASSIGNMENT_UPDATE",
        "SCALABLE_TOPIC_UNSUBSCRIBE",
        "PRODUCER",
        "SUBSCRIBE",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
        "REACHED_END_OF_TOPIC",
    )
)
"""The commands in the history of a scalable topic. Their responses belong to it too."""


def of_request(number: int) -> Belongs:
    """Match a request with this id, and its response."""
    get = find_field("pulsar.request_id").get
    return lambda facts: get(facts) == number


def about_message(recording: Iterable[Facts], wanted: MessageId) -> frozenset[int]:
    """Return the numbers of the frames that send, store, deliver, acknowledge or redeliver a message.

    A SEND contains no message id and is found through its receipt. An id without partition or batch index matches any
    partition or batch index. Only the first cumulative acknowledgement of a consumer that covers the message is
    included.
    """
    get = find_field("pulsar.message_id").get
    cumulative = find_field("pulsar.ack.ack_type").get
    found: set[int] = set()
    holders: set[tuple[int, int | None]] = set()
    for facts in recording:
        ids = [MessageId.parse(one) for one in _listed(get(facts))]
        owner = (facts.frame.stream.number, facts.peer.id if facts.peer is not None else None)
        same = any(_same(one, wanted) for one in ids)
        if same and facts.frame.type == _MESSAGE:
            holders.add(owner)
        reached = any((one.ledger, one.entry) >= (wanted.ledger, wanted.entry) for one in ids)
        covered = owner in holders and reached and cumulative(facts) == "Cumulative"
        if covered:
            holders.discard(owner)
        if same or covered:
            found.add(facts.frame.number)
            if facts.request_number:
                found.add(facts.request_number)
    return frozenset(found)


_MESSAGE: Final = BY_NAME["MESSAGE"].number


def _listed(value: object) -> list[str]:
    if value is None:
        return []
    return value if isinstance(value, list) else [str(value)]


def _same(one: MessageId, wanted: MessageId) -> bool:
    return (
        (one.ledger, one.entry) == (wanted.ledger, wanted.entry)
        and wanted.partition in (-1, one.partition)
        and (wanted.batch == -1 or one.batch in (-1, wanted.batch))
    )
