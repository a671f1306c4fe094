"""The matching of live responses to captured responses.

Rules of this file
1. Responses are matched by their request: by the request id on the connection, or by producer id and sequence id.
   Unrequested frames are matched in order by command and by producer or consumer.
2. A MESSAGE is matched by its entry (metadata and payload) and its consumer. Among several deliveries of an entry, a
   delivery with the same redelivery count is preferred, then the first delivery. On a Shared subscription, a delivery
   to a different consumer matches equally well; on a Key_Shared subscription it is the second choice. In both cases the
   consumer is reported as a difference.
3. A layout or an assignment of segments is matched by its segments, because the number of layouts before the last one
   and their repetitions depend on timing. If no captured layout or assignment has the segments, it is not matched.
   The first layout after the election of a controller is matched with the captured one.
4. PING and PONG are not matched, because they depend only on timing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS, name_of
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import Frame
from pcli.replay.player.script.recorded_exchanges import without_highest
from pcli.replay.player.script.script import Step
from pcli.replay.player.segment_translation import LIVE_ONLY

KEEP_ALIVE: Final = frozenset(BY_NAME[name].number for name in ("PING", "PONG"))

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_UNREQUESTED: Final = frozenset(
    BY_NAME[name].number
    for name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "ACTIVE_CONSUMER_CHANGE", "REACHED_END_OF_TOPIC", "TOPIC_MIGRATED")
)
_SCALABLE: Final = frozenset(
    BY_NAME[name].number
    for name in ("SCALABLE_TOPIC_UPDATE", "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", "WATCH_SCALABLE_TOPICS_UPDATE")
)
_RECEIPTS: Final = frozenset(BY_NAME[name].number for name in ("SEND_RECEIPT", "SEND_ERROR"))
_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECTED", "AUTH_CHALLENGE", "ERROR"))
_SPREADING: Final = ("Shared", "Key_Shared")


class Pair:
    """A captured response and the matching live response. One of the two may be missing."""

    __slots__ = ("consumer", "frame", "last_sent", "order", "step", "stream")

    def __init__(
        self, step: Step | None, stream: int, frame: Frame | None, last_sent: int, order: int, consumer: Consumer | None
    ) -> None:
        self.step = step
        """The captured response; None if only the live broker sent a response."""
        self.stream = stream
        """The connection on which the live response arrived."""
        self.frame = frame
        """The live response; None for the end of a connection or if no response arrived."""
        self.last_sent = last_sent
        """The index of the last step that was sent before the live response arrived."""
        self.order = order
        """The number of the live response, counted from 0; -1 if no response arrived."""
        self.consumer = consumer
        """The receiver of a live MESSAGE."""


class ResponseMatcher:
    """The captured responses, and the live responses matched to them so far."""

    def __init__(self, last_sent: Iterable[Step]) -> None:
        """``last_sent`` contains the steps of both sides. The broker's steps are expected."""
        steps = list(last_sent)
        self.without_highest_id = without_highest(steps)
        """Receipts whose highest sequence id is undefined."""
        self._open: dict[Hashable, list[Step]] = defaultdict(list)
        self._first: list[Step] = []
        """All captured responses in order. ``_at`` is the index of the first response that may still be awaited."""
        self._at = 0
        self.done_indexes: set[int] = set()
        """Indexes of captured responses that arrived or are no longer awaited."""
        self.pairs: list[Pair] = []
        for step in steps:
            if not step.from_client and step.type not in KEEP_ALIVE:
                self._first.append(step)
                for key in _keys_of(step):
                    if step.layout is not None and any(_alike(step, other.frame) for other in self._open[key]):
                        self.done_indexes.add(step.index)  # a repeated layout is matched, but not awaited
                    self._open[key].append(step)

    # -- live responses --------------------------------------------------------------------------------------------

    def take(self, stream: int, frame: Frame, content: bytes, consumer: Consumer | None, last_sent: int) -> Pair:
        """Match a live response and return the pair."""
        if frame.type == _MESSAGE:
            step = self._delivery(stream, frame, content, consumer)
        else:
            step = self._first_open(key_of(stream, frame), frame)
        return self._pair(step, stream, frame, last_sent, consumer)

    def end(self, stream: int, last_sent: int) -> Pair:
        """Process the end of a connection that the live broker closed. Its responses are no longer awaited."""
        self.done_indexes.update(step.index for step in self._first if step.stream == stream)
        return self._pair(self._first_open((stream, "end")), stream, None, last_sent, None)

    def _pair(
        self, step: Step | None, stream: int, frame: Frame | None, last_sent: int, consumer: Consumer | None
    ) -> Pair:
        pair = Pair(step, stream, frame, last_sent, len(self.pairs), consumer)
        self.pairs.append(pair)
        if step is not None:
            self.done_indexes.add(step.index)
            self._permits_used(step)
        return pair

    def _first_open(self, key: Hashable, frame: Frame | None = None) -> Step | None:
        """Return the first step with a key, or None. A layout must match ``frame``, unless it responds to a lookup."""
        for step in self._open.get(key, ()):
            if step.layout is None or step.request is not None or _alike(step, frame):
                return step
        return None

    def _permits_used(self, step: Step) -> None:
        for key in _keys_of(step):
            self._open[key].remove(step)

    def _delivery(self, stream: int, frame: Frame, content: bytes, consumer: Consumer | None) -> Step | None:
        found = list(self._open.get((stream, frame.command.message.consumer_id, content), ()))
        if consumer is not None and consumer.type in _SPREADING:
            found += [
                step
                for step in self._open.get((consumer.topic, consumer.subscription, content), ())
                if step not in found
            ]
        return min(found, key=_match_rank(stream, frame.command.message, consumer), default=None)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def missing_before(self, index: int) -> Step | None:
        """Return the first captured response before this index that is still awaited, or None."""
        first, done_indexes = self._first, self.done_indexes
        while self._at < len(first) and first[self._at].index in done_indexes:
            self._at += 1
        if self._at < len(first) and first[self._at].index < index:
            return first[self._at]
        return None

    def stop_waiting(self, index: int) -> None:
        """Stop waiting for the responses before this index. They may still arrive."""
        for step in self._first[self._at :]:
            if step.index >= index:
                break
            self.done_indexes.add(step.index)

    def missing(self) -> list[Step]:
        """Return the captured responses that never arrived."""
        arrived = {pair.step.index for pair in self.pairs if pair.step is not None}
        return [step for step in self._first if step.index not in arrived]


def _match_rank(
    stream: int, message: pb.CommandMessage, consumer: Consumer | None
) -> Callable[[Step], tuple[bool, bool, int]]:
    shared = consumer is not None and consumer.type == "Shared"

    def rank(step: Step) -> tuple[bool, bool, int]:
        assert step.frame is not None
        counted = step.frame.command.message.redelivery_count == message.redelivery_count
        other = step.stream != stream or step.peer is not consumer
        return (other and not shared, not counted, step.index)

    return rank


def _keys_of(step: Step) -> list[Hashable]:
    """Return the keys under which a captured response is indexed."""
    frame = step.frame
    if frame is None:
        return [(step.stream, "end")]
    if frame.type != _MESSAGE:
        return [key_of(step.stream, frame)]
    keys: list[Hashable] = [(step.stream, frame.command.message.consumer_id, step.content)]
    if isinstance(step.peer, Consumer) and step.peer.type in _SPREADING:
        keys.append((step.peer.topic, step.peer.subscription, step.content))
    return keys


def key_of(stream: int, frame: Frame) -> Hashable:
    """Return the key that a live response and its captured counterpart have in common."""
    row = COMMANDS.get(frame.type)
    if row is None:
        return stream, name_of(frame.type)
    body = frame.body
    if frame.type in _UNREQUESTED:
        active = getattr(body, "is_active", None)
        return stream, row.name, getattr(body, "consumer_id", -1), getattr(body, "producer_id", -1), active
    if frame.type in _RECEIPTS:
        return stream, "send", body.producer_id, body.sequence_id
    if frame.type in _SCALABLE:
        return stream, row.name, *_content_of(body)
    request_id = getattr(body, "request_id", MINUS_ONE)
    if request_id != MINUS_ONE:
        return stream, "request", request_id
    return stream, "login" if frame.type in _LOGIN else row.name


def _content_of(body: Any) -> Iterator[Hashable]:
    """Yield what distinguishes a layout, an assignment or a list of topics from the others of its receiver."""
    if isinstance(body, pb.CommandScalableTopicUpdate):
        known = [one for one in body.dag.segments if one.segment_id < LIVE_ONLY]
        active = frozenset(one.segment_id for one in known if one.state == pb.ACTIVE)
        yield from (body.session_id, body.HasField("error"), active, len(known))
    elif isinstance(body, pb.CommandScalableTopicAssignmentUpdate):
        yield from (body.consumer_id, body.assignment.layout_epoch)
        for one in sorted(body.assignment.segments, key=lambda one: one.segment_id):
            if one.segment_id < LIVE_ONLY:
                buckets = tuple((bucket.start, bucket.end) for bucket in one.bucket_ranges)
                yield one.segment_id, one.hash_start, one.hash_end, buckets
    else:
        names = (body.snapshot.topics, body.diff.added, body.diff.removed)
        yield from (body.watch_id, body.HasField("snapshot"), *map(frozenset, names))


def has_controller(frame: Frame | None) -> bool:
    """Return whether a layout contains a controller."""
    return frame is not None and frame.command.scalableTopicUpdate.dag.HasField("controller_broker_url")


def _alike(step: Step, frame: Frame | None) -> bool:
    """Return whether both or none of two layouts contain a controller."""
    return has_controller(step.frame) == has_controller(frame)
