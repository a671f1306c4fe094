"""What is left before its end (what it is to Spark: test_engine.py)."""

import threading

import pytest

from pcli.spark.jobs.cancelling import stop_apart


def test_ctrl_c_comes_when_what_is_being_stopped_has_stopped(monkeypatch):
    """It comes while we wait, before the stop goes on."""
    stopped, waits = [], threading.Event()
    join = threading.Thread.join

    def joined(thread, timeout=None):
        if waits.is_set():
            return join(thread, timeout)
        waits.set()
        raise KeyboardInterrupt

    def stop():
        waits.wait()
        stopped.append(True)

    monkeypatch.setattr(threading.Thread, "join", joined)
    with pytest.raises(KeyboardInterrupt):
        stop_apart(stop)
    assert stopped


def test_what_cannot_be_stopped_is_no_error():
    def stop():
        raise ConnectionError("the JVM has ended")

    stop_apart(stop)
