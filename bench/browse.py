"""Benchmark of `pcli browse`: the time and memory to open an index of ten million frames, and to filter it.

    python bench/browse.py [--frames 10000000]

An index of generated rows is written. Another process opens it as `pcli browse` does, shows the last frames, selects a
connection, and reads the rows of one message. The time until the list is shown must be below two seconds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LIMIT = 2.0
PEER = {
    "is_consumer": True,
    "id": 1,
    "topic": "persistent://public/default/orders",
    "subscription": "billing",
    "name": "worker",
    "type": "Shared",
    "system": False,
}
BLOCK = 1 << 20


def generate(folder: Path, count: int) -> None:
    """Write an index of this many FLOW frames on 100 connections. The capture file contains one frame."""
    import google_crc32c

    from pcli.cli.browse.frame_index import COLUMNS, NO_ID, Peer, Tables
    from pcli.cli.browse.index_cache import save_tables
    from pcli.codec.capture import Stream
    from pcli.codec.wire.hot import push_flow

    frame = push_flow(1, 1000)
    capture = folder / "capture"
    capture.write_bytes(frame)
    index = folder / "index"
    index.mkdir()
    (index / "bytes").write_bytes(b"")
    tables = Tables()
    tables.sources.append(str(capture))
    tables.peers.append(Peer(**PEER))
    tables.streams = {
        one: Stream(one, ("10.0.0.1", 40000 + one), ("10.0.0.2", 6650), midstream=False) for one in range(100)
    }
    constants = {"peer": 1, "type": 11, "flags": 1, "request": 0, "ledger": NO_ID, "entry": 0, "source": 1, "offset": 0}
    checksums: dict[str, list[int]] = {"bytes": [0, 0]}
    for name, kind in COLUMNS.items():
        size = crc = 0
        with (index / name).open("wb") as file:
            for start in range(0, count, BLOCK):
                numbers = np.arange(start, min(start + BLOCK, count))
                made = {"packet": numbers + 1, "time": numbers * 1000, "stream": numbers % 100}
                values = made.get(name, np.full(len(numbers), constants.get(name, len(frame))))
                data = values.astype(kind).tobytes()
                file.write(data)
                size, crc = size + len(data), google_crc32c.extend(crc, data)
        checksums[name] = [size, crc]
    save_tables(index, tables, count, checksums)


def measure(folder: Path) -> None:
    """Open the index in this process, and print times and memory."""
    import asyncio

    started = time.monotonic()
    from pcli.cli.browse.browse_app import BrowseApp
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.index_cache import open_index
    from pcli.cli.browse.stored_frames import StoredFrames

    imported = time.monotonic()
    index = open_index(folder / "index")
    assert index is not None
    opened = time.monotonic()

    async def show() -> None:
        app = BrowseApp(StoredFrames(index), BrowseOptions("generated"))
        async with app.run_test(size=(80, 24)) as pilot:
            shown = time.monotonic()
            await pilot.press("G")
            assert app.list.number == index.count
            end = time.monotonic()
            app._apply("tcp.stream == 7 and pulsar.number > 100")
            while app._filtered is not None and app._filtered.progress < 0.01:
                await pilot.pause(0.01)
            first = time.monotonic()
            rows = len(app._filtered.rows) if app._filtered is not None else 0
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"import {imported - started:.2f} s, open and verify {opened - imported:.2f} s, "
                f"list {shown - opened:.2f} s"
            )
            print(f"open to list {shown - imported:.2f} s, {(shown - imported) / LIMIT:.2f} of the limit")
            print(f"last frame {end - shown:.2f} s, filter: {rows} rows after {first - end:.2f} s")
            print(f"maximum resident memory {memory:.0f} MB, of which the mapped index can be evicted")

    asyncio.run(show())


def main() -> None:
    """Generate the index, and measure in another process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), options.frames)
        size = sum(path.stat().st_size for path in (Path(folder) / "index").iterdir())
        print(f"{options.frames:,} frames, index of {size / 1e6:.0f} MB")
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--measure", folder], check=True)


if __name__ == "__main__":
    main()
