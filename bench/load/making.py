"""A load as a capture and its truth: traffic to frames, frames to segments, segments to records, block by block."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np

from load.cast import cast_of
from load.opening import READY, close, open_all
from load.records import RECORD, Files, records
from load.segments import Packets, Segments
from load.settings import Load
from load.traffic import DISPATCH, KIND, MSG, TICK, WAY, Traffic
from load.truth import TruthFiles
from load.wording import Wording

__all__ = ["make_load"]

BLOCK = 16_000_000
"""Bytes of capture that are made at once, about."""


def make_load(load: Load, folder: Path, name: str = "load") -> list[Path]:
    """Write the capture and its truth into the folder; the capture's files in order."""
    folder.mkdir(parents=True, exist_ok=True)
    # Nothing here makes cycles, and the collector would walk over all frames again and again.
    gc.disable()
    try:
        return _Making(load, folder, name).run()
    finally:
        gc.enable()


class _Making:
    """The work on one load."""

    def __init__(self, load: Load, folder: Path, name: str) -> None:
        rng = np.random.default_rng(load.seed)
        self.load, self.rng, self.cast = load, rng, cast_of(load)
        self.traffic = Traffic(load, self.cast, rng)
        self.wording = Wording(load, self.cast, rng)
        self.segments = Segments(load, self.cast.connections * 2, rng)
        self.truth = TruthFiles(folder, load, self.cast)
        self.files = Files(folder, name, rotate=load.rotate, micro=load.micro)
        self.size = 0
        """Bytes of records so far, those that the capture does not have, too."""
        self.numbered = 0
        self.entry = load.batch * (load.message_size + 6 if load.batch > 1 else load.message_size) + 60
        """Bytes of an entry, about."""

    def run(self) -> list[Path]:
        self._packets(self.segments.begin(), b"", 0)
        talk = open_all(self.load, self.cast, self.traffic, self.wording)
        self._emit(READY)
        tick = self._flow()
        if not self.load.abrupt:
            tick = self._drain(tick)
            self.traffic.last_acks(tick)
            close(talk, self.cast, tick + 3)
            self._emit(tick + 8)
            self._packets(self.segments.end(tick + 8), b"", 0)
        self.files.close()
        self.truth.close(self.files.paths, self.files.written, self.traffic.messages)
        return self.files.paths

    def _flow(self) -> int:
        """Messages until the size is reached; the tick behind the last."""
        load = self.load
        ticks = max(1, int(min(BLOCK, load.size / 8) / (load.rate * load.tick_ns / 1e9)))
        a_message = 1.15 * ((1 + len(load.subscriptions)) * (self.entry + 40) + 90)
        count = max(1, int(load.rate * load.tick_ns / 1e9 * ticks / a_message))
        ping = max(1, int(load.ping * 1e9 / load.tick_ns))
        tick = READY
        while self.size + self._waiting() < load.size:
            self.wording.publish(self.traffic.make(tick, ticks, count))
            for one in range(-(-tick // ping) * ping, tick + ticks, ping):
                self.traffic.ping(one)
            tick += ticks
            self._emit(tick)
        return tick

    def _waiting(self) -> float:
        """Bytes of the events that are still to come, about."""
        kinds = np.concatenate([one[KIND] for one in self.traffic.pending])
        return 1.1 * (float((kinds == DISPATCH).sum()) * self.entry + len(kinds) * 30)

    def _drain(self, tick: int) -> int:
        """Everything that still follows; the tick behind it."""
        while (last := max((int(one[TICK].max(initial=-1)) for one in self.traffic.pending), default=-1)) >= 0:
            tick = min(tick + 1 + int(BLOCK / (self.load.rate * self.load.tick_ns / 1e9)), max(tick, last + 1))
            self._emit(tick)
        return tick

    def _emit(self, before: int) -> None:
        """Send what is due."""
        events = self.traffic.due(before)
        waiting = np.concatenate([one[MSG] for one in self.traffic.pending])
        if events.shape[1]:
            self._send(events)
        self.wording.forget(int(waiting[waiting >= 0].min(initial=self.traffic.messages)))

    def _send(self, events: Any) -> None:
        frames, leader = self.wording.say(events)
        sizes = np.fromiter(map(len, frames), np.int64, len(frames))
        ends = np.cumsum(sizes)
        data = b"".join(frames)
        first = sizes > 0
        packets, starts, times = self.segments.cut(events[TICK][first], events[WAY][first], ends[first])
        kept = self._packets(packets, data, len(starts))
        begin = np.searchsorted(starts, (ends - sizes)[leader], side="right") - 1
        end = np.searchsorted(starts, ends[leader] - 1, side="right") - 1
        self.truth.events(events, times[end], _captured(kept, begin, end), first)

    def _packets(self, packets: Packets, data: bytes, segments: int) -> Any:
        """Write what the capture has of them. For each segment: 2 it has it, 1 a copy of some of it, 0 neither."""
        kept = self._kept(packets)
        self.truth.lost(packets.take(~kept))
        packets = packets.take(kept)
        if len(packets):
            self.truth.met(packets.way >> 1)
            written, ends = records(packets, data, micro=self.load.micro, number=self.numbered)
            self.files.write(written, ends)
        self.numbered += len(kept)
        self.truth.packets += len(packets)
        state = np.zeros(segments, np.int64)
        copied = -2 - packets.segment[packets.segment <= -2]
        state[copied] = state[np.maximum(copied - 1, 0)] = 1
        state[packets.segment[packets.segment >= 0]] = 2
        return state

    def _kept(self, packets: Packets) -> Any:
        """Which of them the capture has."""
        load = self.load
        total = self.size + np.cumsum(packets.size + RECORD)
        kept = total >= load.midstream * load.size
        self.size = int(total[-1])
        if load.loss and packets.size.any():
            first = np.flatnonzero(self.rng.random(len(packets)) < load.loss * 2 / (1 + load.burst))
            for row, many in zip(first.tolist(), self.rng.integers(1, load.burst + 1, size=len(first)).tolist()):
                kept[row : row + many] = False
        return kept


def _captured(state: Any, begin: Any, end: Any) -> Any:
    """Of frames from segment ``begin`` to ``end``: 2 all of it, 1 some, 0 nothing."""
    whole, some = np.cumsum(np.r_[0, state == 2]), np.cumsum(np.r_[0, state > 0])
    many = end - begin + 1
    return np.where(whole[end + 1] - whole[begin] == many, 2, some[end + 1] - some[begin] > 0)
