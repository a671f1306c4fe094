"""Damage of the files that a killed broker leaves: the database and its write-ahead log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pcli.codec.errors import LocalError
from pcli.minibroker.embedded.data_directory import check
from pcli.minibroker.storage.broker_storage import Batch
from pcli.minibroker.storage.sqlite_database import FILE, SqliteDatabase

LOG = f"{FILE}-wal"
SIZE = 12_000
"""Size of an entry; each commit contains one."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a broker that was killed after 420 commits, the first of which are no longer in the log."""
    folder = tmp_path_factory.mktemp("killed")
    with closing(SqliteDatabase(folder / "data")) as database:
        for number in range(420):
            batch = Batch(number + 1)
            batch.entries.append((1, number, bytes([number % 256]) * SIZE))
            database.write(batch)
        shutil.copytree(folder / "data", folder / "copy")
    return folder / "copy"


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    shutil.copytree(killed, tmp_path / "data")
    return tmp_path / "data"


def flip(name: str, position: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[position] ^= 1
        (folder / name).write_bytes(content)

    return change


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def entries(folder: Path) -> int:
    with closing(SqliteDatabase(folder)) as database:
        return (database.bounds(1) or (0, 0))[1]


def test_all_commits_are_present(data: Path) -> None:
    assert (data / LOG).stat().st_size > 10 * SIZE
    assert entries(data) == 420


FIRST = "frame 1 of the write-ahead log broker.db-wal is damaged, and commits after it would be lost"
EMPTY = "the database is missing or empty, but not its write-ahead log broker.db-wal"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (flip(LOG, 0), FIRST),  # the magic number
        (flip(LOG, 17), FIRST),  # the salt
        (flip(LOG, 40), FIRST),  # the salt of the first frame
        (flip(LOG, 5000), FIRST),  # the page of the first frame
        (flip(LOG, 32 + 5 * 8216 + 100), FIRST.replace("1", "6")),
        (cut(FILE, 0), EMPTY),
        (lambda folder: (folder / FILE).unlink(), EMPTY),
        (cut(FILE, 1 << 20), "pages at the end of the file are missing"),
    ],
)
def test_damage_that_would_lose_commits_is_refused_and_nothing_is_changed(
    data: Path, change: Callable[[Path], None], reason: str
) -> None:
    change(data)
    before = {name: (data / name).read_bytes() for name in (FILE, LOG) if (data / name).exists()}
    with pytest.raises(LocalError) as error:
        SqliteDatabase(data)
    text = f"{reason}. Nothing was changed; pcli broker --check {data} describes the damage"
    assert error.value.text.endswith(text)
    if FILE in before:
        assert check(data).problems[0] == error.value.text
    assert {name: (data / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("size", [1, 100, 8191, 8193])
def test_a_part_of_a_page_is_not_an_empty_database(tmp_path: Path, size: int) -> None:
    SqliteDatabase(tmp_path).close()
    cut(FILE, size)(tmp_path)
    with pytest.raises(LocalError, match=rf"broker\.db: {size} bytes are not a whole number of pages\. Nothing"):
        SqliteDatabase(tmp_path)
    assert (tmp_path / FILE).stat().st_size == size


@pytest.mark.parametrize("change", [lambda log, at: log[:at], lambda log, at: log[:at] + b"?" + log[at + 1 :]])
def test_the_last_commit_can_be_incomplete(data: Path, change: Callable[[bytes, int], bytes]) -> None:
    content = (data / LOG).read_bytes()
    (data / LOG).write_bytes(change(content, content.rindex(bytes([419 % 256]) * 2000)))
    assert entries(data) == 419
