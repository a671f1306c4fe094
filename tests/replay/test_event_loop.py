"""The event loop and the clock of objects with sockets."""

import asyncio
import sys
import time

from pcli.replay.event_loop import new_event_loop, now_ms, now_ns


def test_the_time_is_the_walls():
    before = time.time_ns()
    assert abs(now_ns() - before) < 60_000_000_000
    assert abs(now_ms() * 1_000_000 - before) < 60_000_000_000


def test_it_never_runs_backwards_though_the_wall_is_set_back(monkeypatch):
    before = now_ns()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert now_ns() >= before


def test_without_uvloop_it_is_a_loop_of_asyncio(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()
