"""Independent splits give the tables of one reader, for all boundaries."""

import random

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

CAPTURES = [
    "flex/01-produce-consume.pcap",
    "flex/04-reconnect.pcapng",
    "go/chunks.pcap",
    "java/cut-packets.pcap",
    "java/late-capture.pcap",
    "java/scalable-topic.pcap",
    "java/txn-commit.pcap",
    "python/10-shared-redelivery.pcap",
    "python/37-packets-lost.pcap",
]


LIVES = ("messages", "exchanges")
"""Tables for which a split is read only once."""


class Apart(InProcess):
    """Reads splits independently, as on Spark, but without Spark."""

    apart = True

    def __init__(self):
        self.told = []
        super().__init__(self.told.append)

    def tasks(self, what):
        """Return the number of tasks of a stage."""
        return sum(one.total for one in self.told if one.what == what and one.done == one.total)


def tables(out, paths, engine, **options):
    """Return every table, or those of ``only``, as sorted rows."""
    analyze(Request(tuple(map(str, paths)), str(out), frames="only" not in options, **options), engine)
    stored = StoredTables(str(out))
    return {name: sorted(map(repr, stored.read(name).to_pylist())) for name in stored.names}


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_tables_are_those_of_one_reader(small_captures, tmp_path, name):
    path = small_captures / name
    wanted = tables(tmp_path / "one", [path], InProcess())
    assert wanted["frames"]
    chance = random.Random(name)
    for size in (3000, chance.randrange(3000, 60_000)):
        engine = Apart()
        assert tables(tmp_path / f"apart-{size}", [path], engine, split_bytes=size) == wanted, size
        assert engine.tasks("parse") >= min(2, path.stat().st_size // (2 * size))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_so_do_splits_that_are_read_once(small_captures, tmp_path, name):
    path = small_captures / name
    wanted = tables(tmp_path / "one", [path], InProcess(), only=LIVES)
    assert wanted["messages"]
    chance = random.Random(name)
    for size in (3000, chance.randrange(3000, 60_000)):
        found = tables(tmp_path / f"apart-{size}", [path], Apart(), split_bytes=size, only=LIVES)
        assert found == wanted, size


def test_so_do_parts_of_a_recording(parts_of, tmp_path):
    """The tables differ from those of the single parts, because connections continue from one part to the next."""
    parts = parts_of("flex/01-produce-consume.pcap", 4)
    wanted = tables(tmp_path / "one", parts, InProcess())
    engine = Apart()
    assert tables(tmp_path / "apart", parts, engine, split_bytes=5000) == wanted
    assert engine.tasks("parse") > len(parts)


def test_a_time_in_the_middle(small_captures, tmp_path):
    path = small_captures / "python" / "10-shared-redelivery.pcap"
    every = tables(tmp_path / "all", [path], InProcess())
    times = sorted(row["time_ns"] for row in StoredTables(str(tmp_path / "all")).read("frames").to_pylist())
    between = {"since_ns": times[len(times) // 4], "until_ns": times[len(times) // 2]}
    wanted = tables(tmp_path / "one", [path], InProcess(), **between)
    assert 0 < len(wanted["frames"]) < len(every["frames"])
    assert tables(tmp_path / "apart", [path], Apart(), split_bytes=20_000, **between) == wanted


def test_a_file_that_is_cut_off(small_captures, tmp_path):
    data = (small_captures / "flex" / "01-produce-consume.pcap").read_bytes()
    path = tmp_path / "cut.pcap"
    path.write_bytes(data[: len(data) * 2 // 3 + 5])
    wanted = tables(tmp_path / "one", [path], InProcess())
    assert "'status': 'partly'" in wanted["captures"][0]
    for size in (3000, 20_000):
        assert tables(tmp_path / f"apart-{size}", [path], Apart(), split_bytes=size) == wanted


@pytest.mark.parametrize("engine", [InProcess, Apart])
def test_a_note_has_the_time_of_its_packet_in_any_split(small_captures, parts_of, tmp_path, engine):
    """A note may refer to a packet that waited for bytes in a later file."""
    path = small_captures / "python" / "37-packets-lost.pcap"
    times = {}
    for name, paths in (("whole", [path]), ("cut", parts_of("python/37-packets-lost.pcap", 40))):
        analyze(Request(tuple(map(str, paths)), str(tmp_path / name), only=("gaps",)), engine())
        rows = StoredTables(str(tmp_path / name)).read("gaps").to_pylist()
        times[name] = sorted((row["packet"], row["time_ns"]) for row in rows)
    assert times["cut"] == times["whole"]
    assert all(time_ns for _, time_ns in times["whole"])


def test_results_of_the_end_belong_to_the_last_file_with_packets(parts_of, tmp_path):
    """A rotation continues after a silent part, and --until may exclude all packets of a file."""
    parts = parts_of("python/37-packets-lost.pcap", 3)
    analyze(Request((str(parts[0]),), str(tmp_path / "first"), only=("gaps",)), InProcess())
    until = StoredTables(str(tmp_path / "first")).read("captures").to_pylist()[0]["last_ns"] + 1
    wanted = tables(tmp_path / "one", parts, InProcess(), until_ns=until)
    assert tables(tmp_path / "apart", parts, Apart(), until_ns=until) == wanted
    rows = StoredTables(str(tmp_path / "one")).read("captures").to_pylist()
    assert [bool(row["frames"]) for row in rows] == [bool(row["packets"]) for row in rows] == [True, False, False]
