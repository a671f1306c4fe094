"""Writes a load as a capture and its truth: traffic to frames, segments and records, block by block."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np

from load.frame_encoder import FrameEncoder
from load.participants import participants_of
from load.pcap_records import RECORD, Files, records
from load.segments import Packets, Segments
from load.session_commands import READY, close, open_all
from load.settings import Load
from load.traffic import DIRECTION, DISPATCH, KIND, MSG, TICK, Traffic
from load.truth_files import TruthFiles

BLOCK = 16_000_000
"""Approximate bytes of capture that are generated at once."""


def write_load(load: Load, folder: Path, name: str = "load") -> list[Path]:
    """Write the capture and its truth to the folder; return the capture's files in order."""
    folder.mkdir(parents=True, exist_ok=True)
    # There are no reference cycles, and the collector would traverse all frames repeatedly.
    gc.disable()
    try:
        return _LoadWriter(load, folder, name).run()
    finally:
        gc.enable()


class _LoadWriter:
    """The state of one load."""

    def __init__(self, load: Load, folder: Path, name: str) -> None:
        rng = np.random.default_rng(load.seed)
        self.load, self.rng, self.participants = load, rng, participants_of(load)
        self.traffic = Traffic(load, self.participants, rng)
        self.encoder = FrameEncoder(load, self.participants, rng)
        self.segments = Segments(load, self.participants.connections * 2, rng)
        self.truth = TruthFiles(folder, load, self.participants)
        self.files = Files(folder, name, rotate=load.rotate, micro=load.micro)
        self.size = 0
        """Bytes of records so far, including those omitted from the capture."""
        self.numbered = 0
        self.entry = load.batch * (load.message_size + 6 if load.batch > 1 else load.message_size) + 60
        """Approximate bytes of an entry."""

    def run(self) -> list[Path]:
        self._packets(self.segments.begin(), b"", 0)
        commands = open_all(self.load, self.participants, self.traffic, self.encoder)
        self._emit(READY)
        tick = self._flow()
        if not self.load.abrupt:
            tick = self._drain(tick)
            self.traffic.last_acks(tick)
            close(commands, self.participants, tick + 3)
            self._emit(tick + 8)
            self._packets(self.segments.end(tick + 8), b"", 0)
        self.files.close()
        self.truth.close(self.files.paths, self.files.written, self.traffic.messages)
        return self.files.paths

    def _flow(self) -> int:
        """Generate messages until the size is reached; return the tick after the last."""
        load = self.load
        ticks = max(1, int(min(BLOCK, load.size / 8) / (load.rate * load.tick_ns / 1e9)))
        a_message = 1.15 * ((1 + len(load.subscriptions)) * (self.entry + 40) + 90)
        count = max(1, int(load.rate * load.tick_ns / 1e9 * ticks / a_message))
        ping = max(1, int(load.ping * 1e9 / load.tick_ns))
        tick = READY
        while self.size + self._waiting() < load.size:
            self.encoder.publish(self.traffic.make(tick, ticks, count))
            for one in range(-(-tick // ping) * ping, tick + ticks, ping):
                self.traffic.ping(one)
            tick += ticks
            self._emit(tick)
        return tick

    def _waiting(self) -> float:
        """Return the approximate bytes of the pending events."""
        kinds = np.concatenate([one[KIND] for one in self.traffic.pending])
        return 1.1 * (float((kinds == DISPATCH).sum()) * self.entry + len(kinds) * 30)

    def _drain(self, tick: int) -> int:
        """Emit all pending events; return the tick after the last."""
        while (last := max((int(one[TICK].max(initial=-1)) for one in self.traffic.pending), default=-1)) >= 0:
            tick = min(tick + 1 + int(BLOCK / (self.load.rate * self.load.tick_ns / 1e9)), max(tick, last + 1))
            self._emit(tick)
        return tick

    def _emit(self, before: int) -> None:
        """Emit the events that are due."""
        events = self.traffic.due(before)
        waiting = np.concatenate([one[MSG] for one in self.traffic.pending])
        if events.shape[1]:
            self._send(events)
        self.encoder.forget(int(waiting[waiting >= 0].min(initial=self.traffic.messages)))

    def _send(self, events: Any) -> None:
        frames, leader = self.encoder.encode(events)
        sizes = np.fromiter(map(len, frames), np.int64, len(frames))
        ends = np.cumsum(sizes)
        data = b"".join(frames)
        first = sizes > 0
        packets, starts, times = self.segments.cut(events[TICK][first], events[DIRECTION][first], ends[first])
        kept = self._packets(packets, data, len(starts))
        begin = np.searchsorted(starts, (ends - sizes)[leader], side="right") - 1
        end = np.searchsorted(starts, ends[leader] - 1, side="right") - 1
        self.truth.events(events, times[end], _captured(kept, begin, end), first)

    def _packets(self, packets: Packets, data: bytes, segments: int) -> Any:
        """Write the captured packets.

        Return 2 for each captured segment, 1 if a copy of a part is captured, otherwise 0.
        """
        kept = self._kept(packets)
        self.truth.lost(packets.take(~kept))
        packets = packets.take(kept)
        if len(packets):
            self.truth.record_streams(packets.direction >> 1)
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
        """Return which packets are captured."""
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
    """Return for frames from segment ``begin`` to ``end``: 2 captured, 1 in part, 0 not."""
    whole, some = np.cumsum(np.r_[0, state == 2]), np.cumsum(np.r_[0, state > 0])
    many = end - begin + 1
    return np.where(whole[end + 1] - whole[begin] == many, 2, some[end + 1] - some[begin] > 0)
