"""The analysis for programs with a Spark session, and frames as a data source."""

import pytest

import pcli.spark
from pcli.codec.errors import LocalError
from pcli.spark.analysis import analyze
from pcli.spark.columnar.fields.frame_table import FRAMES
from pcli.spark.engine import InProcess
from pcli.spark.jobs.api import read_table
from pcli.spark.jobs.data_source import PulsarCapture
from pcli.spark.jobs.paths import plain_path, spark_path
from pcli.spark.jobs.schemas import ddl_of
from pcli.spark.request import Request
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables

NAME = "flex/01-produce-consume.pcap"
OTHER = "python/10-shared-redelivery.pcap"


def plain(value):
    """Convert rows and lists of Spark to Python values."""
    if hasattr(value, "asDict"):
        return {name: plain(one) for name, one in value.asDict().items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def rows(frame):
    return sorted((plain(row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def wanted(small_captures, tmp_path_factory):
    out = tmp_path_factory.mktemp("wanted") / "out"
    analyze(Request((str(small_captures / NAME),), str(out), frames=True), InProcess())
    return StoredTables(str(out))


@pytest.fixture(scope="module")
def captures(spark, small_captures):
    return spark.read.format("binaryFile").load(str(small_captures / NAME)).select("path", "length")


def test_messages_as_a_data_frame(captures, wanted, tmp_path):
    found = captures.transform(pcli.spark.read_messages, str(tmp_path / "out"))
    assert rows(found) == sorted(wanted.read("messages").to_pylist(), key=repr)


def test_the_summary_lists_the_tables(captures, tmp_path):
    made = pcli.spark.analyze(captures, str(tmp_path / "out"), only="connections")
    assert {row["table"]: row["rows"] for row in made.collect()} == {"captures": 1, "gaps": 0, "connections": 7}


@pytest.mark.slow
def test_every_table_has_its_own_types_in_spark(spark, wanted):
    for name in wanted.names:
        table = read_table(spark, wanted.root, name)
        assert table.columns == TABLES[name].schema.names
        assert rows(table) == sorted(wanted.read(name).to_pylist(), key=repr), name


def test_a_table_that_is_not_there(spark, captures, tmp_path):
    with pytest.raises(LocalError, match="the folder contains no tables"):
        read_table(spark, str(tmp_path), "messages")
    with pytest.raises(LocalError, match="no such file"):
        pcli.spark.analyze(spark.createDataFrame([(str(tmp_path / "x"),)], "path string"), str(tmp_path / "out"))


@pytest.fixture(autouse=True)
def data_source(spark):
    """Each worker of pytest-xdist has its own session and runs only some of these tests."""
    spark.dataSource.register(PulsarCapture)


@pytest.mark.slow
def test_frames_as_a_data_source(spark, small_captures, wanted):
    frames = spark.read.format("pulsar_capture").load(str(small_captures / NAME))
    assert frames.columns == FRAMES.names
    assert rows(frames) == sorted(wanted.read("frames", FRAMES.names).to_pylist(), key=repr)


def test_a_data_source_with_a_key_log(spark, small_captures, tmp_path):
    spark.dataSource.register(PulsarCapture)
    read = spark.read.format("pulsar_capture").option("keylog", str(small_captures / "tls" / "chacha20.keylog"))
    assert read.load(str(small_captures / "tls" / "chacha20.pcap")).count() == 56
    with pytest.raises(LocalError, match="keylog /nowhere: no such file"):
        PulsarCapture({"path": str(tmp_path), "keylog": "/nowhere"}).reader(None)


def test_a_data_source_of_several_paths(spark, small_captures):
    paths = [str(small_captures / name) for name in (NAME, OTHER)]
    read = spark.read.format("pulsar_capture")
    assert read.load(paths).count() == sum(read.load(path).count() for path in paths) > 0


def test_a_data_source_of_nothing(spark, tmp_path):
    frames = spark.read.format("pulsar_capture").load(str(tmp_path / "none"))
    with pytest.raises(Exception, match="no such file or folder"):
        frames.collect()


@pytest.fixture
def damaged(small_captures, tmp_path):
    """A folder with a capture, a capture of a different recording that ends within a packet, and a text file."""
    data = (small_captures / NAME).read_bytes()
    other = (small_captures / OTHER).read_bytes()
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "a.pcap").write_bytes(data)
    (folder / "b.pcap").write_bytes(other[:-10])
    (folder / "c.txt").write_text("no capture at all, that is for sure")
    return folder


@pytest.mark.slow
def test_a_data_source_does_not_pass_over_damage(spark, damaged):
    with pytest.raises(Exception, match=r"b\.pcap: .*ignoreCorruptFiles"):
        spark.read.format("pulsar_capture").load(str(damaged)).count()
    assert spark.read.format("pulsar_capture").load(str(damaged / "a.pcap")).count() > 0


def test_ignore_corrupt_files_returns_the_readable_part(spark, damaged):
    reader = spark.read.format("pulsar_capture").option("cluster", str(damaged / "{cluster}.*"))
    frames = reader.option("ignoreCorruptFiles", True).load(str(damaged))
    assert {row["cluster"] for row in frames.select("cluster").distinct().collect()} == {"a", "b"}


def test_an_unreadable_file_is_reported_with_the_plan(damaged):
    (damaged / "d.pcap").write_bytes(b"\x1f\x8bno gzip at all, that is for sure")
    with pytest.raises(LocalError, match=r"d\.pcap: .*ignoreCorruptFiles"):
        PulsarCapture({"path": str(damaged)}).reader(None).partitions()
    found = PulsarCapture({"path": str(damaged), "ignoreCorruptFiles": "true"}).reader(None).partitions()
    assert [part.recording.cluster for part in found] == ["default"]


def test_paths():
    assert plain_path("file:/a b/c.pcap") == plain_path("file:///a b/c.pcap") == "/a b/c.pcap"
    assert plain_path("s3a://bucket/x") == "s3://bucket/x"
    assert spark_path("s3://bucket/x") == "s3a://bucket/x"
    assert spark_path("/a b/c") == "file:///a b/c"
    assert plain_path(spark_path("/a b/c")) == "/a b/c"


def test_all_schemas_can_be_converted_for_spark(spark):
    from pyspark.sql.types import StructType

    for table in TABLES.values():
        assert StructType.fromDDL(ddl_of(table.schema)).fieldNames() == table.schema.names
