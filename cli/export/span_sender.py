"""The queue of spans that wait for the backend, and the thread that sends them in batches.

Rules of this file
1. The queue is bounded. For a capture, the reader waits while the queue is full. For live traffic, nothing waits: what
   does not fit is lost and counted.
2. A batch that fails for a reason that may pass stays in the queue and is sent again. For a capture, the sender gives
   up when a request has failed for `patience` seconds; for live traffic, only when the traffic has ended.
3. After the end of live traffic, or Ctrl-C, the sender gives up as soon as no item has left the queue for _END_S, even
   if a request still waits for its response: users wait for the end of the command.
4. One line reports that the backend fails, and one that it accepts spans again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from pcli.cli.common.output import Exit, counted, say
from pcli.cli.export.otlp_backend import Backend, Outcome
from pcli.codec.observe.telemetry.spans import LogRecord, Span

_BATCH: Final = 512
"""Maximum number of items in a request; the default of OpenTelemetry's batch processors."""

_WAIT_S: Final = 1.0
"""Maximum time in seconds for which items wait for a full batch."""

_PAUSES: Final = (0.5, 1.0, 2.0, 5.0)
"""Seconds between two attempts."""

_END_S: Final = 5.0
"""Maximum time in seconds without progress after live traffic has ended: the maximum duration of one request."""

_FAILING_END_S: Final = 2.0
"""The same, if the backend failed before."""

_MAX_REASONS: Final = 10
"""Maximum number of reasons that are printed."""


class SpanSender:
    """A sender of spans and log records to a backend."""

    def __init__(self, backend: Backend, maximum: int, patience: float, *, live: bool) -> None:
        self.sent = {Span: 0, LogRecord: 0}
        """Number of accepted items."""
        self.lost = {Span: 0, LogRecord: 0}
        self.unsupported = ""
        """Why the backend accepts no log records; empty if it does."""
        self.given_up = False
        """Whether the backend failed for so long that nothing more is sent."""
        self.ends_soon = live
        """Whether the end waits only _END_S without progress."""
        self._backend, self._maximum, self._patience, self._live = backend, maximum, patience, live
        self._batch = min(_BATCH, maximum)
        self._queue: deque[Span | LogRecord] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._failing_since = -1.0
        self._reasons: set[str] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, items: Iterable[Span | LogRecord]) -> None:
        """Add items to the queue. For a capture, wait until there is space."""
        with self._changed:
            empty = not self._queue
            for one in items:
                if not self._live and len(self._queue) >= self._maximum:
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self.given_up or len(self._queue) < self._maximum)
                if self.given_up or len(self._queue) >= self._maximum:
                    self.lost[type(one)] += 1
                else:
                    self._queue.append(one)
            if empty or len(self._queue) >= self._batch:
                self._changed.notify_all()

    def close(self) -> Exit:
        """Send what the queue contains, print the result, and return the exit code."""
        with self._changed:
            self._closing = True
            if self.ends_soon:
                self._patience = min(self._patience, _END_S if self._failing_since < 0 else _FAILING_END_S)
            self._failing_since = -1.0  # the remaining items have the whole time
            self._changed.notify_all()
        try:
            self._wait_for_end()
        except KeyboardInterrupt:
            self._drop_all("the command was interrupted")
            self._print_result()
            raise
        self._backend.close()
        self._print_result()
        return Exit.USAGE if any(self.lost.values()) else Exit.FINE

    def _wait_for_end(self) -> None:
        """Wait until the queue is empty. If it ends soon, drop all items when no item has left the queue in time."""
        with self._changed:
            while count := len(self._queue):
                patience = self._patience if self.ends_soon else None
                if not self._changed.wait_for(lambda: len(self._queue) < count, patience):
                    self._drop_all(self._failure)
        if not self.given_up:
            self._thread.join()

    def _drop_all(self, reason: str) -> None:
        with self._changed:
            self.given_up = True
            self._reasons.add(reason)
            for one in self._queue:
                self.lost[type(one)] += 1
            self._queue.clear()

    @property
    def _failure(self) -> str:
        return f"the backend failed for {self._patience:g} s"

    def _print_result(self) -> None:
        spans, logs = self.sent[Span], self.sent[LogRecord]
        say(
            f"exported {counted(spans, 'span')} and {counted(logs, 'log record')} of findings to "
            f"{self._backend.address}"
        )
        if self.unsupported:
            say(f"the backend accepts no log records ({self.unsupported}): findings are events of the spans")
        lost = [counted(self.lost[kind], name) for kind, name in _NAMES.items() if self.lost[kind]]
        if lost:
            say(f"lost {' and '.join(lost)}: {'; '.join(sorted(self._reasons)) or 'the queue was full'}")

    # -- in the thread

    def _run(self) -> None:
        attempt = 0
        while batch := self._next_batch():
            outcome = Outcome("given up") if self.given_up else self._backend.export(batch)
            if outcome.error and outcome.repeat and self._waits(outcome):
                self._pause(_PAUSES[min(attempt, len(_PAUSES) - 1)])
                attempt += 1
                continue
            attempt = 0
            self._done(batch, outcome)

    def _next_batch(self) -> list[Span] | list[LogRecord]:
        """Return the first items of the queue that have one type, without removing them; empty at the end."""
        with self._changed:
            if not self._closing:
                self._changed.wait_for(lambda: self._closing or self._queue)
                self._changed.wait_for(lambda: self._closing or len(self._queue) >= self._batch, _WAIT_S)
            batch: list[Span | LogRecord] = []
            for one in islice(self._queue, self._batch):
                if batch and type(one) is not type(batch[0]):
                    break
                batch.append(one)
            return batch  # type: ignore[return-value]

    def _waits(self, outcome: Outcome) -> bool:
        """Whether the batch is sent again after this failure."""
        if self.given_up:
            return False
        now = time.monotonic()
        if self._failing_since < 0:
            self._failing_since = now
            self._report(outcome.error, "; the request is repeated")
        if self._live and not self._closing:
            return True
        if now - self._failing_since < self._patience:
            return True
        self._reasons.add(self._failure)
        self.given_up = True
        return False

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if not self._closing:
                self._changed.wait(seconds)
                return
        time.sleep(min(seconds, self._patience))

    def _done(self, batch: list[Span] | list[LogRecord], outcome: Outcome) -> None:
        kind = type(batch[0])
        unsupported = outcome.unsupported and kind is LogRecord
        lost = 0 if unsupported else outcome.rejected if outcome.rejected or not outcome.error else len(batch)
        with self._changed:
            if not self._queue:
                return  # the end of the traffic did not wait for this request
            for _ in batch:
                self._queue.popleft()
            self.lost[kind] += lost
            self._changed.notify_all()
        if unsupported:
            self.unsupported = outcome.error
            return
        self.sent[kind] += len(batch) - lost
        if lost and not self.given_up:
            self._report(outcome.error)
        elif not lost and self._failing_since >= 0:
            self._failing_since = -1.0
            say(f"{self._backend.address}: accepts spans again")

    def _report(self, reason: str, then: str = "") -> None:
        if reason not in self._reasons and len(self._reasons) < _MAX_REASONS:
            self._reasons.add(reason)
            say(f"{self._backend.address}: {reason}{then}")


_NAMES: Final = {Span: "span", LogRecord: "log record"}
