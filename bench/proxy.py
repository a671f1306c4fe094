"""Benchmark of the proxy against a plain byte relay in the same run: bytes per second in one direction.

    python bench/proxy.py [--seconds 3]

Load: SEND frames of one size at maximum speed, from one process to another one that only counts the bytes. The relay is
a minimal program with Python and uvloop that reads and writes without parsing. The proxy runs as
`pcli proxy --log quiet`, then with options that cost more.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvloop

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame

SIZES = (1 << 10, 64 << 10)
"""Sizes of payloads: unbatched messages, and batches."""

CONNECT = push_frame(pb.CommandConnect(client_version="bench", protocol_version=20))

KINDS: dict[str, tuple[str, ...]] = {
    "tap": ("--log", "quiet"),
    "-w": ("--log", "quiet", "-w", "OUT"),
    "-Y, nothing matches": ("-Y", "pulsar.type == 'PONG'"),
    "a fault that never fires": ("--log", "quiet", "--fault", "drop on pulsar.type == 'PONG'"),
    "-T json to nowhere": ("-T", "json"),
}
"""Options of the proxy."""


def frames(size: int) -> bytes:
    """Return about a megabyte of SENDs."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    frame = push_frame(pb.CommandSend(producer_id=1, sequence_id=1), push_entry(metadata, bytes(size)))
    return frame * max(1, (1 << 20) // len(frame))


def count_bytes(result: Connection, seconds: float) -> None:
    """Act as the broker: receive bytes, and report the number of bytes per second."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result.send(listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            with connection:
                total, begin = 0, time.perf_counter()
                while (data := connection.recv(1 << 18)) and time.perf_counter() - begin < seconds:
                    total += len(data)
                result.send(total / (time.perf_counter() - begin))


class Relay(asyncio.Protocol):
    """One side of the plain relay."""

    def __init__(self, port: int = 0, other: Any = None) -> None:
        self.port, self.other = port, other
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the other side."""
        self.transport: Any = transport
        if self.port:
            self.task = asyncio.ensure_future(self.connect())

    async def connect(self) -> None:
        """Connect to the broker."""
        loop = asyncio.get_running_loop()
        self.other, _ = await loop.create_connection(lambda: Relay(other=self.transport), "127.0.0.1", self.port)
        for data in self.early:
            self.other.write(data)

    def data_received(self, data: bytes) -> None:
        """Forward the data."""
        if self.other is None:
            self.early.append(data)
        else:
            self.other.write(data)

    def pause_writing(self) -> None:
        """Pause the other side."""
        self.other.pause_reading()

    def resume_writing(self) -> None:
        """Resume the other side."""
        self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other side."""
        if self.other is not None:
            self.other.abort()


def relay(result: Connection, port: int) -> None:
    """Run the plain relay."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Relay(port), "127.0.0.1", 0)
        result.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


def send_forever(port: int, data: bytes) -> None:
    """Act as the client: send until the broker closes the connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        try:
            connection.sendall(CONNECT)
            while True:
                connection.sendall(data)
        except OSError:
            return


def measured(result: Connection, port: int, data: bytes) -> float:
    """Return the MB per second through this port, the better of two runs."""
    rates = []
    for _ in range(2):
        send_forever(port, data)
        rates.append(result.recv() / 1e6)
    return max(rates)


def through_proxy(options: tuple[str, ...], result: Connection, port: int, data: bytes) -> float:
    """Return the MB per second through a proxy with these options."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.pcapng")
        command = [sys.executable, "-m", "pcli.cli", "proxy", "--listen", "0", "--to", f"127.0.0.1:{port}"]
        command += [out if word == "OUT" else word for word in options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            head = process.stdout.readline()
            drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
            own = int(re.findall(r"pulsar://127\.0\.0\.1:(\d+)", head)[0])
            rate = measured(result, own, data)
            process.send_signal(signal.SIGINT)
            process.wait(30)
            drain.wait(30)
    return rate


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3)
    seconds = options.parse_args().seconds
    result, end = multiprocessing.Pipe()
    sink = multiprocessing.Process(target=count_bytes, args=(end, seconds), daemon=True)
    sink.start()
    port = result.recv()
    print(f"{'':<26}" + "".join(f"{f'{size >> 10} KB a message':>22}" for size in SIZES))
    ours, theirs = multiprocessing.Pipe()
    plain = multiprocessing.Process(target=relay, args=(theirs, port), daemon=True)
    plain.start()
    relay_port = ours.recv()
    best = {size: measured(result, relay_port, frames(size)) for size in SIZES}
    plain.terminate()
    print(f"{'plain relay':<26}" + "".join(f"{best[size]:>15.0f} MB/s  " for size in SIZES))
    for name, options in KINDS.items():
        cells = []
        for size in SIZES:
            rate = through_proxy(options, result, port, frames(size))
            cells.append(f"{rate:>8.0f} MB/s {rate / best[size]:>6.0%}  ")
        print(f"{name:<26}" + "".join(cells))
    sink.terminate()


if __name__ == "__main__":
    main()
