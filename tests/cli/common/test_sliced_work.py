"""Work in slices: other threads receive the lock before it ends."""

from __future__ import annotations

import threading

from pcli.cli.common.sliced_work import in_slices


def test_a_thread_that_waits_receives_the_lock_before_the_work_ends():
    lock, received = threading.Lock(), threading.Event()

    def wait():
        with lock:
            received.set()

    def work():
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not received.is_set():
            assert lock.locked()
            yield
        waiter.join()
        return "done"

    assert in_slices(work(), lock) == "done"
