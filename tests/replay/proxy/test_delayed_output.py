"""Delayed output to one side, with a simulated clock."""

from random import Random

import pytest

from pcli.codec.faults import Step
from pcli.replay.proxy import ByteFault, delayed_output
from pcli.replay.proxy.byte_faults import TrafficShaper

MS = 1_000_000


class Clock:
    """A clock, and the timers of a loop."""

    def __init__(self):
        self.now = 0
        self.timers = []

    def call_later(self, seconds, action):
        self.timers.append(Timer(self.now + round(seconds * 1e9), action))
        return self.timers[-1]

    def move(self, ms):
        self.now += ms * MS
        for timer in [one for one in self.timers if one.due <= self.now]:
            self.timers.remove(timer)
            timer.action()


class Timer:
    def __init__(self, due, action):
        self.due, self.action = due, action

    def cancel(self):
        self.action = lambda: None


class DirectOutput(delayed_output.DelayedOutput):
    """A lane and its output."""

    def __init__(self):
        self.out, self.held = [], 0
        super().__init__(self.out.append, lambda: self.out.append("end"), self.cut, self.count)

    def cut(self, step):
        self.out.append("cut" if step.reset else "close")
        self.clear()

    def count(self, change):
        self.held += change


@pytest.fixture
def clock(monkeypatch):
    one = Clock()
    monkeypatch.setattr(delayed_output, "now_ns", lambda: one.now)
    monkeypatch.setattr(delayed_output.asyncio, "get_running_loop", lambda: one)
    return one


@pytest.fixture
def output(clock):
    return DirectOutput()


def late(ms, data=b"", *, cut=False):
    return Step(ms * MS, to_broker=False, data=bytearray(data), cut=cut)


def test_undelayed_bytes_are_delivered_at_once(output, clock):
    output.send(b"one")
    output.execute(late(0, b"two"))
    output.end()
    assert output.out == [b"one", b"two", "end"]
    assert clock.timers == []


def test_delayed_bytes_delay_all_later_bytes_and_the_end(output, clock):
    output.execute(late(80, b"late"))
    output.send(b"soon")
    output.end()
    clock.move(79)
    assert output.out == []
    clock.move(1)
    assert output.out == [b"late", b"soon", "end"]


def test_nothing_is_delivered_after_a_cut(output, clock):
    output.execute(late(10, b"before"))
    output.execute(late(20, cut=True))
    output.execute(late(30, b"behind"))
    clock.move(100)
    assert output.out == [b"before", "cut"]


def test_cleared_bytes_are_not_delivered(output, clock):
    output.execute(late(10, b"late"))
    output.clear()
    clock.move(100)
    assert output.out == []


def test_above_the_limit_reading_pauses_until_half_is_delivered(output, clock):
    for number in range(10):
        output.execute(late(number + 1, bytes(1 << 20)))
    assert output.held == 1
    clock.move(5)
    assert (output.held, len(output.out)) == (1, 5)
    clock.move(2)
    assert (output.held, len(output.out)) == (0, 7)


def test_the_limit_includes_the_overhead_of_small_slices(output, clock):
    """Eight megabytes in slices of one byte would be a gigabyte of objects."""
    output.shaper = TrafficShaper([ByteFault("slice=1 gap=1s")], Random(1))
    output.send(bytes(50_000))
    assert output.held == 1


def test_byte_faults_apply_to_sent_bytes(output, clock):
    output.shaper = TrafficShaper([ByteFault("latency=50ms")], Random(1))
    output.send(b"one")
    clock.move(10)
    output.send(b"two")
    clock.move(40)
    assert output.out == [b"one"]
    clock.move(10)
    assert output.out == [b"one", b"two"]


def test_withheld_bytes_are_delivered_when_the_fault_is_removed(output, clock):
    output.shape(TrafficShaper([ByteFault("timeout=0ms")], Random(1)))
    output.send(b"one")
    clock.move(60_000)
    assert output.out == []
    output.shape(None)
    assert output.out == [b"one"]


def test_the_end_of_the_stream_is_not_withheld(output, clock):
    output.shape(TrafficShaper([ByteFault("timeout=0ms")], Random(1)))
    output.send(b"one")
    output.end()
    assert output.out == ["end"]


def test_the_end_of_the_stream_is_delayed(output, clock):
    output.shape(TrafficShaper([ByteFault("slow_close=2s")], Random(1)))
    output.send(b"one")
    output.end()
    clock.move(1999)
    assert output.out == [b"one"]
    clock.move(1)
    assert output.out == [b"one", "end"]
