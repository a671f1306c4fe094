"""Phrases of the history of a consumer: its waits, its redeliveries, and its state."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.history.object_history import LONG_NS
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules.finding_text import at, count_of, span
from pcli.codec.observe.text_format import latency_text, printable
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, Session
from pcli.codec.observe.tracking.records.topic_records import AGAIN
from pcli.codec.observe.tracking.subscriptions.cursor_positions import LATEST
from pcli.codec.observe.tracking.subscriptions.subscription_state import INDIVIDUAL
from pcli.codec.wire.message_id import position

_NO_PERMITS: Final = (
    "it had received all messages that it had requested, and requested no more. Clients request more when the "
    "application takes messages from the queue."
)


def no_permits_text(record: ConsumerRecord, duration: str, *, first: bool) -> str:
    """Return the sentence about a time without permits. ``first`` states whether it began with the session."""
    if first:
        return f"Granted no permits after it subscribed, {duration}: without permits the broker sends nothing."
    subscription = record.subscription
    drops = subscription is not None and not subscription.topic.persistent
    dropped = " On a non-persistent topic the broker drops the messages of that time." if drops else ""
    return f"No permits {duration}: {_NO_PERMITS}{dropped}"


def blocked_text(record: ConsumerRecord) -> str:
    """Return why a consumer was blocked, as the end of a sentence."""
    held = count_of(record.blocked_at, "unacknowledged message")
    return f"it held {held}, apparently the limit, and the broker sent nothing more until messages are acknowledged."


def accepted_text(session: Session) -> str:
    """Return how the broker responded to SUBSCRIBE, as a sentence."""
    if session.ready_ns < 0:
        return "The capture contains no response."
    if not session.ready_frame:
        return "The response is not in the capture."
    return f"The broker accepted it {latency_text(session.ready_ns - session.began_ns)} later."


def redelivery_event(why: str, count: int, until: int) -> tuple[str, str]:
    """Return the kind and the text of redeliveries with this cause (a key of AGAIN), for `Bursts`."""
    ended = f", until {at(until)}" if until else ""
    return "redelivery", f"Received {count_of(count, 'redelivered message')}{ended}: {AGAIN.get(why, why)}."


def request_event(key: str, count: int, until: int) -> tuple[str, str]:
    """Return the kind and the text of requests for redelivery: of single ids, or ``all``."""
    ended = f", until {at(until)}" if until else ""
    what = "all its unacknowledged messages" if key == "all" else count_of(count, "message")
    return "redelivery request", f"Requested redelivery of {what}{ended}."


def discard_event(error: str, count: int, until: int) -> tuple[str, str]:
    """Return the kind and the text of messages that the client discarded with this error, for `Bursts`."""
    ended = f", until {at(until)}" if until else ""
    return "discarded", f"Discarded {count_of(count, 'message')}{ended} ({printable(error)})."


def seek_target(facts: Facts) -> str:
    """Return the position in a SEEK."""
    target = facts.frame.command.seek.message_id
    if not target.HasField("ledgerId"):
        return "a publish time"
    ledger, entry = position(target)
    return "the latest message" if ledger >= LATEST else "the first message" if ledger < 0 else f"{ledger}:{entry}"


def state_text(record: ConsumerRecord, now_ns: int, figures: dict[str, Any]) -> str:
    """Return the state of a consumer with its figures, and what it waits for."""
    session, total, again = record.session, figures["received"], figures["redelivered"]
    if session is None or session.end == "refused":
        return "Not attached: the broker refused it."
    if session.ready_ns < 0:
        return "Not attached: its SUBSCRIBE has no response."
    redelivered = f" ({again} of them redelivered)" if again else ""
    counts = f"received {count_of(total, 'message')}{redelivered}" if total else "received no message"
    if record.subscription is None or record.subscription.topic.persistent:
        counts += f", acknowledged {record.acked}"
    if not figures["attached"]:
        return f"Not attached. It {counts}, and left {record.never_acked.count or 'none'} unacknowledged."
    has = [_counted(figures["availablePermits"], "permit")]
    if record.type in INDIVIDUAL:
        has.insert(0, _counted(figures["unackedMessages"], "unacknowledged message"))
    return f"Attached. It {counts}, and has {' and '.join(has)}. {_waits_for(record, now_ns)}".rstrip()


def _counted(value: int | None, noun: str) -> str:
    return f"an unknown number of {noun}s" if value is None else count_of(value, noun)


def _waits_for(record: ConsumerRecord, now_ns: int) -> str:
    """Return what an attached consumer waits for, as a sentence."""
    if record.blocked.since_ns >= 0:
        return f"It waits for acknowledgements, for {span(now_ns - record.blocked.since_ns)} so far."
    exhausted = record.permits.exhausted
    if exhausted.since_ns >= 0:
        return f"Without permits the broker sends nothing, for {span(now_ns - exhausted.since_ns)} so far."
    if record.active is False:
        return f"It is on standby, for {span(now_ns - record.active_ns)} so far: another consumer is active."
    if record.silent.since_ns >= 0:
        return f"It waits for the broker, for {span(now_ns - record.silent.since_ns)} so far."
    behind = record.behind_transaction
    if behind.since_ns >= 0:
        return f"It waits for the end of transaction {record.transaction}, for {span(now_ns - behind.since_ns)} so far."
    subscription = record.subscription
    since = max(record.last_message_ns, record.session.ready_ns if record.session is not None else -1)
    if subscription is not None and subscription.backlog == 0 and now_ns - since >= LONG_NS:
        return f"It waits for new messages, for {span(now_ns - since)} so far: the backlog is empty."
    return ""
