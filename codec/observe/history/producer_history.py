"""The history of a producer: sessions, waits for exclusive access and for receipts, and messages without a receipt."""

from __future__ import annotations

from typing import Any, Final

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
from pcli.codec.observe.history.object_names import producer_name
from pcli.codec.observe.history.period_reader import PeriodReader
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import at, count_of, span
from pcli.codec.observe.rules.producer_text import about_producer
from pcli.codec.observe.rules.producer_waiting import fenced_by
from pcli.codec.observe.text_format import latency_text, printable
from pcli.codec.observe.tracking.producers.producer_session import NOTABLE_NS, ProducerSession
from pcli.codec.observe.tracking.records.client_records import ProducerRecord, Session
from pcli.codec.wire.frame import SEND

_MANY: Final = 100
"""Maximum number of connections of a producer that are kept."""


class ProducerHistory(ObjectHistory):
    """The history of one producer."""

    kind = "producer"

    def __init__(self, producer: ProducerSession, log: Log) -> None:
        super().__init__(log)
        self.record = producer.record
        self._producer = producer
        """The session that was current at the last frame."""
        self._session: Session | None = None
        self._attempt: Session | None = None
        """A session that was requested while another session of the same name was open."""
        self._opened = self._ended = True
        self._sent = False
        self._earlier_end_ns = -1
        self._streams: dict[int, tuple[str, tuple[str, int]]] = {}
        self._waiting, self._no_receipt = PeriodReader(), PeriodReader()
        record = self.record
        self._unreceipted = Counter(lambda: record.unreceipted.count)
        self._stored_twice = Counter(lambda: record.duplicates_stored.count)
        self._resent_count = Counter(lambda: record.resent.count)
        self._errors = Counter(lambda: sum(one.count for one in record.send_errors.values()))
        self._resent = Bursts(log, _resent)
        self._refused_sends = Bursts(log, _refused_send)

    @property
    def session(self) -> Session | None:
        """The last session."""
        return self.record.session

    @property
    def name(self) -> str:
        """The producer's name after the topic."""
        record, session = self.record, self.record.session
        number = f"{session.stream}#{session.id}" if session is not None else ""
        return producer_name(record.topic, record.name or number)

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return self.record.topic

    def title(self) -> str:
        """Return the producer with its topic, access mode and connection."""
        record, session = self.record, self.record.session
        mode = f", {record.access_mode}" if record.access_mode else ""
        stream = f", connection {session.stream} (tcp.stream)" if session is not None else ""
        return f"{about_producer(record)}{mode}{stream}"

    def see(self, facts: Facts) -> None:
        """Process a frame of the producer."""
        frame = facts.frame
        stream = frame.stream
        if stream.number not in self._streams and len(self._streams) < _MANY:
            self._streams[stream.number] = (stream.client[0], stream.server)
        producer = facts.peer.record if facts.peer is not None else None
        if isinstance(producer, ProducerSession):
            if producer.session is self.record.session:
                self._producer = producer
            else:
                self._attempt = producer.session
        self._update(frame.time_ns, frame.number)
        if frame.type == SEND and not self._sent:
            self._sent = True
            session = self.record.session
            late = " of the capture" if session is None or not session.number else ""
            self.log.add(Event("first message", frame.time_ns, frame.number, f"Sent its first message{late}."))

    def settle(self, time_ns: int) -> None:
        """Record the end of a session that has no frame."""
        self._update(time_ns, 0)

    def _update(self, time_ns: int, frame: int) -> None:
        record = self.record
        session = record.session
        if self._attempt is not None and self._attempt.end == "refused":
            self._add_refusal(self._attempt)
            self._attempt = None
        if session is not self._session:
            self._check_end()
            if self._session is not None and self._session.ended_ns >= 0:
                self._earlier_end_ns = self._session.ended_ns
            self._session = session
            self._opened = self._ended = session is None
        self._check_open()
        period = self._waiting.ended(record.waiting, frame)
        if period is not None:
            text = f"Waited for exclusive access for {lasted(period)}{self._fencing(period.since_ns)}."
            self.log.add(period_event("waiting", period, text))
        period = self._no_receipt.ended(record.no_receipt, frame)
        if period is not None:
            text = f"Received no receipt for {lasted(period)}, although SENDs were open."
            self.log.add(period_event("no receipt", period, text))
        self._check_messages(time_ns, frame)
        self._check_end()

    def _fencing(self, since_ns: int, within_ns: int | None = None) -> str:
        """Return which producer fenced this producer before a time, as a clause; empty if none did."""
        fencing = fenced_by(self.record, since_ns)
        if fencing is None or (within_ns is not None and since_ns - fencing.first_ns > within_ns):
            return ""
        return f": producer {printable(fencing.name)} fenced it (ExclusiveWithFencing)"

    def _check_open(self) -> None:
        session, record = self._session, self.record
        if self._opened or session is None:
            return
        waits = record.waiting.since_ns >= 0
        if session.ready_ns < 0 and not session.end and not waits:
            return
        self._opened = True
        if session.end == "refused":
            return
        again = ""
        if self._earlier_end_ns >= 0 and session.number:
            again = f" again, {span(session.began_ns - self._earlier_end_ns)} after its previous session ended"
        mode = f" ({record.access_mode})" if record.access_mode else ""
        if not session.number:
            text = "Its PRODUCER is not in the capture."
        elif waits:
            text = f"Opened{again}{mode}. The broker accepted it, but it must wait for exclusive access."
        elif session.ready_ns < 0:
            text = f"Requested to be opened{again}{mode}. The capture contains no response."
        else:
            later = latency_text(session.ready_ns - session.began_ns)
            text = f"Opened{again}{mode}. The broker accepted it {later} later."
        took_ns = session.ready_ns - session.began_ns
        size = took_ns if session.ready_ns >= 0 and took_ns >= LONG_NS else 0
        self.log.add(Event("opened", session.began_ns, session.number, text, size=size))

    def _check_messages(self, time_ns: int, frame: int) -> None:
        record = self.record
        if resent := self._resent_count.added():
            self._resent.add("", time_ns, frame, resent)
        if errors := self._errors.added():
            self._refused_sends.add(list(record.send_errors)[-1], time_ns, frame, errors)
        if twice := self._stored_twice.added():
            text = f"Resent {count_of(twice, 'message')} that the broker then stored twice."
            self.log.add(Event("stored twice", time_ns, frame, text, size=twice))

    def _check_end(self) -> None:
        session = self._session
        if self._ended or session is None or not session.end or session.end == "silence":
            return
        self._check_open()
        self._ended = True
        time_ns, frame = session.ended_ns, session.ended_frame
        if session.end == "refused":
            self._add_refusal(session)
            return
        by_broker = session.end in ("broker", "fin_broker", "reset_broker")
        fenced = self._fencing(time_ns, LONG_NS) if by_broker else ""
        open_sends = self._unreceipted.added()
        left = f"; {count_of(open_sends, 'SEND')} had no receipt" if open_sends else ""
        self.log.add(
            Event(end_kind(session.end), time_ns, frame, f"{end_text(session)}{fenced}{left}.", size=open_sends)
        )

    def _add_refusal(self, session: Session) -> None:
        error, seen = list(self.record.refused.items())[-1]
        text = f"The broker refused PRODUCER with {printable(error)}{because(seen.sample)}."
        self.log.add(Event("refused", session.ended_ns, session.ended_frame, text))

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state at a time."""
        self._update(now_ns, 0)
        self._resent.finish()
        self._refused_sends.finish()
        record = self._producer.record_now()
        session = record.session
        waits = record.waiting.since_ns
        attached = session is not None and session.end in ("", "silence") and session.ready_ns >= 0
        if waits >= 0:
            text = f"Has waited for exclusive access since then, for {span(now_ns - waits)}{self._fencing(waits)}."
            self.log.add(Event("waiting", waits, record.waiting.since_frame, text, size=now_ns - waits))
        stuck = record.no_receipt.since_ns
        if 0 <= stuck <= now_ns - NOTABLE_NS:
            text = f"Has received no receipt since then, for {span(now_ns - stuck)}."
            self.log.add(Event("no receipt", stuck, record.no_receipt.since_frame, text, size=now_ns - stuck))
        figures = {
            "attached": attached, "sessions": record.sessions, "sent": record.sent, "receipts": record.receipts,
            "open_sends": record.open_sends, "lost": record.lost.count, "resent": record.resent.count,
        }  # fmt: skip
        return State(_state_text(record, attached=attached), figures)

    def complete(self) -> None:
        """Add the messages that were lost."""
        lost = self.record.lost
        if lost.count:
            text = f"No response to {count_of(lost.count, 'SEND')}, and no resend."
            self.log.add(Event("lost messages", lost.first_ns, lost.frames[0] if lost.frames else 0, text))

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return self.record.doubts

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a record concerns the producer."""
        if record is self.record:
            return ""
        if record is self.record.topic_record and record is not None:
            return "its topic"
        if group in ("connection", "exchange") and record.stream in self._streams:
            return "its connection"
        if group == "host" and (record.client, record.server) in self._streams.values():
            return "its connection"
        return None


def _resent(_: str, count: int, until: int) -> tuple[str, str]:
    return "resent", f"Resent {count_of(count, 'SEND')}{f', until {at(until)}' if until else ''}."


def _refused_send(error: str, count: int, until: int) -> tuple[str, str]:
    ended = f", until {at(until)}" if until else ""
    return "send error", f"The broker refused {count_of(count, 'SEND')} with {printable(error)}{ended}."


def _state_text(record: ProducerRecord, *, attached: bool) -> str:
    """Return the state of a producer with its figures."""
    words = [f"sent {count_of(record.sent, 'message')}" if record.sent else "sent no message"]
    if record.sent_entries:
        words.append(f"received {count_of(record.receipts, 'receipt')} for {count_of(record.sent_entries, 'SEND')}")
    if record.open_sends:
        are = "is" if record.open_sends == 1 else "are"
        words.append(f"{record.open_sends} of them {are} open since {at(record.oldest_open_frame)}")
    if record.lost.count:
        words.append(f"{count_of(record.lost.count, 'SEND')} have no response and were not resent")
    if record.waiting.since_ns >= 0:
        state = "Waits for exclusive access"
    elif attached:
        state = "Attached"
    else:
        state = "Not attached"
    return f"{state}. It {', '.join(words)}."
