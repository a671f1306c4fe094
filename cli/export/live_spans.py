"""The spans of live traffic: from the frames of a broker, a proxy or an interface to the queue.

Rules of this file
1. A lock protects the state: frames arrive in one thread, and `poll` runs every second in another.
2. A lifecycle is exported SETTLE_S seconds after it is complete, so that its spans have the findings and the response
   to the last ACK. An incomplete lifecycle is exported after the horizon, or at the end.
3. If an exported lifecycle continues, only its new spans are exported. A span does not change after it is exported.
4. A finding may be about messages that the sampling has not selected. The last MAX_FRAMES frames of complete
   lifecycles are kept, so that these messages are exported, too.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from pcli.cli.common.sliced_work import in_slices
from pcli.cli.diagnosis.capture_diagnosis import repeat
from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.telemetry.finding_records import log_record
from pcli.codec.observe.telemetry.message_spans import all_frames
from pcli.codec.observe.tracking.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pcli.cli.common.output import Exit
    from pcli.cli.export.span_sender import SpanSender
    from pcli.codec.observe.observer_state import Facts
    from pcli.codec.observe.rules import Finding
    from pcli.codec.observe.telemetry.message_spans import MessageSpans
    from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
    from pcli.codec.steps import Steps

SETTLE_S: Final = 1.0
"""Time in seconds from the end of a lifecycle to its export."""

MAX_FRAMES: Final = 20_000
"""Maximum number of frames of complete lifecycles that are kept."""


class LiveSpans:
    """The messages of live traffic, on their way to a sender."""

    def __init__(
        self, messages: MessageSpans, sender: SpanSender, horizon_s: float, mark: Callable[[Facts], None] | None = None
    ) -> None:
        """``mark`` receives every frame; it marks the frames that match the filter."""
        self.diagnosis = Diagnosis(tracker=partial(Tracker, on_lifecycle=self._leaves))
        self.diagnosis.subscriptions.lifecycles.on_complete = self._complete
        self.lock = threading.Lock()
        self._messages, self._sender, self._horizon_ns, self._mark = messages, sender, int(horizon_s * 1e9), mark
        self._settling: OrderedDict[Lifecycle, int] = OrderedDict()
        """Complete lifecycles with the time at which they were completed, the oldest first."""
        self._exported: dict[Lifecycle, set[int]] = {}
        """Ids of exported spans of lifecycles that may continue."""
        self._recent: BoundedDict[int, Lifecycle] = BoundedDict(MAX_FRAMES)
        self._left: list[Lifecycle] | None = None
        """Lifecycles that left the tracker at the end of the traffic."""
        self._stopped = threading.Event()

    def see(self, facts: Facts) -> None:
        """Process a frame. The caller holds the lock."""
        if self._mark is not None:
            self._mark(facts)
        self._messages.see(facts)
        self.diagnosis.see(facts)

    def watch(self) -> None:
        """Export spans every second until `finish`."""
        arguments = (lambda: self.poll(time.time_ns()), self._stopped)
        threading.Thread(target=repeat, args=arguments, daemon=True).start()

    def poll(self, now_ns: int) -> None:
        """Export what is due at this time, in ns since 1970."""
        in_slices(self._poll_steps(now_ns), self.lock)

    def _poll_steps(self, now_ns: int) -> Steps[None]:
        findings = yield from self.diagnosis.poll_steps(now_ns)
        if self._left is not None:
            return
        self._add_findings(findings)
        while self._settling and now_ns - next(iter(self._settling.values())) >= SETTLE_S * 1e9:
            self._export(self._settling.popitem(last=False)[0])
        for lifecycle in self.diagnosis.subscriptions.lifecycles.sent_before(now_ns - self._horizon_ns):
            if lifecycle not in self._exported:
                self._export(lifecycle)
        self._log(findings, now_ns)

    def finish(self) -> Exit:
        """Export the remaining lifecycles and findings, print the result, and return the exit code."""
        self._stopped.set()
        now_ns = time.time_ns()
        with self.lock:
            self._left = []
            self.diagnosis.finish(now_ns)
            findings = self.diagnosis.unreported()
            self._add_findings(findings)
            for lifecycle in self._left:
                self._export(lifecycle, final=True)
            self._log(findings, now_ns)
        return self._sender.close()

    def _complete(self, lifecycle: Lifecycle) -> None:
        self._settling.pop(lifecycle, None)
        self._settling[lifecycle] = self.diagnosis.capture.last_ns

    def _leaves(self, lifecycle: Lifecycle) -> None:
        self._settling.pop(lifecycle, None)
        if self._left is not None:
            self._left.append(lifecycle)
        else:
            self._export(lifecycle, final=True)

    def _export(self, lifecycle: Lifecycle, *, final: bool = False) -> None:
        known = self._exported.get(lifecycle, set())
        new = [one for one in self._messages.spans(lifecycle, final=final) if one.span_id not in known]
        self._sender.put(new)
        if final:
            if self._exported.pop(lifecycle, None) is not None:
                for frame in all_frames(lifecycle):
                    self._recent.pop(frame, None)
        else:
            self._exported[lifecycle] = known | {one.span_id for one in new}
            self._recent.update(dict.fromkeys(all_frames(lifecycle), lifecycle))

    def _add_findings(self, findings: list[Finding]) -> None:
        """Add findings, and export the messages that they are about, among those that have left."""
        for finding in findings:
            self._messages.findings.add(finding)
            for lifecycle in {one for frame in finding.frames if (one := self._recent.get(frame)) is not None}:
                self._export(lifecycle)
        missing = {frame for one in findings if one.identity not in self._messages.first_spans for frame in one.frames}
        if missing:  # the log records of these findings name a message that has not left
            opened = self.diagnosis.subscriptions.lifecycles.sent_before(self.diagnosis.capture.last_ns)
            for lifecycle in (*opened, *self._settling):
                if not missing.isdisjoint(all_frames(lifecycle)):
                    self._messages.spans(lifecycle, final=False)

    def _log(self, findings: list[Finding], now_ns: int) -> None:
        first = self._messages.first_spans
        self._sender.put([log_record(one, now_ns, first.get(one.identity, (0, 0))) for one in findings])
