"""`pcli broker` with a database that records how much of its write-ahead log is on the disk.

The arguments are those of `pcli`. After each commit, the file ``synced`` in the data directory contains the size of the
write-ahead log at that commit. A trial truncates the log to this size after it has killed the process. Everything that
was written after the last fsync is then lost, as after a loss of power.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct

from pcli.cli.app import main
from pcli.minibroker.storage import sqlite_database
from pcli.minibroker.storage.broker_storage import Batch

_WAL_HEADER, _FRAME_HEADER = 32, 24
_index_header = Struct("=HI").unpack_from
"""Page size and number of the last committed frame, at offset 14 of the wal-index (SQLite, WalIndexHdr)."""


class RecordingDatabase(sqlite_database.SqliteDatabase):
    """A database that records the size of the log that each commit has synchronized."""

    def write(self, batch: Batch) -> None:
        super().write(batch)
        record_synced_size(self.path)


def record_synced_size(database: Path) -> None:
    with Path(f"{database}-shm").open("rb") as index:
        page_size, frames = _index_header(index.read(48), 14)
    part = database.parent / "synced.part"
    part.write_text(str(_WAL_HEADER + frames * (_FRAME_HEADER + page_size)))
    part.replace(database.parent / "synced")


if __name__ == "__main__":
    sqlite_database.SqliteDatabase = RecordingDatabase  # type: ignore[misc]
    main()
