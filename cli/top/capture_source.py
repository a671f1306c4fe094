"""Statistics of a capture for `pcli top`. The capture is read in a thread, at its original pace or faster.

Rules of this file
1. A lock protects the diagnosis, so it either processes a frame or returns a snapshot. The rules are evaluated and the
   metrics are updated in slices, between which frames are processed; a second lock separates evaluations.
2. All frames are read. The rules and statistics omit the traffic of the broker's internal client.
3. A finding remains on the page after its cause has ended.
4. The findings are compared with the broker in the first poll and then every COMPARE_S seconds: each topic takes
   several requests. The reader waits during the comparison.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import Exit
from pcli.cli.common.sliced_work import in_slices
from pcli.cli.top.rows import Snapshot
from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.errors import LocalError, PcliError

if TYPE_CHECKING:
    from pcli.cli.common.admin_api import AdminApi
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.cli.diagnosis.broker_query import BrokerReport
    from pcli.codec.capture import Note, StreamEnd
    from pcli.codec.observe.metrics.collector import MetricsCollector
    from pcli.codec.observe.rules import Finding
    from pcli.codec.scalable.layout import Layout

COMPARE_S: Final = 10.0
"""Seconds between two comparisons with a broker."""

_PATIENCE: Final = 1.0
"""Seconds to wait for the first frame. A capture program that lacks permission fails within this time."""


class CaptureSource:
    """A source that reads inputs.

    The first poll waits, so that an unreadable input is reported before the page opens.
    """

    def __init__(
        self,
        reading: CaptureReading,
        speed: float,
        *,
        whole: bool,
        packets: PacketIndex | None = None,
        api: AdminApi | None = None,
        metrics: MetricsCollector | None = None,
    ) -> None:
        """``speed`` is a factor of the original pace, or 0. If ``whole`` is set, the first poll returns the last state.

        ``packets`` collects the packet numbers for the text of findings. The findings are compared with ``api``.
        ``metrics`` receives the frames and the findings.
        """
        from pcli.codec.observe.diagnosis import MAX_FINDINGS, Diagnosis

        reading.system, reading.on_note, reading.on_end = True, self._take_note, self._take_end
        self._reading = reading
        self._speed = speed
        self._whole = whole
        self._packets = packets
        self._api = api
        self._report: BrokerReport | None = None
        self._compared = -COMPARE_S
        """Time of the last comparison with the broker, by the monotonic clock."""
        self._metrics = metrics
        self._diagnosis = Diagnosis() if metrics is None else metrics.diagnosis
        self._see = self._diagnosis.see if metrics is None else metrics.see
        self._lock, self._evaluation = threading.Lock(), threading.Lock()
        self._stop = threading.Event()
        self._first = threading.Event()
        """An event that is set after the first frame, or at the end of the input."""
        self._now_ns = self._began_ns = 0
        self._began = 0.0
        self._over = False
        self.fault: PcliError | None = None
        """The error that ended the input, if there was one."""
        self._asked = False
        """Whether a poll has returned."""
        self._found: BoundedDict[tuple[Any, ...], Finding] = BoundedDict(MAX_FINDINGS)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def title(self) -> str:
        """The name of the source."""
        return self._reading.interface or " ".join(self._reading.files)

    def poll(self) -> Snapshot:
        """Return the current state. Only the first poll raises a PcliError if the input cannot be read."""
        from pcli.cli.diagnosis.broker_query import compare_with_broker, report_lines
        from pcli.cli.diagnosis.finding_output import WIDTH
        from pcli.codec.observe.diagnosis import by_weight
        from pcli.codec.observe.tracking.statistics.broker_statistics import figures
        from pcli.codec.observe.tracking.statistics.scalable_sums import sum_figures

        self._wait_for_first()
        now_ns = self._evaluate()
        with self._lock:
            segments = figures(self._diagnosis.subscriptions, now_ns)
            records = self._diagnosis.subscriptions.lifecycles.topics
            topics = sum_figures(segments, lambda name: records[name].record)
            for name, one in self._diagnosis.scalable_topics.topics.items():
                if name in topics and one.layout is not None:
                    topics[name] |= _layout_figures(one.layout)
        findings = sorted(self._found.values(), key=by_weight)
        if self._api is not None and time.monotonic() - self._compared >= COMPARE_S:
            with self._lock:
                topics_of_capture = self._diagnosis.subscriptions.lifecycles.topics
                self._report = compare_with_broker(self._api, findings, topics_of_capture)
            self._compared = time.monotonic()
        label = self._packets.label if self._packets is not None else str
        lines = [*report_lines(self._report, WIDTH), self._report.failure if self._report is not None else ""]
        return Snapshot(now_ns, topics, findings, self._note(now_ns), list(filter(None, lines)), label, segments)

    def refresh(self) -> None:
        """Evaluate the rules and update the metrics. Only the first call raises a PcliError, as `poll`."""
        self._wait_for_first()
        self._evaluate()

    def _wait_for_first(self) -> None:
        """Wait for the first frame; raise the error of an input that cannot be read."""
        if self._whole:
            self._thread.join()
        self._first.wait(_PATIENCE)
        if self.fault is not None and not self._asked:
            raise self.fault
        self._asked = True

    def _evaluate(self) -> int:
        """Collect new findings and update the metrics; return the current time."""
        with self._evaluation:
            now_ns, over = self._clock(), self._over
            diagnosis = self._diagnosis
            found = diagnosis.findings() if over else in_slices(diagnosis.poll_steps(now_ns), self._lock)
            self._found.update({one.identity: one for one in found})
            if self._metrics is not None:
                up = not over and self._thread.is_alive()
                in_slices(self._metrics.update(now_ns, found, up=up), self._lock)
        return now_ns

    def close(self) -> Exit:
        """Stop reading and return the exit code."""
        self._stop.set()
        code = self._reading.finish()
        self._thread.join(1)
        return code if self._report is None else self._report.exit_code(code)

    def _clock(self) -> int:
        """Return the current time of the input. At the end of the input, it is the time of the last frame."""
        if self._over or not self._now_ns:
            return self._now_ns
        if self._reading.interface:
            return max(self._now_ns, time.time_ns())
        passed = (time.monotonic() - self._began) * 1e9 * self._speed
        return max(self._now_ns, self._began_ns + int(passed))

    def _note(self, now_ns: int) -> str:
        """Return the progress, the number of gaps, and an error if there is one."""
        capture = self._diagnosis.capture
        words = [f"{capture.frames:,} frames", f"{(now_ns - self._began_ns) / 1e9:.1f} s"]
        words += [f"{capture.gaps.count} gaps"] if capture.gaps.count else []
        words += [str(self.fault)] if self.fault is not None else ["end"] if self._over else []
        return "  ".join(words)

    # -- in the thread

    def _read(self) -> None:
        try:
            self._take_all()
        except PcliError as fault:
            self.fault = fault
        except (OSError, ValueError) as fault:
            # When reading stops, the file may be closed during a read. At other times this is a disk error.
            if not self._stop.is_set():
                self.fault = LocalError(str(fault))
        self._first.set()

    def _take_all(self) -> None:
        for facts in self._reading.facts():
            now_ns = facts.frame.time_ns
            if self._speed:
                self._pace(now_ns)
            if self._stop.is_set():
                return
            with self._lock:
                self._see(facts)
                if self._packets is not None:
                    self._packets.add(facts.frame)
                self._now_ns = max(self._now_ns, now_ns)
                self._began_ns = self._began_ns or now_ns
            self._first.set()
        with self._lock:
            self._diagnosis.finish()
            self._over = True

    def _pace(self, now_ns: int) -> None:
        """Wait until the time of the frame."""
        if not self._began_ns:
            self._began = time.monotonic()
        else:
            due = self._began + (now_ns - self._began_ns) / 1e9 / self._speed
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _take_note(self, note: Note) -> None:
        with self._lock:
            self._diagnosis.note(note)

    def _take_end(self, end: StreamEnd) -> None:
        with self._lock:
            self._diagnosis.ended(end)


def _layout_figures(layout: Layout) -> dict[str, Any]:
    return {
        "epoch": layout.epoch,
        "activeSegments": len(layout.active),
        "sealedSegments": len(layout.sealed),
        "controllerBroker": layout.controller or None,
    }
