"""The history of a consumer: sessions, permits, unacknowledged messages, and what it waited for.

Rules of this file
1. The record is compared with its previous state after each frame that concerns the consumer. Periods that the tracker
   infers later (blocked, silent) are added when they end, or at the end of the history.
2. A time without messages is explained by the state that covers at least half of it. If none does, the next message
   shows whether a message was available before.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.history.consumer_text import (
    accepted_text,
    blocked_text,
    discard_event,
    no_permits_text,
    redelivery_event,
    request_event,
    seek_target,
    state_text,
)
from pcli.codec.observe.history.event_log import Bursts, Event, Log
from pcli.codec.observe.history.object_history import (
    LONG_NS,
    Counter,
    ObjectHistory,
    State,
    because,
    end_kind,
    end_text,
    lasted,
    period_event,
)
from pcli.codec.observe.history.object_names import consumer_name
from pcli.codec.observe.history.period_reader import Period, PeriodReader
from pcli.codec.observe.observer_state import Consumer, Facts
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import about_consumer, at, count_of, span
from pcli.codec.observe.text_format import latency_text, printable
from pcli.codec.observe.tracking.records.client_records import Session
from pcli.codec.observe.tracking.records.counters import StateDuration
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.statistics.broker_statistics import consumer_figures
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.message_id import position

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_SEEK: Final = BY_NAME["SEEK"].number

_NEVER: Final = (-1, 0)
"""Time and frame of an event that has not occurred."""

_MANY: Final = 100
"""Maximum number of connections of a consumer that are kept."""


class ConsumerHistory(ObjectHistory):
    """The history of one consumer."""

    kind = "consumer"

    def __init__(self, attached: AttachedConsumer, log: Log) -> None:
        super().__init__(log)
        self.record = attached.record
        self._attached = attached
        self._session: Session | None = None
        self._opened = self._ended = True
        self._granted = self._received = False
        self._redeliveries = 0
        self._earlier_messages = 0
        self._last_message = _NEVER
        self._earlier_end_ns = -1
        self._streams: dict[int, tuple[str, tuple[str, int]]] = {}
        self._exhausted, self._blocked, self._silent = PeriodReader(), PeriodReader(), PeriodReader()
        self._behind = PeriodReader()
        self._covered: list[Period] = []
        self._active_frame = self.record.active_frame
        self._standby_since = _NEVER
        self._refused = Counter(lambda: sum(one.count for one in self.record.refused.values()))
        self._requests = Counter(lambda: self.record.asked_again.count + self.record.asked_all.count)
        self._ack_errors = Counter(lambda: sum(one.count for one in self.record.acks_failed.values()))
        self._discarded = Counter(lambda: sum(one.count for one in self.record.validation.values()))
        self._redelivered = Bursts(log, redelivery_event)
        self._requested = Bursts(log, request_event)
        self._discards = Bursts(log, discard_event)

    @property
    def session(self) -> Session | None:
        """The last session."""
        return self.record.session

    @property
    def name(self) -> str:
        """The consumer's name after topic and subscription."""
        record = self.record
        session = record.session
        number = f"{session.stream}#{session.id}" if session is not None else ""
        return consumer_name(record.topic, record.subscription_name, record.name or number)

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return self.record.topic

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self.record.subscription_name

    def title(self) -> str:
        """Return the consumer with its subscription, type and connection."""
        record = self.record
        session = record.session
        kind = f", {record.type}" if record.type else ""
        stream = f", connection {session.stream} (tcp.stream)" if session is not None else ""
        return f"{about_consumer(record)}{kind}{stream}"

    # -- frames

    def see(self, facts: Facts) -> None:
        """Process a frame of the consumer."""
        frame, peer = facts.frame, facts.peer
        if isinstance(peer, Consumer) and isinstance(peer.record, AttachedConsumer):
            self._attached = peer.record
        stream = frame.stream
        if stream.number not in self._streams and len(self._streams) < _MANY:
            self._streams[stream.number] = (stream.client[0], stream.server)
        self._update(frame.time_ns, frame.number)
        if frame.type == _MESSAGE:
            self._message(facts)
        elif frame.type == _SEEK:
            text = f"Moved the cursor of the subscription with SEEK to {seek_target(facts)}."
            self.log.add(Event("seek", frame.time_ns, frame.number, text))

    def settle(self, time_ns: int) -> None:
        """Record the end of a session that has no frame."""
        self._update(time_ns, 0)

    def _update(self, time_ns: int, frame: int) -> None:
        record, session = self.record, self.record.session
        if session is not self._session:
            self._check_end()
            self._begin(session)
        self._check_open()
        self._check_permits(frame)
        self._check_periods(frame)
        self._check_requests(time_ns, frame)
        if record.active_frame != self._active_frame:
            self._check_active()
        self._check_end()

    # -- sessions

    def _begin(self, session: Session | None) -> None:
        if self._session is not None and self._session.ended_ns >= 0:
            self._earlier_end_ns = self._session.ended_ns
        self._session = session
        self._opened = self._ended = session is None
        self._covered.clear()
        self._standby_since = _NEVER
        self._last_message = _NEVER

    def _check_open(self) -> None:
        session, record = self._session, self.record
        if self._opened or session is None or (session.ready_ns < 0 and not session.end):
            return
        self._opened = True
        if session.end == "refused":
            return
        settings = [record.type, f"from {record.initial_position}" if record.initial_position else ""]
        settings += ["without a durable cursor" if not record.durable else ""]
        again = ""
        if self._earlier_end_ns >= 0 and session.number:
            again = f" again, {span(session.began_ns - self._earlier_end_ns)} after its previous session ended"
        if not session.number:
            text = "Its SUBSCRIBE is not in the capture."
        else:
            text = f"Subscribed{again} ({', '.join(filter(None, settings))}). {accepted_text(session)}"
        took_ns = session.ready_ns - session.began_ns
        size = took_ns if session.ready_ns >= 0 and took_ns >= LONG_NS else 0
        self.log.add(Event("opened", session.began_ns, session.number, text, size=size))

    def _check_end(self) -> None:
        session, record = self._session, self.record
        if self._ended or session is None or not session.end or session.end == "silence":
            return
        self._check_open()
        self._end_standby(session.ended_ns, session.ended_frame)
        self._ended = True
        self._earlier_messages += record.received
        time_ns, frame = session.ended_ns, session.ended_frame
        if session.end == "refused":
            error, seen = list(record.refused.items())[-1]
            text = f"The broker refused SUBSCRIBE with {printable(error)}{because(seen.sample)}."
            self.log.add(Event("refused", time_ns, frame, text))
            return
        held = record.never_acked.count
        left = self._left(held, time_ns)
        if session.end == "broker" and self._attached.subscription.open_seeks:
            text = f"The broker closed it because of the SEEK, as after every SEEK{left}."
            self.log.add(Event("closed", time_ns, frame, text, size=held, variety="seek"))
            return
        unsubscribed = session.end == "closed" and record.subscription is not None and record.subscription.gone
        text = "The client removed the subscription" if unsubscribed and record.durable else end_text(session)
        self.log.add(Event(end_kind(session.end), time_ns, frame, f"{text}{left}.", size=held))

    def _left(self, held: int, ended_ns: int) -> str:
        """Return what the consumer had when its session ended, as a clause."""
        record = self.record
        words = [count_of(held, "unacknowledged message")] if held else []
        if record.permits.known and record.received:
            blocked = record.blocked.last_ns[1] == ended_ns
            words.append(count_of(record.permits.balance - blocked * record.permits.unspent, "permit"))
        return f"; it had {' and '.join(words)}" if words else ""

    # -- permits and periods

    def _check_permits(self, frame: int) -> None:
        permits = self.record.permits
        if not self._granted and permits.flows:
            self._granted = True
            text = f"Granted its first permits: the broker could send {count_of(permits.queue, 'message')}."
            self.log.add(Event("first permits", permits.last_flow_ns, permits.last_flow_frame, text))
        period = self._exhausted.ended(permits.exhausted, frame)
        if period is None:
            return
        first = self._is_first(period.since_ns)
        if first and self._session is not None:
            since_ns = min(max(period.since_ns, self._session.ready_ns), period.until_ns)
            period = Period(since_ns, self._session.ready_frame, period.until_ns, period.until_frame)
        self._cover(period)
        if period.lasted_ns >= LONG_NS:
            text = no_permits_text(self.record, f"for {lasted(period)}", first=first)
            self.log.add(period_event("no permits", period, text))

    def _is_first(self, since_ns: int) -> bool:
        """Return whether a time without permits began with the session."""
        return self._session is not None and since_ns == self._session.began_ns

    def _check_periods(self, frame: int) -> None:
        record = self.record
        period = self._blocked.ended(record.blocked, frame)
        if period is not None:
            self._cover(period)
            self.log.add(period_event("blocked", period, f"Blocked for {lasted(period)}: {blocked_text(record)}"))
        period = self._silent.ended(record.silent, frame)
        if period is not None:
            self._cover(period)
            text = f"Received nothing for {lasted(period)}, although it had permits and messages were available."
            self.log.add(period_event("silent", period, text))
        period = self._behind.ended(record.behind_transaction, frame)
        if period is not None:
            self._cover(period)
            text = f"Waited for the end of transaction {record.transaction}, for {lasted(period)}."
            self.log.add(period_event("transaction wait", period, text))

    def _cover(self, period: Period) -> None:
        self._covered.append(period)
        del self._covered[:-16]

    def _check_active(self) -> None:
        record = self.record
        self._active_frame = record.active_frame
        if not record.active:
            self._standby_since = (record.active_ns, record.active_frame)
        elif self._standby_since[0] < 0:
            self.log.add(Event("active", record.active_ns, record.active_frame, "Became the active consumer."))
        else:
            self._end_standby(record.active_ns, record.active_frame)

    def _end_standby(self, until_ns: int, until_frame: int) -> None:
        since_ns, since_frame = self._standby_since
        self._standby_since = _NEVER
        if since_ns >= 0:
            period = Period(since_ns, since_frame, until_ns, until_frame)
            self._cover(period)
            text = f"On standby for {lasted(period)}: another consumer was active."
            self.log.add(period_event("active", period, text, variety="standby"))

    def _check_requests(self, time_ns: int, frame: int) -> None:
        asked = self._requests.added()
        if asked:
            whole = self.record.asked_all.last_ns == time_ns
            self._requested.add("all" if whole else "ids", time_ns, frame, asked)
        failed = self._ack_errors.added()
        if failed:
            error = list(self.record.acks_failed)[-1]
            self.log.add(Event("ack error", time_ns, frame, f"The broker refused an ACK with {printable(error)}."))
        discarded = self._discarded.added()
        if discarded:
            error = list(self.record.validation)[-1]
            self._discards.add(error, time_ns, frame, discarded)
        self._refused.added()

    # -- messages

    def _message(self, facts: Facts) -> None:
        frame, record, session = facts.frame, self.record, self.record.session
        ready = (session.ready_ns, session.ready_frame) if session is not None else _NEVER
        before_ns, before_frame = max(
            self._last_message, ready, (record.active_ns, record.active_frame) if record.active else _NEVER
        )
        self._last_message = (frame.time_ns, frame.number)
        at_id, lifecycle, delivery = _delivery(self._attached, facts)
        if not self._received:
            self._received = True
            late = " of the capture" if session is None or not session.number else ""
            text = f"Received its first message{late}, {at_id}."
            self.log.add(Event("first message", frame.time_ns, frame.number, text))
        if delivery is not None and delivery.why:
            self._redelivered.add(delivery.why, frame.time_ns, frame.number, delivery.messages)
            self._redeliveries += delivery.messages
        waited = frame.time_ns - before_ns
        if before_ns >= 0 and waited >= LONG_NS and not self._explained(before_ns, frame.time_ns):
            why = self._why_idle(facts, before_ns, lifecycle, delivery)
            text = f"Received no message for {span(waited)}, until {at(frame.number)}: {why}"
            self.log.add(Event("idle", before_ns, before_frame, text, frame.time_ns, frame.number, waited))

    def _explained(self, since_ns: int, until_ns: int) -> bool:
        """Return whether a reported state covers at least half of a time."""
        reported = (one for one in self._covered if one.lasted_ns >= LONG_NS)
        covered = max((min(one.until_ns, until_ns) - max(one.since_ns, since_ns) for one in reported), default=0)
        return covered * 2 >= until_ns - since_ns

    def _why_idle(self, facts: Facts, before_ns: int, lifecycle: Lifecycle | None, delivery: Delivery | None) -> str:
        """Return why no message arrived since a time, according to the message that then arrived."""
        now_ns = facts.frame.time_ns
        if delivery is not None and delivery.why:
            returned_ns = self._attached.subscription.returned_ns
            if returned_ns <= before_ns:
                return "the next message was a redelivery."
            return (
                f"no message was available until the redelivery was due, {latency_text(now_ns - returned_ns)} before."
            )
        stored_ns = -1 if lifecycle is None else max(lifecycle.receipt_ns, lifecycle.sent_ns)
        if lifecycle is None or stored_ns < 0:
            return "the capture does not show when the next message was sent."
        if lifecycle.deliver_at_ms * 1_000_000 > before_ns:
            return "the next message had a delivery time in the future."
        if stored_ns > before_ns:
            return f"no message was available; the next was stored {latency_text(now_ns - stored_ns)} before."
        return "a message was available; the capture does not show why it was not delivered."

    # -- the end

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state at a time."""
        self._update(now_ns, 0)
        self._redelivered.finish()
        self._requested.finish()
        self._discards.finish()
        record = self.record
        attached = self._is_attached()
        if attached:
            self._add_open_periods(now_ns)
        figures = consumer_figures(self._attached) if attached else {}
        total = self._earlier_messages + (0 if self._ended else record.received)
        figures = {
            "attached": attached, "sessions": record.sessions, "received": total, "redelivered": self._redeliveries,
            "acked": record.acked,
            "unacked": figures.get("unackedMessages") if attached else record.never_acked.count,
            **figures,
        }  # fmt: skip
        return State(state_text(record, now_ns, figures), figures)

    def _is_attached(self) -> bool:
        session = self.record.session
        return session is not None and session.end in ("", "silence") and session.ready_ns >= 0

    def _add_open_periods(self, now_ns: int) -> None:
        record = self.record
        first = self._is_first(record.permits.exhausted.since_ns)
        for kind, duration, text in (
            ("blocked", record.blocked, f"Blocked since then, for {{}}: {blocked_text(record)}"),
            ("silent", record.silent, "Has received nothing since then, for {}, although it has permits and messages "
             "are available."),
            ("transaction wait", record.behind_transaction,
             f"Has been waiting for the end of transaction {record.transaction} since then, for {{}}."),
            ("no permits", record.permits.exhausted, no_permits_text(record, "since then, for {}", first=first)),
        ):  # fmt: skip
            if duration.since_ns >= 0 and (kind == "blocked" or now_ns - duration.since_ns >= LONG_NS):
                self.log.add(_open_event(kind, duration, now_ns, text))

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return self.record.doubts

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a record concerns the consumer."""
        if record is self.record:
            return ""
        subscription = self.record.subscription
        if subscription is not None:
            if record is subscription or (group == "key" and record.subscription is subscription):
                return "its subscription"
            if record is subscription.topic:
                return "its topic"
        if group in ("connection", "exchange") and record.stream in self._streams:
            return "its connection"
        if group == "host" and (record.client, record.server) in self._streams.values():
            return "its connection"
        return None


def _open_event(kind: str, duration: StateDuration, now_ns: int, text: str) -> Event:
    lasted_ns = now_ns - duration.since_ns
    return Event(kind, duration.since_ns, duration.since_frame, text.format(span(lasted_ns)), size=lasted_ns)


def _delivery(attached: AttachedConsumer, facts: Facts) -> tuple[str, Lifecycle | None, Delivery | None]:
    """Return the id, the lifecycle and the delivery of a MESSAGE, as far as they are known."""
    ledger, entry = position(facts.frame.command.message.message_id)
    subscription = attached.subscription
    delivery = subscription.pending_acks.get((ledger, entry))
    if delivery is not None and delivery.frame != facts.frame.number:
        delivery = None
    return f"{ledger}:{entry}", subscription.topic.lifecycles.get((ledger, entry)), delivery
