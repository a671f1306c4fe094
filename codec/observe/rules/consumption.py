"""How a consumer gets on: what it holds, what its client owes the broker in permits, and its longest stop.

Rules of this file
1. A client gives permits back when its application has taken the messages, half a queue or more at once (Java, C++, Go,
   Rust and Node all do). A listener that is paused gives none back, however much is acknowledged: that a FLOW fails to
   come is no leak yet. A FLOW that brings too little is.
2. A queue of one or none asks for each message singly: when the application asks for nothing, the client cannot.
3. A stop that ends by the end of the session has not been got over.
4. What a consumer that is there still has not done yet it may do behind the end of the capture.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pcli.codec.observe.rules.finding import Moment
from pcli.codec.observe.rules.wording import EDGES, at, span, when
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import Stretch

__all__ = [
    "FACTS",
    "STOP_NS",
    "Stop",
    "asks_singly",
    "attached",
    "counts_batches_as_one",
    "doubts_of",
    "held",
    "how_long",
    "leaks",
    "left",
    "seen_until",
    "stop_of",
    "waiting",
]

FACTS: Final = (
    "unacked", "never_acked", "received", "received_entries", "acked", "ack_ages", "sessions", "type",
    "subscription.backlog", "subscription.consumers",
)  # fmt: skip
"""What these functions read of a consumer, beside its permits and session."""

STOP_NS: Final = 1_000_000_000
"""From when on a consumer without permits has stopped: those at work return theirs within milliseconds."""


class Stop(NamedTuple):
    """A time during which nothing could come."""

    since_ns: int
    lasted_ns: int
    frame: int
    """The frame with which it began; 0: none."""
    over_frame: int
    """The frame that got it going again; 0: nothing did."""


def stop_of(stretch: Stretch, consumer: ConsumerRecord, moment: Moment) -> Stop | None:
    """The stop that lasts, or lasted when the session ended, or else the longest; None: there was none."""
    until = seen_until(consumer, moment)
    if stretch.since_ns >= 0:
        return Stop(stretch.since_ns, until - stretch.since_ns, stretch.since_frame, 0)
    if not stretch.count:
        return None
    began, ended = stretch.last_ns
    if not attached(consumer) and ended >= until and ended - began >= STOP_NS:
        return Stop(began, ended - began, stretch.since_frame, 0)
    return Stop(stretch.longest_from_ns, stretch.longest_ns, *stretch.longest_frames)


def how_long(stop: Stop, consumer: ConsumerRecord, moment: Moment) -> str:
    """``since frame 40, 6.0 s before the end``; of one that left ``from frame 40 until it left 5.0 s later``."""
    if attached(consumer) or consumer.session is None:
        return f"since {at(stop.frame)}, {when(moment, stop.since_ns)}"
    return f"from {at(stop.frame)} until {left(consumer)} {span(stop.lasted_ns)} later"


def left(consumer: ConsumerRecord) -> str:
    """How its session ended: ``it was closed (frame 99),``."""
    session = consumer.session
    if session is not None and session.end in ("closed", "broker"):
        return f"it was closed ({at(session.ended_frame)})"
    return "its connection ended"


def held(consumer: ConsumerRecord) -> int:
    """Messages that are with the consumer, not acknowledged; of Exclusive and Failover only known at the end."""
    return consumer.unacked or consumer.never_acked.count


def asks_singly(consumer: ConsumerRecord) -> bool:
    """Whether its queue is so small that it asks for every message anew."""
    return consumer.permits.queue <= 1


def counts_batches_as_one(consumer: ConsumerRecord) -> bool:
    """Whether its client gives back a permit for each entry, whatever is in it, for more than half of its queue."""
    permits = consumer.permits
    returned = permits.flowed - permits.queue
    entries, messages = consumer.received_entries, consumer.received
    if not permits.known or asks_singly(consumer) or not 0 < returned <= entries or entries * 2 > messages:
        return False
    done = min(consumer.acked, permits.delivered) if consumer.sessions == 1 else permits.delivered - held(consumer)
    return done - returned > (permits.queue + 1) // 2


def leaks(consumer: ConsumerRecord) -> bool:
    """Whether its client was seen to keep permits that it should have returned."""
    permits = consumer.permits
    lost = permits.corrupt.count - permits.corrupt_returned
    return lost > 0 or permits.short.count > 0 or counts_batches_as_one(consumer)


def waiting(consumer: ConsumerRecord) -> int | None:
    """Entries, at least, that wait in the subscription and that nobody attached has; None: that cannot be known."""
    subscription = consumer.subscription
    if subscription is None or subscription.backlog is None:
        return None
    return max(0, subscription.backlog - sum(map(_entries, filter(attached, subscription.consumers.values()))))


def _entries(consumer: ConsumerRecord) -> int:
    """Entries, at the most, that are with a consumer."""
    got = consumer.received_entries
    if held(consumer) or consumer.type in ("Shared", "Key_Shared"):
        return min(held(consumer), got)
    return got - consumer.ack_ages.count if consumer.sessions == 1 else got


def attached(consumer: ConsumerRecord) -> bool:
    """Whether it is there still, for all that was seen."""
    return consumer.session is not None and consumer.session.end in ("", "silence")


def doubts_of(consumer: ConsumerRecord) -> set[str]:
    """Why something that it should do may not have been seen: how it began does not matter."""
    return consumer.doubts - EDGES | ({"end"} if attached(consumer) else set())


def seen_until(consumer: ConsumerRecord, moment: Moment) -> int:
    """When its session ended, or else now."""
    session = consumer.session
    return moment.now_ns if session is None or attached(consumer) else session.ended_ns
