"""`pcli reproduce`: writes a capture as a pytest test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.common.option_groups import ReadAs
from pcli.cli.common.options import Captures, ConnectionFilter, OnlyStream, option
from pcli.cli.common.output import Exit, say, write_line

if TYPE_CHECKING:
    from pcli.codec.capture import ReadOptions
    from pcli.replay.player.script.script import Script

_MANY = 2000
"""Number of lines of a test above which the command suggests a smaller test."""


def reproduce(
    captures: Captures,
    *,
    filter_: ConnectionFilter = "",
    only_stream: OnlyStream = None,
    output: Annotated[str, option("-o --output FILE", "File to which the test is written. [stdout]")] = "",
    read_as: ReadAs,
) -> None:
    """Write a pytest test that replays a capture against a mini-broker and checks the responses.

    pcli reproduce capture.pcapng -Y "pulsar.topic == 'orders'" -o test_orders.py

    Exit code: 2 if nothing can be replayed. See docs/replay.md.
    """
    _write_test(captures, output, filter_=filter_, only=only_stream, options=read_as.options())


def _write_test(captures: list[str], output: str, *, filter_: str, only: int | None, options: ReadOptions) -> None:
    """Write the test. Exit with code 2 if nothing can be replayed."""
    from pcli.cli.replay.replay_output import print_left_out
    from pcli.cli.replay.replay_session import read_script

    script = read_script(captures, filter_, only, options)
    print_left_out(script.left_out, script.composed)
    if not script.steps:
        say("the capture contains nothing that can be reproduced")
        raise typer.Exit(Exit.USAGE)
    text = reproduction(Path(captures[0]).name, script)
    count = text.count("\n")
    if count > _MANY:
        say(f"{count} lines: choose connections with -Y or --only-stream for a smaller test")
    if output:
        Path(output).write_text(text, "utf-8")
    else:
        write_line(text.rstrip("\n"))


def reproduction(name: str, script: Script) -> str:
    """Return the text of a test of this script. ``name`` is the name of the capture."""
    from dataclasses import asdict

    from pcli.cli.replay.in_memory_broker import InMemoryBroker
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.versions import DEFAULT
    from pcli.replay.player.recording_player import RecordingPlayer
    from pcli.replay.player.replay import Replay
    from pcli.replay.player.reproduce.test_module_source import reproduce

    replay = Replay(script)
    found = replay.preparation
    broker = InMemoryBroker(found.settings, replay.start_ms, version=found.version)
    for call in replay.calls:
        broker.call(call)
    player = RecordingPlayer(replay)
    broker.play(player, lambda _: None)
    player.date(broker.now)
    version = broker.broker.version
    usual = {key: str(value) for key, value in asdict(Settings.of_version(version)).items()}
    settings = {key: value for key, value in found.settings.items() if usual.get(key) != value}
    if version is not DEFAULT:
        settings = {"version": version.name, **settings}
    return reproduce(name, replay, player, broker.broker.service_url, settings)
