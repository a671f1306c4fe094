"""What is left before its end (what it is to Spark: test_engine.py)."""

import os
import signal
import threading

import pytest

from pcli.spark.jobs.job_cancellation import stop_in_thread


@pytest.fixture
def interrupted():
    """Set by Ctrl-C; whoever started the tests may have told them to ignore it."""
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
