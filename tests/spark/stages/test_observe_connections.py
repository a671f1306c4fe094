"""Divided groups of connections give the tables of undivided groups."""

import json

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.columnar.observation import group_division
from pcli.spark.columnar.observation.observation_schemas import TABLES
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.stages import observe_connections
from pcli.spark.tables.stored_tables import StoredTables

NAMES = tuple(TABLES)


class Several(InProcess):
    """An engine that reports several simultaneous tasks."""

    def __init__(self):
        super().__init__()
        self.stages = []

    @property
    def parallel(self):
        return 4

    def exchange(self, what, *others, **more):
        found = super().exchange(what, *others, **more)
        self.stages.append((what, len(found)))
        return found


def tables(out, paths, engine):
    analyze(Request(tuple(map(str, paths)), str(out), only=NAMES, cluster="a"), engine)
    stored = StoredTables(str(out))
    return {name: sorted(json.dumps(row, default=repr) for row in stored.read(name).to_pylist()) for name in NAMES}


def test_all_captures_in_one_recording(tmp_path, small_captures, monkeypatch):
    paths = [path for path in sorted(small_captures.rglob("*")) if path.suffix in (".pcap", ".pcapng")]
    whole = tables(tmp_path / "whole", paths, InProcess())
    monkeypatch.setattr(group_division, "_LEAST_GAIN", 0)
    monkeypatch.setattr(observe_connections, "_PART", 300)
    engine = Several()
    assert tables(tmp_path / "divided", paths, engine) == whole
    assert dict(engine.stages)["observe topics"] > 10


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_group_dominated_by_one_topic_is_not_divided(tmp_path, small_captures, monkeypatch, parallel):
    monkeypatch.setattr(group_division, "_LEAST_GAIN", 0)
    monkeypatch.setattr(Several, "parallel", parallel)
    engine = Several()
    tables(tmp_path / "out", [small_captures / "go/nack.pcap"], engine)
    assert [what for what, _ in engine.stages if what.startswith("observe")] == ["observe"]
