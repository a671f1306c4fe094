"""Conversations written by hand, and the frames of real captures."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from pcli.codec.capture.frames import CapturedFrame, Stream
from pcli.codec.observe import Facts, Observer
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

MILLISECOND = 1_000_000


class Talk:
    """A conversation: `>>` and `<<` of the house's tests as methods, each observed at once, a millisecond apart."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer = Observer() if observer is None else observer
        self.now = 0
        self.frames: list[CapturedFrame] = []
        self.streams: dict[int, Stream] = {}

    def client(self, body: Message | bytes, entry: bytes = b"", stream: int = 0, **capture: Any) -> Facts:
        return self.say(body, entry, stream, from_client=True, **capture)

    def broker(self, body: Message | bytes, entry: bytes = b"", stream: int = 0, **capture: Any) -> Facts:
        return self.say(body, entry, stream, from_client=False, **capture)

    def say(
        self,
        body: Message | bytes,
        entry: bytes,
        stream: int,
        *,
        from_client: bool,
        sync: str = "start",
        problems: tuple[Problem, ...] = (),
    ) -> Facts:
        data = body if isinstance(body, bytes) else push_frame(body, entry)
        self.now += MILLISECOND
        if stream not in self.streams:
            self.streams[stream] = Stream(stream, ("10.0.0.1", 40_000 + stream), ("10.0.0.2", 6650), midstream=False)
        number = len(self.frames) + 1
        place = (number, number + 100, self.now, self.streams[stream], from_client, 0, sync, problems)
        frame = CapturedFrame(data, Frame.of(data).type, *place)
        self.frames.append(frame)
        return self.observer.see(frame)


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def talk_to() -> Callable[[Observer], Talk]:
    return Talk


def _frames(path: Path) -> list[CapturedFrame]:
    from pcli.codec.capture import read_capture

    data = path.read_bytes()
    file = io.BytesIO(gzip.decompress(data) if path.suffix == ".gz" else data)
    return [item for item in read_capture([(path.name, file)]) if isinstance(item, CapturedFrame)]


class Corpus:
    """Captures by name (``java/txn-commit``), read once, with their truth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._frames: dict[str, list[CapturedFrame]] = {}

    def path(self, name: str) -> Path:
        return next(path for path in self.folder.glob(f"{name}.pcap*"))

    def frames(self, name: str) -> list[CapturedFrame]:
        if name not in self._frames:
            self._frames[name] = _frames(self.path(name))
        return self._frames[name]

    def facts(self, name: str) -> list[Facts]:
        observer = Observer()
        return [observer.see(frame) for frame in self.frames(name)]

    def truth(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.truth.json").read_text())

    def names(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*/*.truth.json")):
            name = f"{path.parent.name}/{path.name.removesuffix('.truth.json')}"
            if list(self.folder.glob(f"{name}.pcap*")):
                yield name


@pytest.fixture(scope="session")
def small(small_captures: Path) -> Corpus:
    """The committed captures."""
    return Corpus(small_captures)


@pytest.fixture(scope="session")
def corpus(captures: Path) -> Corpus:
    """All captures."""
    return Corpus(captures)
