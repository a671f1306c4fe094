"""Work in a thread that begins at once, and that can be stopped."""

from __future__ import annotations

import threading


class ThreadJob:
    """The base of such work. A subclass calls `_start` at the end of ``__init__``, and defines `_run`."""

    _done = 0
    """The part of ``_total`` that `_run` has processed."""

    def _start(self, total: int) -> None:
        """Start the thread. ``total`` is the expected amount of work."""
        self._total = total
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Do the work until it is complete or ``_stop`` is set."""
        raise NotImplementedError

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    @property
    def progress(self) -> float:
        """The part of the work that is done, from 0 to 1."""
        return min(1.0, self._done / self._total) if self._total else 1.0

    def stop(self) -> None:
        """Stop the thread without a result."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the thread."""
        self._thread.join()
