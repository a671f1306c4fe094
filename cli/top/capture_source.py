"""What `pcli top` shows of a capture: it is read in a thread, at its own pace or as it comes, while the page asks.

Rules of this file
1. One lock is around the diagnosis: a frame is taken in, or the page gets its answer.
2. Everything is read, also the broker's own traffic: the rules and the figures leave it out themselves.
3. A finding stays on the page once it was found: what ended well is worth knowing, too.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import Exit
from pcli.cli.top.rows import Snapshot
from pcli.codec.errors import LocalError, PcliError

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.capture import Note, StreamEnd
    from pcli.codec.observe.rules import Finding

__all__ = ["CaptureSource"]

_PATIENCE: Final = 1.0
"""Seconds for the first frame; a program that may not capture says so sooner."""


class CaptureSource:
    """Reads inputs. The first answer waits a moment, so that what cannot be read is told before there is a page."""

    def __init__(self, reading: CaptureReading, speed: float, *, whole: bool) -> None:
        """``speed``: times as fast as it was, 0: at once; ``whole``: the first answer is that of the end."""
        from pcli.codec.observe.diagnosis import Diagnosis

        reading.system, reading.on_note, reading.on_end = True, self._take_note, self._take_end
        self._reading = reading
        self._speed = speed
        self._whole = whole
        self._diagnosis = Diagnosis()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._first = threading.Event()
        """Set by the first frame, or by the end."""
        self._now_ns = self._began_ns = 0
        self._began = 0.0
        self._over = False
        self._fault: PcliError | None = None
        self._asked = False
        """Whether there is a page."""
        self._found: dict[tuple[Any, ...], Finding] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def title(self) -> str:
        """What is looked at."""
        return self._reading.interface or " ".join(self._reading.files)

    def poll(self) -> Snapshot:
        """What is known by now. PcliError, the first time only: it could not be read."""
        from pcli.codec.observe.diagnosis import by_weight
        from pcli.codec.observe.tracking.statistics.topic_statistics import figures

        if self._whole:
            self._thread.join()
        self._first.wait(_PATIENCE)
        if self._fault is not None and not self._asked:
            raise self._fault
        self._asked = True
        with self._lock:
            now_ns = self._clock()
            found = self._diagnosis.findings() if self._over else self._diagnosis.poll(now_ns)
            topics = figures(self._diagnosis.lives, now_ns)
        self._found |= {one.identity: one for one in found}
        return Snapshot(now_ns, topics, sorted(self._found.values(), key=by_weight), self._note(now_ns))

    def close(self) -> Exit:
        """Stop reading; the exit code."""
        self._stop.set()
        code = self._reading.finish()
        self._thread.join(1)
        return code

    def _clock(self) -> int:
        """The time of now: of the last frame, or what has passed since, where time passes."""
        if self._over or not self._now_ns:
            return self._now_ns
        if self._reading.interface:
            return max(self._now_ns, time.time_ns())
        passed = (time.monotonic() - self._began) * 1e9 * self._speed
        return max(self._now_ns, self._began_ns + int(passed))

    def _note(self, now_ns: int) -> str:
        """How far it is, and what is wrong."""
        capture = self._diagnosis.capture
        words = [f"{capture.frames:,} frames", f"{(now_ns - self._began_ns) / 1e9:.1f} s"]
        words += [f"{capture.gaps.count} holes"] if capture.gaps.count else []
        words += [str(self._fault)] if self._fault is not None else ["end"] if self._over else []
        return "  ".join(words)

    # -- in the thread

    def _read(self) -> None:
        try:
            self._take_all()
        except PcliError as fault:
            self._fault = fault
        except (OSError, ValueError) as fault:
            # The file is closed under us at the end; else it is the disk.
            if not self._stop.is_set():
                self._fault = LocalError(str(fault))
        self._first.set()

    def _take_all(self) -> None:
        for facts in self._reading.facts():
            now_ns = facts.frame.time_ns
            if self._speed:
                self._pace(now_ns)
            if self._stop.is_set():
                return
            with self._lock:
                self._diagnosis.see(facts)
                self._now_ns = max(self._now_ns, now_ns)
                self._began_ns = self._began_ns or now_ns
            self._first.set()
        with self._lock:
            self._diagnosis.finish()
            self._over = True

    def _pace(self, now_ns: int) -> None:
        """Wait until the frame's time has come."""
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
