"""--incremental: for any cuts, orders and batches of files, and after kills, the rows equal those of one run.

Several captures are laid over each other, so that connections of different groups begin and end in all files. Files are
cut between any two packets, so frames continue in the next batch, and each batch is read by one reader or in splits.
"""

import json
import random
import shutil
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pcli.codec.capture import Packet, PcapngWriter, read_packets
from pcli.spark.analysis import analyze
from pcli.spark.columnar.observation import connection_groups
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.stages import observe_connections
from pcli.spark.tables import run_commit
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.run_commit import OpenRun
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store

CAPTURES = (
    "faults/corrupt-messages.pcap", "faults/doubled-flow.pcap", "faults/dropped-receipt.pcap", "faults/lost-ack.pcap",
    "faults/sticky-hole.pcap", "flex/01-produce-consume.pcap", "flex/04-reconnect.pcapng", "go/batch-index.pcap",
    "go/nack.pcap", "java/key-shared-sticky.pcap", "java/late-capture.pcap", "java/pattern-watcher.pcap",
    "java/refusals.pcap", "java/txn-commit.pcap", "python/10-shared-redelivery.pcap", "python/23-dedup.pcap",
    "python/25-no-flow.pcapng", "rust/cumulative-ack.pcap",
)  # fmt: skip
STEPS = ((run_commit, "commit_files"), (Store, "move"), (OpenRun, "complete"), (run_commit, "_remove_work"))
"""Functions of which one call in a run does not return, because the process is killed."""


class Killed(BaseException):
    """The end of a process."""


def laid_over(paths):
    """Return the packets of all captures in order of time, as if all had begun at the same time."""
    packets = []
    for path in paths:
        with path.open("rb") as file:
            some = [item for item in read_packets([(path.name, file)]) if isinstance(item, Packet)]
        packets += (replace(one, time_ns=one.time_ns - some[0].time_ns + 10**18) for one in some)
    return sorted(packets, key=lambda one: one.time_ns)


def write(packets, path):
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        for packet in packets:
            writer.packet(packet)


def rows(out):
    stored = StoredTables(str(out))
    tables = {name: stored.read(name).to_pylist() for name in stored.names}
    return {name: sorted(json.dumps(row, sort_keys=True, default=repr) for row in tables[name]) for name in tables}


class Apart(InProcess):
    """An engine that reads splits independently, like that of Spark."""

    apart = True


def run(captures, out, *, incremental=True, split_bytes=0):
    """Write all tables. If ``split_bytes`` is set, files are read in splits of this size."""
    only = tuple(name for name in TABLES if name != "captures")
    request = Request((str(captures),), str(out), only=only, incremental=incremental)
    if split_bytes:
        analyze(replace(request, split_bytes=split_bytes), Apart())
    else:
        analyze(request, InProcess())


def run_killed(run, step, calls):
    """Call ``run`` until this call of a step, where the process is killed: nothing is undone."""
    whole = getattr(*step)
    left = calls

    def killed(*args, **more):
        nonlocal left
        left -= 1
        if not left:
            raise Killed
        return whole(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*step, killed)
        patch.setattr(OpenRun, "abandon", lambda _: None)
        try:
            run()
        except Killed:
            return


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(data=st.data())
def test_rows_equal_those_of_one_run(small_captures, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("stream")
    captures = folder / "captures"
    captures.mkdir()
    names = data.draw(st.lists(st.sampled_from(CAPTURES), min_size=1, max_size=4, unique=True))
    packets = laid_over([small_captures / name for name in names])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(packets)), max_size=5)))
    files = []
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        if start < end:
            files.append(folder / f"part_{number:03}.pcapng")
            write(packets[start:end], files[-1])
    order = files if data.draw(st.booleans(), label="in order") else data.draw(st.permutations(files))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans(), label="small groups"):
            patch.setattr(connection_groups, "PACKED_FRAMES", 0)
            patch.setattr(observe_connections, "PACKED_FRAMES", 0)
        while order:
            size = data.draw(st.integers(1, len(order)), label="batch")
            for path in order[:size]:
                shutil.copy2(path, captures)
            order = order[size:]
            split_bytes = data.draw(st.sampled_from((0, 500, 5_000, 50_000)), label="split")
            step = data.draw(st.sampled_from((None, *STEPS)), label="killed at")
            batch = partial(run, captures, folder / "out", split_bytes=split_bytes)
            if step is not None:
                run_killed(batch, step, data.draw(st.integers(1, 9), label="call"))
            batch()
        run(captures, folder / "whole", incremental=False)
    got, wanted = rows(folder / "out"), rows(folder / "whole")
    assert got.keys() == wanted.keys()
    for name, table in wanted.items():
        assert got[name] == table, name


@pytest.mark.slow
@pytest.mark.parametrize("client", ["flex", "go", "java", "rust"])
def test_the_corpus_in_batches_of_random_files(captures, tmp_path, client):
    chosen = random.Random(client)
    files = sorted((captures / client).glob("*.pcap*"))
    (tmp_path / "captures").mkdir()
    chosen.shuffle(files)
    while files:
        size = chosen.randint(1, 9)
        for path in files[:size]:
            shutil.copy2(path, tmp_path / "captures")
        del files[:size]
        run(tmp_path / "captures", tmp_path / "out")
    run(tmp_path / "captures", tmp_path / "whole", incremental=False)
    assert rows(tmp_path / "out") == rows(tmp_path / "whole")
