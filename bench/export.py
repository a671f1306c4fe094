"""Benchmark of `pcli export`: spans per second and peak memory, compared with `pcli trace` on the same capture.

    python bench/export.py [CAPTURES] [--megabytes 100]

The captures repeat real ones, as in bench/observe.py: one of the given size, and one of a quarter of it, to show that
the memory is that of trace and a constant. The backend is a server in another process that keeps nothing. Printed: CPU
seconds, wall seconds, peak memory, spans per second, and the ratios.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from dissect import HERE, SOURCES, Run, run
from observe import write

PCLI = [sys.executable, "-m", "pcli.cli"]


class Sink(BaseHTTPRequestHandler):
    """A backend that accepts everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read a request and respond with success."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:  # noqa: D102
        pass


def serve(ready: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    ready.send(server.server_port)
    server.serve_forever()


def export(capture: Path, url: str, *arguments: str) -> tuple[Run, int]:
    """Export a capture. Return the resources and the number of spans."""
    command = [*PCLI, "export", "-r", str(capture), "--otlp", url, "-j", "1", *arguments]
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output)
        _, _, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        output.seek(0)
        text = output.read().decode()
    found = re.search(r"exported ([\d,]+) spans?", text)
    assert found is not None, text
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, 0), int(found[1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captures", nargs="?", type=Path, default=HERE / "tests" / "captures")
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    paths = [options.captures / name for name in SOURCES if (options.captures / name).exists()]
    here, there = multiprocessing.Pipe()
    sink = multiprocessing.Process(target=serve, args=(there,), daemon=True)
    sink.start()
    url = f"http://127.0.0.1:{here.recv()}"
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.pcapng", Path(folder) / "small.pcapng"
        frames = write(paths, large, options.megabytes)
        write(paths, small, options.megabytes // 4)
        print(f"{large.stat().st_size / 1e6:.0f} MB, {frames:,} frames")
        trace = run([*PCLI, "trace", "-r", str(large), "-T", "ndjson"])
        before = run([*PCLI, "trace", "-r", str(small), "-T", "ndjson"])
        rows = {"trace": (trace, 0), "trace, a quarter of the capture": (before, 0)}
        for name, capture, more in (
            ("export", large, ()),
            ("export --sample 0.01", large, ("--sample", "0.01")),
            ("export, a quarter of the capture", small, ()),
        ):
            rows[name] = export(capture, url, *more)
        print(f"{'':36} {'CPU s':>8} {'wall s':>8} {'peak MB':>8} {'spans':>10} {'spans/s':>9}")
        for name, (one, spans) in rows.items():
            rate = f"{spans / one.wall:9,.0f}" if spans else ""
            print(f"{name:36} {one.cpu:8.1f} {one.wall:8.1f} {one.peak_mb:8,.0f} {spans:>10,} {rate}")
        own = rows["export"][0]
        print(
            f"export: {own.cpu / trace.cpu:.2f} of the CPU time of trace (trace reads the capture once, export twice)"
        )
        quarter = rows["export, a quarter of the capture"][0]
        print(f"export: {own.peak_mb - trace.peak_mb:.0f} MB more than trace, and ", end="")
        print(f"{quarter.peak_mb - before.peak_mb:.0f} MB more on the quarter")
    sink.terminate()


if __name__ == "__main__":
    main()
