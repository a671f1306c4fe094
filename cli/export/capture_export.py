"""The export of captures, of an interface, and of what a proxy relays.

Rules of this file
1. A capture is read twice: for the findings, and for the spans. The spans of a message leave when its lifecycle is
   complete, so memory does not depend on the size of the capture.
2. A live interface is read once: findings about messages whose spans have left are log records only.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcli.cli.common.capture_reading import CaptureReading, contents_for, opened_contents
from pcli.cli.common.output import Exit, counted, say
from pcli.cli.diagnosis import lifecycle_search
from pcli.cli.diagnosis.process_diagnosis import diagnosed_in_processes
from pcli.cli.diagnosis.rule_settings import RuleSettings
from pcli.cli.export.live_spans import LiveSpans
from pcli.cli.export.otlp_backend import open_backend
from pcli.cli.export.span_sender import SpanSender
from pcli.codec.observe.telemetry.finding_records import log_record
from pcli.codec.observe.telemetry.message_spans import MessageSpans
from pcli.codec.observe.telemetry.sampling import Sampler
from pcli.codec.observe.tracking.lifecycle_filter import LifecycleFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pcli.cli.common.otlp_options import OtlpOptions
    from pcli.codec.capture import ReadOptions
    from pcli.codec.observe import Facts
    from pcli.codec.observe.rules import Finding


@dataclass(frozen=True, slots=True)
class CaptureExport:
    """The export of captures or of an interface."""

    otlp: OtlpOptions
    files: Sequence[str]
    interface: str
    capture_filter: str
    options: ReadOptions
    filter: str
    private_key: Sequence[str]
    jobs: int | None

    def run(self) -> Exit:
        """Export the spans and return the exit code. Raises LocalError if an option is wrong."""
        reading = CaptureReading(
            self.files,
            self.interface,
            self.capture_filter,
            options=self.options,
            system=True,
            rewindable=not self.interface,
            contents=opened_contents(self.private_key) if self.private_key else contents_for(self.filter),
        )
        return self._listen(reading) if self.interface else self._read(reading)

    def _listen(self, reading: CaptureReading) -> Exit:
        live, messages = live_spans(self.otlp, self.filter)
        diagnosis = live.diagnosis
        reading.on_note, reading.on_end, reading.connections = diagnosis.note, diagnosis.ended, diagnosis.connections
        live.watch()
        try:
            for facts in reading.facts():
                with live.lock:
                    live.see(facts)
        except KeyboardInterrupt:
            pass  # this is the normal end
        code = live.finish()
        report_headers(messages)
        return code or reading.finish()

    def _read(self, reading: CaptureReading) -> Exit:
        from pcli.codec.observe.tracking.tracker import Tracker

        messages, mark = _message_spans(self.otlp, self.filter)
        backend = open_backend(self.otlp)
        findings = self._findings(reading)
        for finding in findings:
            messages.findings.add(finding)
        sender = SpanSender(backend, self.otlp.otlp_queue, self.otlp.otlp_timeout, live=False)
        tracker = Tracker(on_lifecycle=lambda lifecycle: sender.put(messages.spans(lifecycle)))
        reading.tracks_again = True
        reading.on_note, reading.on_end, reading.connections = tracker.note, tracker.ended, tracker.connections
        gc.collect()  # the records of the first pass refer to each other
        try:
            for facts in reading.facts():
                mark(facts)
                messages.see(facts)
                tracker.see(facts)
                if sender.given_up:
                    break
            else:
                tracker.finish()
                last_ns = tracker.capture.last_ns
                sender.put(log_record(one, last_ns, messages.first_spans.get(one.identity, (0, 0))) for one in findings)
        except KeyboardInterrupt:
            sender.ends_soon = True
            raise
        finally:  # also after an unreadable capture
            code = sender.close()
        report_headers(messages)
        say(f"{counted(messages.exported, 'message')} of {messages.messages:,} exported")
        return code or reading.finish()

    def _findings(self, reading: CaptureReading) -> list[Finding]:
        """Return the findings in the captures, from a first pass. Nothing else of this pass is kept in memory."""
        from pcli.codec.observe.diagnosis import Diagnosis

        diagnosis = Diagnosis()
        reading.on_note, reading.on_end, reading.connections = diagnosis.note, diagnosis.ended, diagnosis.connections
        alone = "TLS is decrypted" if self.options.key_log else ""
        with diagnosed_in_processes(reading, RuleSettings(), self.jobs, alone=alone) as found:
            if found is not None:
                reading.take_first_pass(found)
                return found.diagnosis.findings()
            for facts in reading.facts():
                diagnosis.see(facts)
        diagnosis.finish()
        return diagnosis.findings()


def live_spans(otlp: OtlpOptions, filter_: str = "") -> tuple[LiveSpans, MessageSpans]:
    """Return the export of live traffic, and the source of its spans. Raises LocalError if an option is wrong."""
    messages, mark = _message_spans(otlp, filter_)
    sender = SpanSender(open_backend(otlp), otlp.otlp_queue, otlp.otlp_timeout, live=True)
    return LiveSpans(messages, sender, otlp.horizon, mark), messages


def report_headers(messages: MessageSpans) -> None:
    """Print one line for each kind of malformed trace headers, and one for headers that were dropped."""
    contexts = messages.contexts
    for name, count in sorted(contexts.malformed.items()):
        say(f"{counted(count, 'message')} with a malformed {name}: the spans have traces of their own")
    if contexts.dropped:
        say(f"the trace headers of {counted(contexts.dropped, 'frame')} were dropped: too many messages are open")


def _message_spans(otlp: OtlpOptions, filter_: str) -> tuple[MessageSpans, Callable[[Facts], None]]:
    """Return the source of spans, and the function that marks the frames that match the filter."""
    wanted = LifecycleFilter()
    marks = lifecycle_search.marks(wanted, filter_, "", "")

    def mark(facts: Facts) -> None:
        for bits, match in marks:
            if match(facts):
                bits.add(facts.frame.number)

    return MessageSpans(otlp.cluster, Sampler(otlp.sample), wanted), mark
