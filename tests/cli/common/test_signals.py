"""Signals that end a command, at moments at which a lock in their handler would block."""

import subprocess
import sys

import pytest

OTHER_THREAD = """
import signal, threading, time

def send():
    time.sleep(0.2)  # the main thread waits
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=send, daemon=True).start()
stop.wait()
"""
"""The kernel can deliver the signal of a process to any thread. It then interrupts no call of the main thread."""

EACH_LINE = """
import signal, sys

def trace(frame, event, argument):
    signal.raise_signal(signal.SIGTERM)
    return trace

sys.settrace(trace)
stop.wait()
"""
"""A signal before each line of `wait`."""


@pytest.mark.parametrize("moment", [OTHER_THREAD, EACH_LINE])
def test_a_signal_ends_the_wait(moment):
    program = f"from pcli.cli.common.signals import StopEvent\nstop = StopEvent()\n{moment}\nprint('stopped')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=10, check=True)
    assert run.stdout == "stopped\n"
