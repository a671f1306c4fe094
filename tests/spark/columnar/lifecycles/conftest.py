"""Recordings on both paths: the tracker, and splits, windows and buckets as columns."""

from __future__ import annotations

import dataclasses
import gzip
import io
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, read_capture
from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.lifecycles import row_operations
from pcli.spark.columnar.lifecycles.bucket_merge import merge_bucket
from pcli.spark.columnar.lifecycles.collect_recording_facts import collect_facts
from pcli.spark.columnar.lifecycles.cumulative_acks import (
    acks_by_subscription,
    effective_acks,
    first_acks_after,
    later_acks_of,
    summarize_acks,
)
from pcli.spark.columnar.lifecycles.exchange_rows import exchanges_of_acks, exchanges_of_requests
from pcli.spark.columnar.lifecycles.messages_of_driver import messages_of_driver, questions_of
from pcli.spark.columnar.lifecycles.pairs_across_splits import (
    ack_ranges,
    frames_of_acks,
    pair_acks,
    pair_sends,
    requests_of_bytes,
    send_ranges,
    sends_outside,
    separate_requests,
)
from pcli.spark.columnar.lifecycles.partial_renumbering import Renumbering, concat_partials, renumber_table
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.resend_candidates import separate_candidates
from pcli.spark.columnar.lifecycles.resent_messages import resolve_sends
from pcli.spark.columnar.lifecycles.row_operations import shuffle_key
from pcli.spark.columnar.lifecycles.split_aggregation import SplitAggregator
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent


class Recording:
    """Return frames, notes and ends as read_capture yields them."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.frames = [item for item in items if isinstance(item, CapturedFrame)]
        self.asides: list[tuple[int, Any]] = []
        streams: dict[int, Stream] = {}
        seen = 0
        for item in items:
            if item.stream is not None:
                streams[item.stream.number] = item.stream
            if isinstance(item, CapturedFrame):
                seen += 1
            else:
                self.asides.append((seen, item))
        self.streams = list(streams.values())

    @classmethod
    def of(cls, data: bytes) -> Recording:
        return cls(list(read_capture([("", io.BytesIO(data))], ReadOptions(ends=True))))


class Bulk:
    """The tables of a recording from splits of several windows, merged in buckets."""

    def __init__(self, recording: Recording, dice: random.Random | None = None, *, told_apart: bool = False) -> None:
        """``told_apart``: notes and ends have the recording's numbers, as the merge of splits produces them."""
        self.recording = recording
        self.told_apart = told_apart
        usual = row_operations.ENTRY_BLOCK
        row_operations.ENTRY_BLOCK = usual if dice is None else dice.choice([1, 3, usual])
        try:
            self._make(dice)
        finally:
            row_operations.ENTRY_BLOCK = usual

    def _make(self, dice: random.Random | None) -> None:
        """Make all tables. Blocks of entries may have an unusual size."""
        recording, told_apart = self.recording, self.told_apart
        borders = [0, len(recording.frames)]
        if dice is not None and recording.frames:
            borders += [dice.randrange(len(recording.frames)) for _ in range(dice.randrange(8))]
        borders.sort()
        parts = [self._split(at, low, high, dice) for at, (low, high) in enumerate(pairwise(borders))]
        if told_apart:
            aggregator = SplitAggregator()
            times = [0, *(one.time_ns for one in recording.frames)]
            asides = enumerate(recording.asides, 1)
            aggregator.add_events(RecordingEvent(after, times[after], order, item) for order, (after, item) in asides)
            parts.append(aggregator.finish())
        self.small = concat_partials(parts)
        self.requests = requests_of_bytes(self.small.forwarded)
        called = frames_of_acks(separate_requests(self.small.ack_halves, self.requests)[1])
        self.small.forwarded = pa.concat_tables([self.small.forwarded, called])
        self.facts = collect_facts(self.small, recording.streams)
        acks = [effective_acks(part.cumulative, self.facts) for part in parts]
        self.facts.later_acks = later_acks_of(pa.concat_tables([summarize_acks(one, self.facts) for one in acks]))
        self.facts.odd_acks = pa.concat_tables([one.filter(pc.invert(one.column("usual"))) for one in acks])
        ranges = send_ranges(self.small.unpaired)
        paired = pair_sends(ranges.inside(self.small.halves), self.facts)
        self.facts.resend_candidates += paired.ambiguous
        sent = pa.concat_tables([self.small.published, sends_outside(ranges, self.small.halves), paired.published])
        published = separate_candidates(sent, self.facts)[0]
        self.back = separate_candidates(pa.concat_tables([self.small.published, self.small.halves]), self.facts)[1]
        self.resolved = resolve_sends(self.small, self.back, self.facts, recording.streams)
        buckets = 1 if dice is None else dice.randrange(1, 5)
        tables = (published, self.small.consumed, self.resolved, placed(self.small.cumulative))
        self.merged = [
            merge_bucket(*(_bucket(table, at, buckets) for table in tables), self.facts, "c") for at in range(buckets)
        ]
        chunks = pa.concat_tables([one.chunks for one in self.merged])
        left = [message for one in self.merged for message in one.left]
        questions = questions_of(chunks, left, self.facts)
        answers = pa.concat_tables([first_acks_after(one, *questions) for one in acks])
        exact = dataclasses.replace(self.facts, cumulative_acks=acks_by_subscription(answers, self.facts))
        usual, chunked, _ = messages_of_driver(chunks, left, self.resolved, exact, "c")
        self.rest = pa.concat_tables([usual, chunked])

    def _split(self, split: int, low: int, high: int, dice: random.Random | None) -> Any:
        """Read one split, with numbers of connections and frames that are relative to the split."""
        recording = self.recording
        streams = [one.number for one in recording.streams]
        if dice is not None:
            dice.shuffle(streams)
        own = {number: at for at, number in enumerate(streams)}
        aggregator = SplitAggregator()
        borders = sorted([low, high] + ([dice.randrange(low, high + 1)] if dice is not None else []))
        for begin, end in pairwise(borders):
            frames = read_fields(places_of(recording.frames[begin:end]))
            frames.places.stream = np.array([own[one] for one in frames.places.stream.tolist()], np.int64)
            asides = [
                (after - begin, _moved(item, own))
                for after, item in recording.asides
                if begin < after <= end or (not after and not begin and not split)
            ]
            if self.told_apart:
                asides = []
            aggregator.add(frames, asides)
        numbers = np.arange(low, high, dtype=np.int64) + 1
        own, shift = aggregator.finish(), Renumbering.of(np.array(streams, np.int64), numbers)
        return Partials(**{name: renumber_table(name, getattr(own, name), shift) for name in PARTIALS})

    def messages(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pa.concat_tables([*(one.messages for one in self.merged), self.rest]).to_pylist()
        return rows

    def exchanges(self) -> list[dict[str, Any]]:
        facts, streams = self.facts, self.recording.streams
        ranges, halves = ack_ranges(self.small.unpaired), separate_requests(self.small.ack_halves, self.requests)[0]
        paired = pair_acks(ranges.inside(halves))
        acks = (self.small.answered, paired.answered, paired.alone, ranges.outside(halves))
        few = dataclasses.replace(
            self.small, forwarded=pa.concat_tables([self.small.forwarded, frames_of_acks(paired.ambiguous)])
        )
        tables = [
            exchanges_of_requests(few, facts, streams, "c"),
            *(exchanges_of_acks(one, facts, streams, "c") for one in acks),
        ]
        rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
        return sorted(rows, key=lambda row: row["asked_frame"])


def _moved(item: Any, own: dict[int, int]) -> Any:
    stream = item.stream
    if stream is None:
        return item
    moved = Stream(own[stream.number], stream.client, stream.server, midstream=stream.midstream)
    return dataclasses.replace(item, stream=moved)


def placed(cumulative: pa.Table) -> pa.Table:
    ledger, entry = (cumulative.column(name).to_numpy() for name in ("ledger", "entry"))
    return cumulative.append_column("place", pa.array(shuffle_key(ledger, entry, np.zeros_like(entry))))


def _bucket(table: pa.Table, at: int, buckets: int) -> pa.Table:
    return table.filter(pa.array(table.column("place").to_numpy() % buckets == at))


class Captures:
    """The captures of a folder."""

    def __init__(self, folder: Path) -> None:
        self._made: dict[str, tuple[Recording, Bulk]] = {}
        self._paths = {
            f"{path.parent.name}/{path.name.partition('.pcap')[0]}": path for path in sorted(folder.glob("*/*.pcap*"))
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def made(self, name: str) -> tuple[Recording, Bulk]:
        """A recording, and its tables made in one split."""
        if name not in self._made:
            recording = self.recording(name)
            self._made[name] = recording, Bulk(recording)
        return self._made[name]

    def recording(self, name: str) -> Recording:
        path = self._paths[name]
        data = path.read_bytes()
        return Recording.of(gzip.decompress(data) if path.suffix == ".gz" else data)


@pytest.fixture(scope="session")
def whole(captures: Path) -> Captures:
    """The whole corpus."""
    return Captures(captures)


@pytest.fixture(scope="session")
def few(small_captures: Path) -> Captures:
    """The committed captures."""
    return Captures(small_captures)


@pytest.fixture(scope="session")
def bulk() -> type[Bulk]:
    """Creates the tables of a recording."""
    return Bulk


@pytest.fixture(scope="session")
def recorded() -> type[Recording]:
    """Creates a recording of items, or of bytes (`of`)."""
    return Recording
