"""Analysis of decrypted TLS connections: the rows are those of the codec path, for every engine and division."""

from __future__ import annotations

import io
import random

import pytest

from pcli.codec.capture import CapturedFrame, PcapngWriter, ReadOptions, read_capture
from pcli.codec.capture.packets import TLS_KEY_LOG, Packet, Secrets
from pcli.codec.capture.reading import read_packets
from pcli.spark.analysis import analyze
from pcli.spark.columnar.reading import capture_reader, window_decoder
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from tests.spark.columnar.read_windows import read_places


class Apart(InProcess):
    """Reads splits independently, as on Spark, but without Spark."""

    apart = True


@pytest.fixture
def tls(captures, tmp_path):
    """A capture of TLS, its key log, and the same capture with the key log inside."""
    folder = captures / "python"
    data, key_log = (folder / "21-tls.pcapng").read_bytes(), (folder / "21-tls.keylog").read_bytes()
    inside = tmp_path / "inside.pcapng"
    inside.write_bytes(_written(_packets(data), key_log))
    return folder / "21-tls.pcapng", key_log, inside


def _packets(data):
    return [one for one in read_packets([("", io.BytesIO(data))]) if isinstance(one, Packet)]


def _written(packets, key_log=b""):
    file = io.BytesIO()
    writer = PcapngWriter(file)
    if key_log:
        writer.secrets(Secrets(TLS_KEY_LOG, key_log))
    for one in packets:
        writer.packet(one)
    return file.getvalue()


def tables(out, paths, engine, **options):
    """The rows of all tables except the files, sorted; their paths are replaced."""
    analyze(Request(tuple(map(str, paths)), str(out), frames=True, **options), engine)
    stored = StoredTables(str(out))
    names = set(stored.names) - {"captures"}
    rows = {name: map(repr, stored.read(name).to_pylist()) for name in names}
    return {name: sorted(_without_paths(row, paths) for row in rows[name]) for name in names}


def _without_paths(row, paths):
    for number, path in enumerate(paths):
        row = row.replace(str(path), f"capture {number}")
    return row


def test_columns_equal_the_codec_path(tls, monkeypatch):
    monkeypatch.setattr(window_decoder, "FIRST", 1)
    monkeypatch.setattr(window_decoder, "LATER", 2)
    monkeypatch.setattr(capture_reader, "SMALL", 2)
    for path, key_log in ((tls[0], tls[1]), (tls[2], b"")):
        options = ReadOptions(key_log=key_log, ends=True)
        wanted = [
            (one.data, one.packet, one.packets[0], one.time_ns, one.offset, one.from_client)
            for one in read_capture([("", io.BytesIO(path.read_bytes()))], options)
            if isinstance(one, CapturedFrame)
        ]
        assert len(wanted) == 35
        for size in (1, 1000, 5000, 1 << 24):
            found = []
            for places, _ in read_places([("", io.BytesIO(path.read_bytes()))], options, size):
                data = places.data.tobytes()
                columns = (places.start, places.kept, places.packet, places.first_packet, places.time_ns)
                rows = zip(*(column.tolist() for column in (*columns, places.offset, places.from_client)), strict=True)
                found += [(data[start : start + kept], *more) for start, kept, *more in rows]
            assert found == wanted, size


def test_splits_equal_one_reader(tls, tmp_path):
    path, key_log, inside = tls
    wanted = tables(tmp_path / "one", [path], InProcess(), key_log=key_log)
    assert (len(wanted["frames"]), len(wanted["messages"])) == (35, 5)
    dice = random.Random(1)
    for number in range(3):
        size = dice.randrange(3000, 30_000)
        found = tables(tmp_path / f"option-{number}", [path], Apart(), key_log=key_log, split_bytes=size)
        assert found == wanted, size
        assert tables(tmp_path / f"inside-{number}", [inside], Apart(), split_bytes=size) == wanted, size


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("engine", [InProcess, Apart])
def test_an_incremental_run_continues_an_encrypted_connection(tls, tmp_path, inside, engine):
    """The first of the files may contain the key log."""
    path, key_log, _ = tls
    packets = _packets(path.read_bytes())
    parts = [tmp_path / f"part-{number}.pcapng" for number in range(3)]
    for number, part in enumerate(parts):
        secrets = key_log if inside and not number else b""
        part.write_bytes(_written(packets[number * 20 : number * 20 + 20], secrets))
    more = {"key_log": b"" if inside else key_log}
    wanted = tables(tmp_path / "one", parts, InProcess(), **more)
    assert len(wanted["frames"]) == 35
    for count in (1, 2, 3):
        found = tables(tmp_path / "out", parts[:count], engine(), incremental=True, split_bytes=3000, **more)
    assert found == wanted


def test_the_tables_contain_no_secrets(tls, tmp_path):
    path, key_log, _ = tls
    tables(tmp_path / "out", [path], InProcess(), key_log=key_log, incremental=True)
    secrets = [line.split()[2] for line in key_log.splitlines() if line and not line.startswith(b"#")]
    assert secrets
    for file in (tmp_path / "out").rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert not any(word in data or bytes.fromhex(word.decode()) in data for word in secrets), file
