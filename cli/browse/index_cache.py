"""The folder of the user's cache that contains the indexes of captures.

Rules of this file
1. The name of an index is a hash of the paths, sizes and modification times of its captures and of the options with
   which they are read. An index of a capture that has changed is therefore never used.
2. An index appears in the cache when it is complete. The sizes and checksums of its files are verified when it is
   opened; a damaged index is removed and built again.
3. The folders are accessible only to the user, because an index contains names and can contain payloads.
4. The indexes take at most MAX_BYTES; those that were not used for the longest time are removed first.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import google_crc32c

from pcli.cli.browse.frame_index import COLUMNS, FrameIndex, Peer, Tables
from pcli.codec.capture import Stream

_VERSION: Final = 1
"""Version of the format. It increases with every change of the columns or tables."""

MAX_BYTES: Final = 20_000_000_000

_READ: Final = 1 << 20


def cache_folder() -> Path:
    """Return the folder of all indexes; it is created if necessary. Raises OSError."""
    from platformdirs import user_cache_path

    folder = user_cache_path("pcli") / "browse"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def index_key(paths: Sequence[str], decode_as: dict[int, str], key_log: bytes) -> str:
    """Return the name of the index of these files. Raises OSError if a file does not exist."""
    files = []
    for path in paths:
        status = Path(path).stat()
        files.append([str(Path(path).resolve()), status.st_size, status.st_mtime_ns])
    log = hashlib.sha256(key_log).hexdigest()
    text = json.dumps([_VERSION, files, sorted(decode_as.items()), log])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def save_tables(folder: Path, tables: Tables, count: int, checksums: dict[str, list[int]]) -> None:
    """Write the tables and checksums of an index. Raises OSError."""
    text = json.dumps({
        "rows": count,
        "files": checksums,
        "peers": tables.peers[1:],
        "streams": [_pack(stream) for stream in tables.streams.values()],
        "sources": tables.sources,
        "notes": tables.notes,
        "damaged": tables.damaged,
    })  # fmt: skip
    data = text.encode("utf-8", "surrogatepass")
    (folder / "tables").write_bytes(b"%08x\n" % google_crc32c.value(data) + data)


def open_index(folder: Path) -> FrameIndex | None:
    """Return the index in a folder. Return None if there is none, and remove it if it is damaged."""
    try:
        text = (folder / "tables").read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        text = b""
    try:
        index = _checked(folder, text)
    except (ValueError, KeyError, TypeError, IndexError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(folder)
    return index


def _checked(folder: Path, text: bytes) -> FrameIndex:
    """Return the index. Raise ValueError if a checksum is wrong."""
    data = text[9:]
    if int(text[:8], 16) != google_crc32c.value(data):
        raise ValueError("tables")
    stored = json.loads(data.decode("utf-8", "surrogatepass"))
    if {*stored["files"]} != {*COLUMNS, "bytes"}:
        raise ValueError("files")
    for name, (size, crc) in stored["files"].items():
        if _checksum(folder / name) != (size, crc):
            raise ValueError(name)
    tables = Tables()
    tables.peers += (Peer(*one) for one in stored["peers"])
    tables.streams = {stream.number: stream for stream in map(_unpack, stored["streams"])}
    tables.sources, tables.notes, tables.damaged = stored["sources"], stored["notes"], stored["damaged"]
    return FrameIndex(folder, tables, stored["rows"])


def _checksum(path: Path) -> tuple[int, int]:
    size = crc = 0
    with path.open("rb", buffering=0) as file:
        while data := file.read(_READ):
            size, crc = size + len(data), google_crc32c.extend(crc, data)
    return size, crc


def _pack(stream: Stream) -> list[Any]:
    return [stream.number, stream.client, stream.server, stream.midstream, stream.kind, stream.decrypted]


def _unpack(values: list[Any]) -> Stream:
    number, client, server, midstream, kind, decrypted = values
    stream = Stream(number, tuple(client), tuple(server), midstream=midstream)
    stream.kind, stream.decrypted = kind, decrypted
    return stream


def remove_old(folder: Path, most: int = MAX_BYTES) -> None:
    """Remove the indexes that were not used for the longest time, until the others take at most ``most`` bytes."""
    found = []
    for one in folder.iterdir():
        with suppress(OSError):
            found.append((one.stat().st_mtime, sum(file.stat().st_size for file in one.iterdir()), one))
    total = 0
    for _, size, one in sorted(found, reverse=True):
        total += size
        if total > most:
            shutil.rmtree(one, ignore_errors=True)
