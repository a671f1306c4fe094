"""One Spark session and one Spark Connect server for all tests, because a start takes longer than most tests."""

from __future__ import annotations

import struct
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest
from pyspark.sql import SparkSession

from pcli.spark.jobs.session import open_spark
from tests.spark.connect_server import connect_server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process's own JVM, with two tasks at a time."""
    with open_spark("local[2]") as running:
        yield running


@pytest.fixture
def importable_tests(monkeypatch):
    """Worker processes, which have the search path of this process, can import the functions of tests."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent.parent)


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory) -> Path:
    """A Python that has pcli's requirements but not pcli, as on the workers of a cluster."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    # A folder named in a .pth file is searched, but the .pth files in it (of editable installs) are ignored.
    (packages / "others.pth").write_text(f"{Path(numpy.__file__).parent.parent}\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory, bare_python) -> Iterator[str]:
    """The URL of a Spark Connect server, whose workers have pcli's requirements but not pcli."""
    with connect_server(tmp_path_factory.mktemp("connect"), bare_python) as url:
        yield url


@pytest.fixture
def parts_of(small_captures, tmp_path) -> Callable[[str, int], list[Path]]:
    """Divides a capture (classic pcap, in this machine's byte order) into parts, as tcpdump rotates files."""

    def cut(name: str, count: int) -> list[Path]:
        data = (small_captures / name).read_bytes()
        places = [24]
        while places[-1] < len(data):
            places.append(places[-1] + 16 + struct.unpack_from("<I", data, places[-1] + 8)[0])
        step = -(-(len(places) - 1) // count)
        folder = tmp_path / "parts"
        folder.mkdir()
        paths = []
        for number, first in enumerate(range(0, len(places) - 1, step), 1):
            last = min(first + step, len(places) - 1)
            paths.append(folder / f"part-{number:04}.pcap")
            paths[-1].write_bytes(data[:24] + data[places[first] : places[last]])
        return paths

    return cut
