"""Messages that a V5 client sends again on the children of a segment that was sealed.

Rules of this file
1. When a segment is sealed, the broker closes its producers. SENDs without a receipt are refused with SEND_ERROR or
   have no response. The client routes these messages again, as the first messages of the children, with new sequence
   ids, and possibly in other batches.
2. Messages are compared by a digest of key and payload. Equal messages are matched in their order. If the first SEND
   was stored after all, the topic contains the message twice.
3. They are on the same connection, or on another connection of the same host after the first one ended: a V5 client
   5.0.1 closes its connection if its PRODUCER for the sealed segment is refused. The application's name of the
   producer, if it has one, is the same then.
4. Memory is bounded: only the last MAX_OPEN SENDs per connection and scalable topic that have no receipt are kept, and
   MAX_LOST messages of connections that ended, until no such SEND is younger than LOST_NS.

Source: traffic of a V5 client 5.0.1 at splits and merges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pcli.codec.observe.observer_state import Facts, Producer
from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.scalable_records import SegmentRecord
from pcli.codec.scalable.segment_name import name_without_segment

if TYPE_CHECKING:
    from pcli.codec.payload.entry import Entry

MAX_OPEN: Final = 1_000
"""Maximum number of SENDs per connection and scalable topic that wait for a receipt."""

MAX_LOST: Final = 10_000
"""Maximum number of different messages of connections that ended."""

LOST_NS: Final = 60_000_000_000
"""How long messages of connections that ended are kept."""

_DIGEST: Final = 8
"""Size of a digest in bytes."""

_Key = TypeVar("_Key")

_Place = tuple[int, str, str]
"""Connection, host of the client, and scalable topic."""


class _Sent(NamedTuple):
    number: int
    """Frame of the SEND."""
    time_ns: int
    content: bytes | Facts
    """The digests in a frame without its payload, which are kept with a state; the whole frame otherwise."""
    lifecycle: Lifecycle
    record: ProducerRecord

    @property
    def stored(self) -> bool:
        return self.lifecycle.receipt_ns >= 0 and not self.lifecycle.error

    def move(self, lifecycle: Lifecycle) -> None:
        """Count a message that was sent again to another segment, and add this SEND to its later lifecycle."""
        lifecycle.add_earlier(self.lifecycle)
        self.lifecycle.moved += 1
        if self.lifecycle.topic is not None:
            counts = self.lifecycle.topic.messages
            counts.moved += 1
            counts.moved_refused += bool(self.lifecycle.error)
            counts.moved_stored += self.stored


class SegmentResends:
    """The SENDs to segments that have no receipt, and their messages that are sent again."""

    def __init__(self) -> None:
        self._recent: dict[_Place, deque[_Sent]] = {}
        self._failed: dict[_Place, dict[bytes, deque[_Sent]]] = {}
        """SENDs to closed segments, by the digest of each of their messages."""
        self._lost: dict[tuple[str, str, str, bytes], deque[_Sent]] = {}
        """Those of connections that ended, by host, scalable topic, producer of the application, and digest."""
        self._lost_ns = 0
        """Time of the youngest of these SENDs."""

    def sent(self, facts: Facts, lifecycle: Lifecycle) -> None:
        """Process a SEND to a segment."""
        segment, record = lifecycle.topic.segment if lifecycle.topic is not None else None, lifecycle.producer
        if segment is None or record is None:
            return
        place = _place(facts, segment)
        sent = _Sent(facts.frame.number, facts.frame.time_ns, _content(facts), lifecycle, record)
        if record.session is not None and record.session.end == "broker":
            self._fail(place, sent)  # the broker ignores SENDs of a closed producer
            return
        self._match(sent, place)
        recent = self._recent.setdefault(place, deque(maxlen=MAX_OPEN))
        while recent and recent[0].stored:
            recent.popleft()
        recent.append(sent)

    def _match(self, sent: _Sent, place: _Place) -> None:
        """Find the messages of a SEND that repeat messages of other, closed segments.

        After an unload, a producer opens the same segment and sends its messages again.
        """
        if sent.time_ns - self._lost_ns > LOST_NS:
            self._lost.clear()
        failed = self._failed.get(place, {})
        for digest in _digests(sent.content) if failed or self._lost else ():
            old = _take(failed, digest) or _take(self._lost, _lost_key(place, sent, digest))
            if old is not None and old.lifecycle.topic is not sent.lifecycle.topic:
                counter = old.record.stored_on_child if old.stored else old.record.sent_on_child
                counter.add(sent.time_ns, old.number, sent.number)
                old.move(sent.lifecycle)

    def _fail(self, place: _Place, sent: _Sent) -> None:
        failed = self._failed.setdefault(place, {})
        for digest in _digests(sent.content):
            failed.setdefault(digest, deque(maxlen=MAX_OPEN)).append(sent)
        while len(failed) > MAX_OPEN:
            del failed[next(iter(failed))]

    def closed(self, facts: Facts) -> None:
        """Process a CLOSE_PRODUCER of the broker, or a SEND_ERROR: the open SENDs to the segment have failed."""
        peer = facts.peer
        session = peer.record if isinstance(peer, Producer) else None
        topic = session.topic if isinstance(session, ProducerSession) else None
        if facts.frame.from_client or topic is None or topic.segment is None:
            return
        place = _place(facts, topic.segment)
        left: deque[_Sent] = deque(maxlen=MAX_OPEN)
        for sent in self._recent.pop(place, ()):
            if sent.lifecycle.topic is not topic:
                left.append(sent)
            elif not sent.stored:
                self._fail(place, sent)
        if left:
            self._recent[place] = left

    def end(self, stream: int) -> None:
        """Process the end of a connection."""
        for place in [place for place in self._recent if place[0] == stream]:
            del self._recent[place]
        for place in [place for place in self._failed if place[0] == stream]:
            for digest, waiting in self._failed.pop(place).items():
                for sent in waiting:
                    lost = self._lost.setdefault(_lost_key(place, sent, digest), deque(maxlen=MAX_OPEN))
                    lost.append(sent)
                    self._lost_ns = max(self._lost_ns, sent.time_ns)
        while len(self._lost) > MAX_LOST:
            del self._lost[next(iter(self._lost))]


def _take(kept: dict[_Key, deque[_Sent]], key: _Key) -> _Sent | None:
    """Remove and return the oldest SEND with a key."""
    waiting = kept.get(key)
    if waiting is None:
        return None
    found = waiting.popleft()
    if not waiting:
        del kept[key]
    return found


def _place(facts: Facts, segment: SegmentRecord) -> _Place:
    stream = facts.frame.stream
    return stream.number, stream.client[0], segment.topic.name


def _lost_key(place: _Place, sent: _Sent, digest: bytes) -> tuple[str, str, str, bytes]:
    name = name_without_segment(sent.record.name, sent.record.topic)
    return (*place[1:], "" if name == sent.record.name else name, digest)


def _content(facts: Facts) -> bytes | Facts:
    """Return the digests of a frame without its payload (`HeadFrame`), or the whole frame."""
    kept: bytes | None = getattr(facts.frame, "digests", None)
    return facts if kept is None else kept


def _digests(content: bytes | Facts) -> Iterable[bytes]:
    """Return the digest of each message in a SEND."""
    if isinstance(content, bytes):
        return (content[start : start + _DIGEST] for start in range(0, len(content), _DIGEST))
    return () if content.opened is None else digests_of(content.opened)


def digests_of(entry: Entry) -> Iterator[bytes]:
    """Yield a digest of key and payload of each message in an entry."""
    for message in entry.messages:
        yield blake2b((message.key or "").encode() + b"\0" + message.payload, digest_size=_DIGEST).digest()
