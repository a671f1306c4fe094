"""The findings, permits, key ranges, balances and segments of a whole capture, computed in a thread.

The figures are those of `pcli diagnose` and of `pcli stats` permits, keys, balances and segments at the end of the
capture, or at a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pcli.cli.browse.thread_job import ThreadJob
from pcli.codec.capture import CapturedFrame, Note, StreamEnd
from pcli.codec.errors import PcliError
from pcli.codec.observe import Observer
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.rules.finding_text import consumer_subject
from pcli.codec.observe.tracking.statistics.key_statistics import key_figures
from pcli.codec.observe.tracking.statistics.message_balance import Balance
from pcli.codec.observe.tracking.statistics.message_balance import balances as balances_of
from pcli.codec.observe.tracking.statistics.permit_statistics import permit_figures
from pcli.codec.observe.tracking.statistics.segment_statistics import segment_figures

if TYPE_CHECKING:
    from pcli.codec.observe.incidents import Incident

Events = Iterable[CapturedFrame | Note | StreamEnd]


class CaptureReport(ThreadJob):
    """The report of a capture."""

    def __init__(self, events: Callable[[], Events], frames: int, until: int = 0) -> None:
        """``events`` is called in the thread; ``frames`` is the number of frames that are expected.

        ``until`` is the frame at which the figures are taken, without findings; 0 for the end of the capture.
        """
        self.incidents: list[Incident] = []
        self.permits: list[dict[str, Any]] = []
        """The figures of each consumer, with its topic, subscription and name."""
        self.keys: list[dict[str, Any]] = []
        """The figures of each Key_Shared subscription."""
        self.balances: list[Balance] = []
        self.segments: list[dict[str, Any]] = []
        """The figures of each scalable topic with its segments."""
        self.fault = ""
        """Why the report could not be computed."""
        self.first_ns = self.last_ns = 0
        """The times of the first and the last frame."""
        self._events = events
        self.until = until
        self._start(until or frames)

    def _run(self) -> None:
        try:
            diagnosis = self._diagnosis()
        except (PcliError, OSError) as fault:
            self.fault = str(fault)
            return
        if self._stop.is_set():
            return
        self.first_ns, self.last_ns = diagnosis.capture.first_ns, diagnosis.capture.last_ns
        self._take_figures(diagnosis)
        if self.until:
            return
        diagnosis.finish()
        self.incidents = diagnosis.incidents()

    def _diagnosis(self) -> Diagnosis:
        """Return the diagnosis of all events."""
        diagnosis, observer = Diagnosis(), Observer()
        for item in self._events():
            if isinstance(item, CapturedFrame):
                diagnosis.see(observer.see(item))
                self._done = item.number
            elif isinstance(item, StreamEnd):
                diagnosis.ended(item)
                observer.close(item.stream.number)
            else:
                diagnosis.note(item)
            if self._stop.is_set() or 0 < self.until <= self._done:
                break
        return diagnosis

    def _take_figures(self, diagnosis: Diagnosis) -> None:
        tracker = diagnosis.subscriptions
        consumers = [record for group, record in tracker.records() if group == "consumer"]
        self.permits = [consumer_subject(record) | permit_figures(record, self.last_ns) for record in consumers]
        self.keys = key_figures(tracker, self.last_ns, system=True)
        self.balances = balances_of(tracker, self.last_ns, system=True)
        self.segments = segment_figures(tracker, diagnosis.scalable_topics.topics.values(), self.last_ns)
