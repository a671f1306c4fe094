"""Check, export and import of a data directory. No broker may use the directory at the same time.

Rules of this file
1. An export is a text of JSON lines: the format, the documents, and the entries. An entry has its bytes (``entry``,
   base64) and, for readers, its position and its messages in the form of `pcli consume -T ndjson`.
2. An import restores the documents and the bytes of the entries. It ignores the other fields.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.payload import ChunkJoiner, open_entry
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.broker import Broker
from pcli.minibroker.errors import Refused, decoding
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.broker_storage import Batch, DurableBrokerStorage
from pcli.minibroker.storage.entry import Entry, metadata_bounds
from pcli.minibroker.storage.sqlite_database import FILE, FORMAT, SqliteDatabase
from pcli.minibroker.topics.topic_documents import LEDGERS

_READ: Final = 1000
_BATCH_BYTES: Final = 4 << 20


class Report:
    """The result of a check."""

    def __init__(self) -> None:
        self.topics = self.entries = self.size = 0
        """Number of topics and of readable entries, and the size of these entries in bytes."""
        self.problems: list[str] = []


def check(directory: Path) -> Report:
    """Check the file of the database, the documents, and every entry. Nothing is changed.

    Raises LocalError if there is no database or another broker uses it.
    """
    report = Report()
    _require(directory)
    try:
        database = SqliteDatabase(directory)
    except LocalError as error:
        if "another broker" in error.text:
            raise
        report.problems += [error.text, *_integrity(directory / FILE)]
        return report
    with closing(database):
        report.problems += _integrity(directory / FILE)
        try:
            for path, text in database.documents(LEDGERS):
                with _recording(report), decoding(path):
                    _check_topic(database, path, json.loads(text), report)
            _load(database, report)
        except Refused as refused:
            report.problems.append(refused.text)
        except sqlite3.Error as error:
            report.problems.append(f"{database.path}: {error}")
    return report


def _require(directory: Path) -> None:
    if not (directory / FILE).is_file():
        raise LocalError(f"{directory}: no data directory of pcli broker ({FILE} is missing)")


def _integrity(path: Path) -> list[str]:
    """Return what SQLite finds in the file. An empty file is not opened, because SQLite then deletes its log."""
    if not path.stat().st_size:
        return []
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            lines = [line for (text,) in connection.execute("PRAGMA integrity_check") for line in text.splitlines()]
        finally:
            connection.close()
    except sqlite3.Error as error:
        return [f"{path}: {error}"]
    return [f"{path}: {line}" for line in lines if line not in ("ok", "*** in database main ***")]


@contextmanager
def _recording(report: Report) -> Iterator[None]:
    """Add the text of an error to the problems, unless it is among them."""
    try:
        yield
    except Refused as refused:
        if refused.text not in report.problems:
            report.problems.append(refused.text)


def _load(database: SqliteDatabase, report: Report) -> None:
    """Restore the broker and all topics, as a start does. Nothing is written."""
    broker = Broker(Settings(transactionCoordinatorEnabled=True), storage=DurableBrokerStorage(database))
    for name in sorted(broker.stored):
        with _recording(report):
            broker.topic_registry.load(TopicName.parse(name))


def _check_topic(database: SqliteDatabase, path: str, value: dict[str, Any], report: Report) -> None:
    """Read all entries of a topic, and compare their numbers with its ledgers."""
    report.topics += 1
    storage = value.get("storage")
    if storage is None:  # a partition that was never used
        return
    first, end = database.bounds(storage) or (0, 0)
    expected = value["ledgers"][0][1] if value.get("ledgers") else first
    if first > expected and first < end:
        report.problems.append(f"{path}: entries {expected} to {first - 1} are missing")
    while first < end:
        try:
            entries = database.read(storage, first, _READ)
        except Refused as refused:
            report.problems.append(f"{path}: entry {first}: {refused.text}")
            first = database.next_block(storage, first) or end
            continue
        report.entries += len(entries)
        report.size += sum(map(len, entries))
        first += len(entries)


# -- export ------------------------------------------------------------------------------------------------------------


def export_lines(directory: Path) -> Iterator[str]:
    """Return the lines of an export. Raises LocalError if the directory cannot be read completely."""
    _require(directory)
    database = SqliteDatabase(directory)
    try:
        yield _line({"format": FORMAT})
        topics = {}
        for path, text in database.documents("/"):
            value = json.loads(text)
            yield _line({"path": path, "document": value})
            if path.startswith(LEDGERS) and "storage" in value:
                topics[value["storage"]] = path.removeprefix(LEDGERS), value.get("ledgers", [])
        for storage in database.storages():
            yield from _entry_lines(database, storage, *topics.get(storage, ("", [])))
    except (sqlite3.Error, ValueError, RecursionError) as error:
        raise LocalError(f"{database.path}: {error}; pcli broker --check {directory} describes the damage") from None
    except Refused as refused:
        raise LocalError(f"{refused.text}; pcli broker --check {directory} describes the damage") from None
    finally:
        database.close()


def _entry_lines(database: SqliteDatabase, storage: int, topic: str, ledgers: list[list[int]]) -> Iterator[str]:
    first, end = database.bounds(storage) or (0, 0)
    chunks = ChunkJoiner()
    while first < end:
        for number, data in enumerate(database.read(storage, first, _READ), first):
            row: dict[str, Any] = {"storage": storage, "number": number}
            ledger = next((row for row in reversed(ledgers) if row[1] <= number), None)
            if ledger is not None:
                row |= {"topic": topic, "message_id": f"{ledger[0]}:{number - ledger[1]}"}
                row |= _content(Entry(number, ledger[0], number - ledger[1], data), chunks)
            yield _line({**row, "entry": base64.b64encode(data).decode()})
            first = number + 1


def _content(entry: Entry, chunks: ChunkJoiner) -> dict[str, Any]:
    """Return the fields of an entry for readers."""
    entry.parse()
    metadata = entry.metadata
    if metadata is None:
        return {}
    row: dict[str, Any] = {
        "publish_time": metadata.publish_time,
        "producer_name": metadata.producer_name,
        "sequence_id": metadata.sequence_id,
    }
    if entry.marker:
        return {**row, "marker_type": metadata.marker_type}
    payload = entry.data[metadata_bounds(entry.data, entry.block)[1] :]
    opened = open_entry(metadata, payload, chunks=chunks, scope=metadata.producer_name)
    return {**row, "messages": [_message(one) for one in opened.messages]}


def _message(message: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"key": message.key} if message.key is not None else {}
    if message.properties:
        row["properties"] = dict(message.properties)
    try:
        return {**row, "payload": message.payload.decode()}
    except UnicodeDecodeError:
        return {**row, "payload": base64.b64encode(message.payload).decode(), "base64": True}


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


# -- import ------------------------------------------------------------------------------------------------------------


def import_lines(directory: Path, lines: Iterable[str]) -> int:
    """Create a data directory from the lines of an export. Return the number of entries.

    Raises LocalError if the directory already has a database or a line is invalid, UnicodeDecodeError and OSError. The
    database appears in the directory when it is complete.
    """
    if (directory / FILE).exists():
        raise LocalError(f"{directory}: contains a database already; choose another directory")
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="import-", dir=directory) as part:
        with closing(SqliteDatabase(Path(part), sync=False)) as database:
            count = _import(database, lines)
        (Path(part) / FILE).rename(directory / FILE)
    return count


def _import(database: SqliteDatabase, lines: Iterable[str]) -> int:
    batch, count, number = Batch(1), 0, 0
    try:
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            if number == 1 and row.get("format") != FORMAT:
                raise LocalError(f"line 1: the format is {row.get('format')!r}; this version of pcli reads {FORMAT}")
            if "path" in row:
                batch.documents[str(row["path"])] = json.dumps(row["document"], separators=(",", ":"))
            elif "entry" in row:
                data = base64.b64decode(row["entry"], validate=True)
                batch.entries.append((int(row["storage"]), int(row["number"]), data))
                batch.size += len(data)
                count += 1
            if batch.size >= _BATCH_BYTES:
                database.write(batch)
                batch = Batch(1)
    except UnicodeDecodeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LocalError(f"line {number}: not a line of an export") from None
    if not number:
        raise LocalError("the export is empty")
    database.write(batch)
    return count
