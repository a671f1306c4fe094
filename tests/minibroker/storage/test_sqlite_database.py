"""The data directory: batches, reads, deletion, and files that cannot be used."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.broker_storage import Batch
from pcli.minibroker.storage.sqlite_database import FILE, FORMAT, SqliteDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path)
    yield opened
    opened.close()


def batch(*entries: tuple[int, int, bytes], trimmed: dict[int, int] | None = None, **documents: str | None) -> Batch:
    made = Batch(1)
    made.entries += entries
    made.trimmed |= trimmed or {}
    made.documents |= {f"/{name}": value for name, value in documents.items()}
    return made


def numbered(storage_id: int, first: int, count: int, size: int = 10) -> list[tuple[int, int, bytes]]:
    return [(storage_id, number, number.to_bytes(4) + bytes(size - 4)) for number in range(first, first + count)]


def read_all(database: SqliteDatabase, storage_id: int) -> list[bytes]:
    found: list[bytes] = []
    first, end = database.bounds(storage_id) or (0, 0)
    while first + len(found) < end:
        found += database.read(storage_id, first + len(found), end)
    return found


def test_a_batch_survives_the_end_of_the_process(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    database.write(batch((1, 0, b"first"), (2, 0, b"other"), (1, 1, b"second"), topic="{}", old="1"))
    database.write(batch((1, 2, b"third"), old=None))
    database.close()

    database = SqliteDatabase(tmp_path)
    assert list(database.documents("/")) == [("/topic", "{}")]
    assert database.bounds(1) == (0, 3)
    assert database.bounds(3) is None
    assert read_all(database, 1) == [b"first", b"second", b"third"]
    assert read_all(database, 2) == [b"other"]
    database.close()


@given(st.lists(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 70_000)), max_size=30), max_size=6), st.data())
def test_entries_are_read_as_they_were_written(writes: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, closing(SqliteDatabase(Path(folder), sync=False)) as database:
        stored: dict[int, list[bytes]] = {1: [], 2: []}
        for write in writes:
            entries = []
            for storage_id, size in write:
                entries.append((storage_id, len(stored[storage_id]), size.to_bytes(4) * (size // 4 + 1)))
                stored[storage_id].append(entries[-1][2])
            database.write(batch(*entries))
        for storage_id, expected in stored.items():
            assert read_all(database, storage_id) == expected
            if expected:
                first = data.draw(st.integers(0, len(expected) - 1))
                count = data.draw(st.integers(1, 100))
                found = database.read(storage_id, first, count)
                assert found
                assert found == expected[first : first + count][: len(found)]


def test_trimmed_entries_are_deleted_and_the_file_shrinks(database: SqliteDatabase) -> None:
    for first in range(0, 20_000, 1000):
        database.write(batch(*numbered(1, first, 1000, 1000)))
    database.write(batch(*numbered(2, 0, 10)))
    database._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = database.path.stat().st_size

    database.write(batch(trimmed={1: 19_500}))
    assert database.bounds(1) == (19_500, 20_000)
    while database.collectable:
        database.collect()

    assert database.path.stat().st_size < before / 4
    assert read_all(database, 1) == [data for _, _, data in numbered(1, 19_500, 500, 1000)]
    database.write(batch(trimmed={1: 20_000}))
    while database.collectable:
        database.collect()
    assert database.bounds(1) is None
    assert database.bounds(2) == (0, 10)


def test_a_deletion_that_a_crash_interrupted_continues_at_the_next_start(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    for first in range(300):
        database.write(batch(*numbered(1, first, 1)))
    database.write(batch(trimmed={1: 299}))
    database.close()

    database = SqliteDatabase(tmp_path)
    assert database.bounds(1) == (299, 300)
    while database.collectable:
        database.collect()
    assert database._reader.execute("SELECT count(*) FROM blocks").fetchone() == (1,)
    database.close()


def test_entries_are_refused_at_the_limit_of_the_backlog_until_some_are_trimmed(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path, max_backlog=1_000_000)
    database.write(batch(*numbered(1, 0, 900, 1000)))
    assert database.out_of_space() == ""
    database.write(batch(*numbered(1, 900, 100, 1000)))
    assert re.fullmatch(r"The backlog of \d+ bytes has reached the limit of 1000000", database.out_of_space())
    database.write(batch(trimmed={1: 900}))
    while database.collectable:
        database.collect()
    assert database.out_of_space() == ""
    database.close()


def test_a_failed_write_changes_nothing(database: SqliteDatabase) -> None:
    database.write(batch((1, 0, b"first")))
    with pytest.raises(OSError, match="UNIQUE"):
        database.write(batch((2, 0, b"x"), (1, 0, b"again"), topic="1"))
    assert list(database.documents("/")) == []
    assert database.bounds(2) is None
    database.write(batch((1, 1, b"second")))
    assert read_all(database, 1) == [b"first", b"second"]


def test_a_damaged_block_is_not_returned(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    database.write(batch(*numbered(1, 0, 100, 100)))
    [(data,)] = database._writer.execute("SELECT data FROM blocks")
    database._writer.execute("UPDATE blocks SET data = ?", (data[:-1] + b"x",))
    with pytest.raises(Refused, match=r"broker\.db: a block of entries is damaged \(its checksum differs\)"):
        database.read(1, 0, 1)
    database.close()


def test_a_second_broker_cannot_use_the_directory(database: SqliteDatabase) -> None:
    program = (
        "import sys; from pathlib import Path; from pcli.codec.errors import LocalError\n"
        "from pcli.minibroker.storage.sqlite_database import SqliteDatabase\n"
        "try: SqliteDatabase(Path(sys.argv[1]))\n"
        "except LocalError as error: print(error.text)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(database.directory)], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"{database.directory}: another broker uses this directory\n"


def _newer(path: Path) -> None:
    SqliteDatabase(path.parent).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")


def _other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")


def _no_database(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)


def _overwritten(path: Path) -> None:
    SqliteDatabase(path.parent).close()
    data = bytearray(path.read_bytes())
    data[100:4096] = bytes(3996)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (_newer, f"format {FORMAT + 1} is newer than format {FORMAT} of this version of pcli"),
        (_other_program, "not a database of pcli broker"),
        (_no_database, "file is not a database. Nothing was changed; pcli broker --check {0} describes the damage"),
        (
            _overwritten,
            "database disk image is malformed. Nothing was changed; pcli broker --check {0} describes the damage",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_not_changed(tmp_path: Path, make: Callable[[Path], None], text: str) -> None:
    make(tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LocalError) as error:
        SqliteDatabase(tmp_path)
    assert error.value.text == f"{tmp_path / FILE}: {text.format(tmp_path)}"
    assert (tmp_path / FILE).read_bytes() == before
    with pytest.raises(LocalError, match=r"broker\.db"):  # the lock was released
        SqliteDatabase(tmp_path)


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match=r"file/data: not a directory"):
        SqliteDatabase(tmp_path / "file" / "data")
