"""Cancellation of jobs."""

import os
import signal
import threading

import pytest

from pcli.spark.jobs.job_cancellation import stop_in_thread


@pytest.fixture
def interrupted():
    """An event that Ctrl-C sets; the tests may have been started with SIGINT ignored."""
    came = threading.Event()

    def interrupt(*_):
        came.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    yield came
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_raised_after_the_stop(interrupted):
    left, waited = threading.Event(), []

    def stop():
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.wait()
        waited.append(not left.wait(0.5))

    with pytest.raises(KeyboardInterrupt):
        stop_in_thread(stop)
    left.set()
    assert waited == [True]


def test_a_failed_stop_is_no_error():
    def stop():
        raise ConnectionError("the JVM has ended")

    stop_in_thread(stop)
