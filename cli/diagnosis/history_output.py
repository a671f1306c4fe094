"""The reading and output of `pcli why`: one pass over the capture, then the history of the object and its findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import SEVERITY_COLORS, Exit, colored, counted, json_text, say, text_width, write_line
from pcli.cli.common.packet_numbers import PacketIndex
from pcli.cli.common.times import moment_text
from pcli.cli.diagnosis.broker_query import compare_with_broker, report_json, report_lines
from pcli.cli.diagnosis.finding_output import WIDTH, wrapped

if TYPE_CHECKING:
    from pcli.cli.common.admin_api import AdminApi
    from pcli.cli.diagnosis.broker_query import BrokerReport
    from pcli.codec.capture import ReadOptions, StreamEnd
    from pcli.codec.observe.history.collector import HistoryCollector
    from pcli.codec.observe.history.event_log import Event
    from pcli.codec.observe.history.object_history import ObjectHistory, State
    from pcli.codec.observe.rules import Finding
    from pcli.codec.observe.tracking.tracker import Tracker

MOST_EVENTS: Final = 10
"""Maximum number of events in a history."""

_MOST_LISTED: Final = 8
"""Maximum number of candidates that a message lists."""

_SENTENCE: Final = re.compile(r"(?<=[a-z0-9)])\. (?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments that select the object and the time."""

    name: str
    kind: str
    """A kind of object; empty for all kinds."""
    at: str
    """The value of --at."""
    until_ns: int | None
    """The same time in ns since 1970; None for the end of the capture."""


def run(
    question: Question,
    *,
    files: Sequence[str],
    options: ReadOptions,
    output: str,
    color: bool,
    packet_numbers: bool,
    api: AdminApi | None = None,
) -> Exit:
    """Print the history of an object, and return the exit code. The command fails if it finds no or several objects.

    ``api`` is compared with the findings about the object.
    """
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.history.collector import HistoryCollector
    from pcli.codec.observe.history.object_names import NameMatcher
    from pcli.codec.observe.history.related_findings import RecordedFindings
    from pcli.codec.observe.tracking.tracker import Tracker

    collector, findings = HistoryCollector(NameMatcher(question.name, question.kind)), RecordedFindings()

    def tracker(**more: Any) -> Tracker:
        made = Tracker(on_lifecycle=collector.lifecycle, **more)
        collector.follow(made)
        return made

    diagnosis = Diagnosis(on_record=findings.add, tracker=tracker)
    reading = CaptureReading(files, options=options, system=True, connections=diagnosis.connections)
    packets = PacketIndex() if packet_numbers else None
    until_ns, over, last_ns = question.until_ns, False, 0

    def is_over(time_ns: int) -> bool:
        nonlocal over
        over = over or (until_ns is not None and time_ns > until_ns)
        return over

    def ended(end: StreamEnd) -> None:
        nonlocal last_ns
        if not is_over(end.time_ns):
            last_ns = end.time_ns
            diagnosis.ended(end)
            collector.settle(end.time_ns)

    reading.on_note = lambda note: None if over else diagnosis.note(note)
    reading.on_end = ended
    for facts in reading.facts():
        if is_over(facts.frame.time_ns):
            break
        diagnosis.see(facts)
        collector.see(facts)
        if packets is not None:
            packets.add(facts.frame)
    now_ns = _moment(question, reading.first_ns, max(last_ns, diagnosis.capture.last_ns), over=over)
    # The state precedes the end of the capture; messages and findings are complete only after it.
    collector.tracker.subscriptions.conclude(now_ns)
    states = {id(one): one.finish(now_ns) for one in collector.found() if one.kind != "message"}
    diagnosis.finish(now_ns)
    found = collector.found()
    if len(found) != 1:
        code = _report_mismatch(collector, question, found)
        return max(code, reading.finish())
    [history] = found
    state = states.get(id(history)) or history.finish(now_ns)
    history.complete()
    related = findings.of(history, diagnosis.findings())
    broker = None
    if api is not None:
        topics = collector.tracker.subscriptions.lifecycles.topics
        only = (history.topic, history.subscription)
        broker = compare_with_broker(api, [one for _, one in related], topics, only)
        if broker.error:
            say(broker.failure)
    report = _Report(history, state, reading.first_ns, now_ns, over, related, packets, broker)
    if output == "json":
        write_line(json_text(report.json(), indent=1))
    else:
        for line in report.lines(color=color and colored()):
            write_line(line)
    code = reading.finish()
    return code if broker is None else broker.exit_code(code)


def _moment(question: Question, first_ns: int, last_ns: int, *, over: bool) -> int:
    """Print and return the time of the state. Raises LocalError if the capture begins later."""
    from pcli.codec.errors import LocalError

    if question.until_ns is None:
        return last_ns
    if question.until_ns < first_ns:
        raise LocalError(f"--at {question.at}: the capture begins later, at {moment_text(first_ns)}")
    if not over:
        say(f"--at {question.at}: the capture has no later frame; its last state is shown")
        return last_ns
    say(f"state at {moment_text(question.until_ns)}")
    return question.until_ns


def _report_mismatch(collector: HistoryCollector, question: Question, found: Sequence[ObjectHistory]) -> Exit:
    """Print why the name does not select one object, and return the exit code."""
    from pcli.codec.observe.fields.field_table import nearest
    from pcli.codec.observe.history.collector import known_names
    from pcli.codec.observe.text_format import printable

    name = printable(question.name)
    if found:
        equal = len({(one.kind, one.name) for one in found}) < len(found)
        names = [_selector(one) if equal else one.name for one in found]
        listed = ", ".join(
            f"{one.kind} {printable(shown)}" for one, shown in zip(found[:_MOST_LISTED], names, strict=False)
        )
        more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
        kinds = len({one.kind for one in found}) > 1
        remedy = "a name and --kind" if kinds or equal else "one of these names"
        say(f"{name}: {counted(len(found), 'object')} have this name: {listed}{more}; give {remedy}")
        return Exit.USAGE
    frames = collector.tracker.capture.frames
    if frames:
        near = nearest(question.name, sorted(set(known_names(collector.tracker))))
        say(f"{name}: no {question.kind or 'object'} of the capture has this name{near}")
    return Exit.NO


def _selector(history: ObjectHistory) -> str:
    """Return a name that no other object has: connection and id of a producer or consumer."""
    session = history.session
    return history.name if session is None else f"{session.stream}#{session.id}"


@dataclass(slots=True)
class _Report:
    """The output of a history."""

    history: ObjectHistory
    state: State
    first_ns: int
    """Time of the first frame."""
    now_ns: int
    """Time of the state."""
    at: bool
    """Whether the capture has frames after the state."""
    findings: list[tuple[str, Finding]]
    """The findings with their relations to the object."""
    packets: PacketIndex | None
    broker: BrokerReport | None

    @property
    def events(self) -> list[Event]:
        """The events to show."""
        return self.history.events(MOST_EVENTS, self.first_ns)

    @property
    def doubts(self) -> list[str]:
        """The reasons why the history may be incomplete, other than the end of the capture."""
        return sorted(self.history.doubts() - {"end"})

    def lines(self, *, color: bool) -> list[str]:
        """Return the title, the events, the state, the findings, and the report of the broker."""
        from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS

        width, events = text_width() or WIDTH, self.events
        label = (lambda words: words) if self.packets is None else self.packets.label
        bold, reset = ("\x1b[1m", "\x1b[0m") if color else ("", "")
        title = self.history.title()
        rows = [f"{bold}{title[:1].upper()}{title[1:]}{reset}", ""]
        places = [label(f"frame {event.frame}") if event.frame else "" for event in events]
        places.append("at that time" if self.at else "at the end")
        column = max(map(len, places))
        for event, place in zip(events, places, strict=False):
            rows += wrapped(f"{self._since(event.time_ns):>10.3f} s  {place:<{column}}  ", label(event.text), width)
        state = label(self.state.text)
        rows += wrapped(f"{self._since(self.now_ns):>10.3f} s  {places[-1]:<{column}}  ", state, width)
        missing = "; ".join(DOUBTS[word] for word in self.doubts)
        rows += wrapped(" " * 14, f"Incomplete: {missing}.", width) if missing else []
        rows.append("")
        if not self.findings:
            rows.append("No findings.")
        for relation, one in self.findings:
            severity = f"{one.severity.upper():<8}"
            if color:
                severity = f"{SEVERITY_COLORS[one.severity]}{severity}{reset}"
            words = ", ".join(filter(None, (relation, one.certainty if one.certainty != "certain" else "")))
            about = f" ({words})" if words else ""
            rows += wrapped(f"{severity}", f"{one.rule}{about}: {label(_sentence(one.what))}", width)
        broker = report_lines(self.broker, width)
        return [*rows, "", *broker[:-1]] if broker else rows

    def _since(self, time_ns: int) -> float:
        return (time_ns - self.first_ns) / 1e9

    def json(self) -> dict[str, Any]:
        """Return the history as an object."""
        from pcli.codec.observe.text_format import epoch_text

        return {
            "kind": self.history.kind,
            "name": self.history.name,
            "title": self.history.title(),
            "history": [self._event_row(event) for event in self.events],
            "state": {
                "time": epoch_text(self.now_ns),
                "since": round(self._since(self.now_ns), 6),
                "text": self.state.text,
                **self.state.figures,
            },
            "doubts": self.doubts,
            "findings": [
                {
                    "relation": relation,
                    "rule": one.rule,
                    "variant": one.variant,
                    "severity": one.severity,
                    "certainty": one.certainty,
                    "culprit": one.culprit,
                    "cause_certainty": one.cause_certainty,
                    "subject": one.subject,
                    "what": one.what,
                    "frames": one.frames,
                }
                for relation, one in self.findings
            ],
            **({} if self.broker is None else {"admin": report_json(self.broker, [one for _, one in self.findings])}),
        }

    def _event_row(self, event: Event) -> dict[str, Any]:
        from pcli.codec.observe.text_format import epoch_text

        packet = {} if self.packets is None else {"packet": self.packets.packet_of(event.frame) or None}
        return {
            "kind": event.kind,
            "time": epoch_text(event.time_ns),
            "since": round(self._since(event.time_ns), 6),
            "frame": event.frame or None,
            **packet,
            "until": epoch_text(event.until_ns) if event.until_ns >= 0 else None,
            "until_frame": event.until_frame or None,
            "text": event.text,
        }


def _sentence(text: str) -> str:
    """Return the first sentence of a finding."""
    return f"{_SENTENCE.split(text, maxsplit=1)[0].rstrip('.')}."
