"""The state of a consumer: the messages held, the permits that the client has not returned, and the longest stop.

Rules of this file
1. A client returns permits after its application has taken the messages, and collects them for at least half a queue
   (Java, C++, Go, Rust and Node). A paused listener returns no permits, even if all messages are acknowledged.
   Therefore a missing FLOW alone is not a leak, but a FLOW with too few permits is a leak.
2. If the queue size is one or zero, the client requests each message separately, when the application calls receive.
3. A stop that lasts until the end of the session counts as not ended.
4. An attached consumer may act after the end of the capture.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pcli.codec.observe.rules.finding import EDGES, Moment
from pcli.codec.observe.rules.finding_text import at, span, when
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import StateDuration

FACTS: Final = (
    "unacked", "never_acked", "received", "received_entries", "acked", "ack_ages", "sessions", "type",
    "subscription.backlog", "subscription.backlog_least", "subscription.consumers",
)  # fmt: skip
"""The fields of a consumer that these functions read, besides its permits and session."""

STOP_NS: Final = 1_000_000_000
"""Minimum time without permits that counts as a stop. Working consumers return permits within milliseconds."""


class Stop(NamedTuple):
    """An interval during which no message could be delivered."""

    since_ns: int
    lasted_ns: int
    frame: int
    """The frame with which the stop began; 0 if unknown."""
    over_frame: int
    """The frame that ended the stop; 0 if it has not ended."""

    @property
    def until_ns(self) -> int:
        """Time at which the stop ended; 0 if it has not ended."""
        return self.since_ns + self.lasted_ns if self.over_frame else 0


def stop_of(duration: StateDuration, consumer: ConsumerRecord, moment: Moment, least_ns: int = STOP_NS) -> Stop | None:
    """Return the current stop, the stop at the end of the session, or the longest stop; None if there was none.

    ``least_ns`` is the minimum duration of a stop at the end of the session.
    """
    until = seen_until(consumer, moment)
    if duration.since_ns >= 0:
        return Stop(duration.since_ns, until - duration.since_ns, duration.since_frame, 0)
    if not duration.count:
        return None
    began, ended = duration.last_ns
    if not attached(consumer) and ended >= until and ended - began >= least_ns:
        return Stop(began, ended - began, duration.since_frame, 0)
    return Stop(duration.longest_from_ns, duration.longest_ns, *duration.longest_frames)


def how_long(stop: Stop, consumer: ConsumerRecord, moment: Moment) -> str:
    """Return ``since frame 40, 6.0 s before the end``, or ``from frame 40 until the consumer was closed … later``."""
    if attached(consumer) or consumer.session is None:
        return f"since {at(stop.frame)}, {when(moment, stop.since_ns)}"
    return f"from {at(stop.frame)} until {left(consumer)} {span(stop.lasted_ns)} later"


def left(consumer: ConsumerRecord) -> str:
    """Return how the consumer's session ended: ``the consumer was closed (frame 99)``."""
    session = consumer.session
    if session is not None and session.end in ("closed", "broker"):
        return f"the consumer was closed ({at(session.ended_frame)})"
    return "the connection ended"


def held(consumer: ConsumerRecord) -> int:
    """Return the number of unacknowledged messages held; for Exclusive and Failover it is known only at the end."""
    return consumer.unacked or consumer.never_acked.count


def requests_single_messages(consumer: ConsumerRecord) -> bool:
    """Return whether the consumer's queue is so small that it requests every message separately."""
    return consumer.permits.queue <= 1


def counts_batches_as_one(consumer: ConsumerRecord) -> bool:
    """Return whether the client returned one permit per entry, not per message, for more than half of the queue."""
    permits = consumer.permits
    returned = permits.flowed - permits.queue
    entries, messages = consumer.received_entries, consumer.received
    if not permits.known or requests_single_messages(consumer) or not 0 < returned <= entries or entries * 2 > messages:
        return False
    done = min(consumer.acked, permits.delivered) if consumer.sessions == 1 else permits.delivered - held(consumer)
    return done - returned > (permits.queue + 1) // 2


def leaks(consumer: ConsumerRecord) -> bool:
    """Return whether the consumer's client failed to return permits."""
    permits = consumer.permits
    lost = permits.corrupt.count - permits.corrupt_returned
    return lost > 0 or permits.short.count > 0 or counts_batches_as_one(consumer)


def waiting(consumer: ConsumerRecord) -> int | None:
    """Return the minimum number of backlog entries that no attached consumer holds; None if unknown.

    If the backlog is unknown, the result is at least 1.
    """
    subscription = consumer.subscription
    if subscription is None:
        return None
    backlog = subscription.backlog_least if subscription.backlog is None else subscription.backlog
    left = max(0, backlog - sum(map(_entries, filter(attached, subscription.consumers.values()))))
    return left if left or subscription.backlog is not None else None


def _entries(consumer: ConsumerRecord) -> int:
    """Return the maximum number of entries that a consumer holds."""
    got = consumer.received_entries
    if held(consumer) or consumer.type in ("Shared", "Key_Shared"):
        return min(held(consumer), got)
    return got - consumer.ack_ages.count if consumer.sessions == 1 else got


def attached(consumer: ConsumerRecord) -> bool:
    """Return whether the consumer is still attached, according to the capture."""
    return consumer.session is not None and consumer.session.end in ("", "silence")


def doubts_of(consumer: ConsumerRecord) -> set[str]:
    """Return the reasons why the capture may lack later actions of the consumer. A missing start is not included."""
    return consumer.doubts - EDGES | ({"end"} if attached(consumer) else set())


def seen_until(consumer: ConsumerRecord, moment: Moment) -> int:
    """Return the time at which the consumer's session ended or, if it has not ended, the current time."""
    session = consumer.session
    return moment.now_ns if session is None or attached(consumer) else session.ended_ns
