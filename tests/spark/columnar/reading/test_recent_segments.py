"""Recent segments of packets processed together, compared with the object path."""

from __future__ import annotations

import pickle
import random
from types import SimpleNamespace

import numpy as np
import pytest

from pcli.codec.capture.recent_packets import HISTORY, History
from pcli.spark.columnar.reading.recent_segments import RecentSegments


def bytes_of(entries):
    return [(at, data[start:end]) for _, at, data, start, end in entries]


@pytest.mark.parametrize("seed", range(12))
def test_it_answers_as_if_packets_came_one_by_one(seed):
    dice = random.Random(seed)
    directions = [SimpleNamespace(name=number) for number in range(3)]
    plain, past = History(), RecentSegments()
    fed = 0
    for _ in range(4):
        count = dice.choice([3, 200, 2000])
        data = dice.randbytes(count * 3)
        at = np.arange(count) * 3
        past.begin(data, at, at + 3)
        fate = [dice.choice(["together", "alone", "twice", "none", "together"]) for _ in range(count)]
        direction = [dice.randrange(3) for _ in range(count)]
        taken = np.array([index for index in range(count) if fate[index] == "together"], np.int64)
        # Later packets were already processed together before this one is processed alone.
        past.take(directions, taken, np.array([direction[index] for index in taken], np.int64), taken * 10)
        for index in range(count):
            past.turn = index
            if dice.random() < 0.05:
                for each in directions:
                    assert bytes_of(past.of(each)) == bytes_of(plain.of(each))
            entry = (directions[direction[index]], index * 10, data, index * 3, index * 3 + 3)
            repeats = {"together": 1, "alone": 1, "twice": 2, "none": 0}[fate[index]]
            fed += repeats
            for _ in range(repeats):
                plain.append(entry)
                if fate[index] != "together":
                    past.append(entry)
        past.end(count)
    assert past.fed == fed
    for each in directions:
        assert bytes_of(past.of(each)) == bytes_of(plain.of(each))


def test_a_window_is_let_go():
    past = RecentSegments()
    data = bytes(1 << 20)
    past.begin(data, np.array([5]), np.array([9]))
    past.take([SimpleNamespace()], np.array([0]), np.array([0]), np.array([0]))
    past.turn = 1
    for _ in range(HISTORY):
        past.append((SimpleNamespace(), 0, data, 0, 3))
    past.end(2)
    assert len(pickle.dumps(past)) < 100_000
