"""The most recent data packets of an input."""

from __future__ import annotations

from types import SimpleNamespace

from pcli.codec.capture.recent_packets import HISTORY, History


def test_the_last_packets_of_a_direction_the_oldest_first():
    one, other = SimpleNamespace(), SimpleNamespace()
    history = History()
    for number in range(HISTORY + 10):
        history.append((other if number % 3 else one, number, b"data", 0, 4))
    kept = [number for number in range(10, HISTORY + 10) if not number % 3]
    assert [entry[1] for entry in history.of(one)] == kept
    assert len([*history.of(one), *history.of(other)]) == HISTORY
