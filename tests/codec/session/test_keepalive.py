"""A PING per interval, and the close after a silent interval (broker 4.2.4: PING at 30.0 s, close at 60.0 s)."""

from __future__ import annotations

from pcli.codec.session import KeepAlive, TickAction


def tick(keep_alive, now, **how):
    return keep_alive.tick(now, **({"connected": True, "pings": True} | how))


def test_a_silent_peer():
    keep_alive = KeepAlive(30_000, 1_000)
    assert keep_alive.due == 31_000
    assert (tick(keep_alive, 31_000), keep_alive.due) == (TickAction.PING, 61_000)
    assert tick(keep_alive, 61_000) is TickAction.CLOSE


def test_an_active_peer():
    keep_alive = KeepAlive(30_000, 0)
    for now in (30_000, 60_000, 90_000):
        assert tick(keep_alive, now) is TickAction.PING
        keep_alive.outstanding = False


def test_a_late_tick_moves_the_next_one():
    keep_alive = KeepAlive(30_000, 0)
    tick(keep_alive, 100_000)
    assert keep_alive.due == 130_000


def test_no_handshake():
    assert tick(KeepAlive(30_000, 0), 30_000, connected=False) is TickAction.CLOSE


def test_a_peer_without_ping():
    keep_alive = KeepAlive(30_000, 0)
    assert [tick(keep_alive, now, pings=False) for now in (30_000, 60_000)] == [TickAction.NOTHING, TickAction.NOTHING]


def test_throttled_reading():
    keep_alive = KeepAlive(30_000, 0)
    assert tick(keep_alive, 30_000) is TickAction.PING
    assert tick(keep_alive, 60_000, reading=False) is TickAction.PING
    assert tick(keep_alive, 90_000) is TickAction.CLOSE


def test_disabled():
    assert KeepAlive(0, 1_000).due is None
