"""Captures replayed against a mini-broker in memory, with or without faults in its responses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pcli.cli.replay.in_memory_broker import InMemoryBroker
from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.replay.event_loop import now_ms
from pcli.replay.player.asyncio_player import call_rest
from pcli.replay.player.asyncio_player import play as shell_play
from pcli.replay.player.player import Pace, Player
from pcli.replay.player.replay import Replay
from pcli.replay.player.script.build_script import build_script
from pcli.replay.player.script.script import Script
from pcli.replay.service_url import Security, ServiceUrl
from pcli.replay.sources.capture_sources import open_inputs

PATIENT = Pace(latency_ms=500)

Spoil = Callable[[Frame], list[bytes]]


class NthFrame:
    """A fault in the nth matching frame of a type; other frames pass."""

    def __init__(
        self, name: str, intervention: Callable[[Frame], list[bytes]], nth: int = 1, where: Any = None
    ) -> None:
        self._name, self._deed, self._left, self._where = name, intervention, nth, where

    def __call__(self, frame: Frame) -> list[bytes]:
        if COMMANDS[frame.type].name == self._name and (self._where is None or self._where(body(frame))):
            self._left -= 1
            if self._left == 0:
                return self._deed(frame)
        return [frame.data]


def body(frame: Frame) -> Any:
    """Return the body of the command."""
    return getattr(frame.command, COMMANDS[frame.type].field)


class Faults:
    """Faults of a broker."""

    @staticmethod
    def drop(name: str, nth: int = 1, where: Any = None) -> NthFrame:
        return NthFrame(name, lambda _: [], nth, where)

    @staticmethod
    def twice(name: str, nth: int = 1, where: Any = None) -> NthFrame:
        return NthFrame(name, lambda frame: [frame.data, frame.data], nth, where)

    @staticmethod
    def change(name: str, how: Callable[[Any], Any], nth: int = 1, where: Any = None) -> NthFrame:
        def changed(frame: Frame) -> list[bytes]:
            how(body(frame))
            rest = frame.data[frame.parts.command_end :]
            return [join_frame(frame.command.SerializeToString(), rest)]

        return NthFrame(name, changed, nth, where)

    @staticmethod
    def instead(name: str, other: Callable[[Any], bytes], nth: int = 1, where: Any = None) -> NthFrame:
        return NthFrame(name, lambda frame: [other(body(frame))], nth, where)


def read(path: Path, **chosen: Any) -> Script:
    """Return the script of a capture."""
    inputs = open_inputs([str(path)], rewindable=True)
    script = build_script(read_capture(((one.name, one.file) for one in inputs), ReadOptions(ends=True)), **chosen)
    for one in inputs:
        one.file.close()
    return script


def with_fault(player: Player, faults: Spoil) -> None:
    """Apply a fault to the responses that a player receives."""
    receive, readers = player.receive, dict[int, FrameReader]()

    def heard(stream: int, data: bytes) -> list[Any]:
        frames = readers.setdefault(stream, FrameReader()).feed(data)
        return receive(stream, b"".join(piece for frame in frames for piece in faults(frame)))

    player.receive = heard  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def capture_of(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Return the path of a capture of the repository, or else of the whole corpus."""

    def find(name: str) -> Path:
        path: Path = request.getfixturevalue("small_captures") / name
        return path if path.exists() else request.getfixturevalue("captures") / name

    return find


@pytest.fixture(scope="session")
def faults() -> type[Faults]:
    return Faults


@pytest.fixture(scope="session")
def script() -> Callable[..., Script]:
    return read


@pytest.fixture(scope="session")
def play() -> Callable[..., Any]:
    """Replay a capture against a mini-broker in memory and return the report."""

    def run(
        path: Path, settings: dict[str, str] | None = None, *, fault: Spoil | None = None, administered: bool = True
    ) -> Any:
        replay = Replay(read(path), settings or {})
        found = replay.preparation
        broker = InMemoryBroker({**found.settings, **replay.settings}, replay.start_ms, version=found.version)
        for call in replay.calls:
            broker.call(call)
        player = replay.player(replay.start_ms, Pace(speed=1), administered=administered)
        if fault is not None:
            with_fault(player, fault)
        broker.play(player, lambda _: None)
        return replay.report(player, own_broker=True, administered=administered)

    return run


@pytest.fixture(scope="session")
def play_live() -> Callable[..., Any]:
    """Replay a capture to a service URL, with or without REST calls, and return the report."""

    def run(path: Path, url: str, admin: str = "", pace: Pace = PATIENT) -> Any:
        replay = Replay(read(path))
        for call in replay.calls if admin else ():
            call_rest(admin, call)
        player = replay.player(now_ms(), pace, administered=bool(admin))
        shell_play(player, ServiceUrl.parse(url), Security(), admin=admin, progress=lambda _: None)
        return replay.report(player, own_broker=False, administered=bool(admin))

    return run
