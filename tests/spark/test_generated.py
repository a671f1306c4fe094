"""Generated load: the generator compared with the object path, the tables compared with the truth.

The loads are small, with few bytes a second, so that one second of lag or loss affects many frames.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, read_capture
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.wire import name_of
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
try:
    from load.ground_truth import GroundTruth
    from load.load_writer import write_load
    from load.settings import Load
    from load.table_check import CheckResult, check_exchanges, check_messages
finally:
    del sys.path[0]

ALL = ("Exclusive", "Failover", "Shared", "Key_Shared")
BASE = Load(size=600_000, rate=3_000_000, nacks=0.03, ping=0.1, ledger=300, connections=9)

LOADS = {
    "unbatched": BASE,
    "four types": replace(BASE, subscriptions=ALL, connections=16, reorder=0.01, retransmit=0.01, seed=2),
    "batches": replace(BASE, batch=50, queue=4000, message_size=100, seed=3),
    "large": replace(BASE, message_size=20_000, rate=20_000_000, seed=4),
    "lag": replace(BASE, lag=0.15, ack_lag=0.02, seed=5),
    "rotated": replace(BASE, rotate=120_000, micro=True, seed=6),
    "many connections": replace(BASE, connections=120, subscriptions=("Shared",), seed=7),
}
"""Loads whose captures are complete."""
DAMAGED = {
    "loss": replace(BASE, loss=0.004, reorder=0.01, retransmit=0.01, seed=8),
    "loss, four types": replace(BASE, subscriptions=ALL, loss=0.02, burst=8, seed=9),
    "loss in batches": replace(BASE, batch=50, queue=4000, loss=0.03, seed=10),
    "begins in the middle": replace(BASE, size=1_000_000, midstream=0.4, seed=11),
    "ends in the middle": replace(BASE, abrupt=True, seed=12),
    "all of it": replace(
        BASE, size=1_000_000, subscriptions=ALL, midstream=0.2, abrupt=True, loss=0.005, reorder=0.01, retransmit=0.01,
        lag=0.05, rotate=200_000, seed=13,
    ),
}  # fmt: skip


@dataclass
class GeneratedLoad:
    """A load on disk."""

    paths: list[Path]
    truth: GroundTruth

    def tables(self, out: Path, engine: InProcess | None = None, split: int = 128 << 20) -> dict[str, Any]:
        """Return its tables messages and exchanges."""
        paths = tuple(str(path) for path in self.paths)
        request = Request(paths, str(out), only=("messages", "exchanges"), split_bytes=split)
        analyze(request, engine or InProcess())
        tables = StoredTables(str(out))
        return {name: tables.read(name) for name in ("messages", "exchanges")}


class ParallelInProcess(InProcess):
    """Reads splits independently and merges them, as on Spark."""

    apart = True  # type: ignore[misc]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Generates each load once."""
    known: dict[Load, GeneratedLoad] = {}

    def make(load: Load) -> GeneratedLoad:
        if load not in known:
            folder = tmp_path_factory.mktemp("load")
            known[load] = GeneratedLoad(write_load(load, folder), GroundTruth(folder))
        return known[load]

    return make


def items(paths: list[Path]) -> Any:
    files = [(path.name, path.open("rb")) for path in paths]
    try:
        yield from read_capture(files, ReadOptions(ends=True))
    finally:
        for _, file in files:
            file.close()


# -- the generator -----------------------------------------------------------------------------------------------------


def ids(frame: CapturedFrame) -> list[tuple[Any, ...]]:
    """Return the rows of the truth for a frame: one for each message."""
    command, connection = frame.command, frame.stream.number
    match name_of(frame.type):
        case "SEND":
            return [("send", connection, command.send.producer_id, command.send.sequence_id)]
        case "SEND_RECEIPT":
            place = command.send_receipt.message_id
            return [("receipt", connection, command.send_receipt.producer_id, place.ledgerId, place.entryId)]
        case "MESSAGE":
            place, again = command.message.message_id, command.message.redelivery_count
            return [("dispatch", connection, command.message.consumer_id, place.ledgerId, place.entryId, again)]
        case "ACK":
            kind, owner = ("ack", "cumulative")[command.ack.ack_type], command.ack.consumer_id
            return [(kind, connection, owner, one.ledgerId, one.entryId) for one in command.ack.message_id]
        case "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            body = command.redeliverUnacknowledgedMessages
            return [("nack", connection, body.consumer_id, one.ledgerId, one.entryId) for one in body.message_ids]
        case "ACK_RESPONSE":
            return [("answer", connection, command.ackResponse.consumer_id, command.ackResponse.request_id)]
        case _:
            return []


def of_truth(folder: Path) -> list[tuple[tuple[Any, ...], int]]:
    """Return `ids` of each frame with its time, and whether it is captured: 2 completely, 1 in part, 0 not."""
    columns = {"send": ["sequence"], "answer": ["request"], "dispatch": ["ledger", "entry", "redelivery"]}
    rows = []
    for row in pq.read_table(folder / "truth.parquet").to_pylist():
        names = ["kind", "connection", "owner", *columns.get(row["kind"], ["ledger", "entry"]), "time_ns"]
        rows.append((tuple(row[name] for name in names), row["captured"]))
    return rows


@pytest.mark.parametrize("name", LOADS)
def test_the_object_path_reads_the_true_frames(name: str, generated: Any) -> None:
    load = generated(LOADS[name])
    frames = [item for item in items(load.paths) if isinstance(item, CapturedFrame)]
    assert [problem for frame in frames for problem in frame.problems] == []
    assert len(frames) == load.truth.settings["frames"]
    read = Counter((*row, frame.time_ns) for frame in frames for row in ids(frame))
    assert read == Counter(row for row, _ in of_truth(load.paths[0].parent))


@pytest.mark.parametrize("name", ["four types", "lag", "batches"])
def test_a_load_has_only_the_expected_findings(name: str, generated: Any) -> None:
    diagnosis, observer = Diagnosis(), Observer()
    for item in items(generated(LOADS[name]).paths):
        if isinstance(item, CapturedFrame):
            diagnosis.see(observer.see(item))
        elif isinstance(item, StreamEnd):
            diagnosis.ended(item)
        else:
            diagnosis.note(item)
    diagnosis.finish()
    assert {found.rule for found in diagnosis.findings()} <= {
        "standby",
        "redelivered-after-nack",
        "whole-batches-again",
    }


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    load = replace(DAMAGED["all of it"], size=300_000)
    first, again, other = (
        [path.read_bytes() for path in write_load(replace(load, seed=seed), tmp_path / name)]
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert first == again != other


def test_lost_packets_are_in_the_truth(tmp_path: Path) -> None:
    load = GeneratedLoad(write_load(DAMAGED["loss"], tmp_path), GroundTruth(tmp_path))
    frames = [item for item in items(load.paths) if isinstance(item, CapturedFrame)]
    there = {(*row, frame.time_ns) for frame in frames for row in ids(frame)}
    truth = of_truth(tmp_path)
    whole, some, none = ({row for row, captured in truth if captured == how} for how in (2, 1, 0))
    assert len(some) + len(none) > 0
    assert there.isdisjoint(none)
    # After a gap a few frames may not be found; nothing else is missing.
    assert len(whole - there) < 0.1 * len(whole)


# -- the tables --------------------------------------------------------------------------------------------------------


def checked(load: GeneratedLoad, tables: dict[str, Any]) -> CheckResult:
    result = check_messages(tables["messages"], load.truth)
    assert result.good, "\n".join(result.lines())
    asked = check_exchanges(tables["exchanges"], load.truth)
    assert asked.good, "\n".join(asked.lines())
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_tables_equal_the_truth(name: str, generated: Any, tmp_path: Path) -> None:
    load = generated(LOADS[name])
    result = checked(load, load.tables(tmp_path / "out"))
    assert result.counts["rows"] == load.truth.messages
    assert result.counts["right"] == result.counts["facts"]
    assert result.counts["rows marked"] == result.counts["hidden"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_captures_give_marked_rows_and_no_invented_facts(name: str, generated: Any, tmp_path: Path) -> None:
    load = generated(DAMAGED[name])
    result = checked(load, load.tables(tmp_path / "out"))
    assert result.counts["rows marked"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four types", "batches", "all of it", "rotated"])
def test_splits_of_any_size_give_the_same_tables(name: str, generated: Any, tmp_path: Path) -> None:
    load = generated({**LOADS, **DAMAGED}[name])
    whole = sorted_rows(load.tables(tmp_path / "whole"))
    chance = random.Random(name)
    for turn in range(5):
        split = int(2 ** chance.uniform(16.5, 19.5))
        assert sorted_rows(load.tables(tmp_path / str(turn), ParallelInProcess(), split)) == whole, split


def sorted_rows(tables: dict[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(map(repr, table.to_pylist())) for name, table in tables.items()}
