"""The run of `pcli replay`: from captures and options to scripts, reports and an exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pcli.cli.common.output import Exit, ignoring_closed_stdout, json_text, say, write_line
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.replay.replay import ReplayOptions
    from pcli.codec.capture import ReadOptions
    from pcli.replay.player.comparison.report import Report
    from pcli.replay.player.id_translation import TopicRule
    from pcli.replay.player.replay import Replay
    from pcli.replay.player.script.script import Script
    from pcli.replay.service_url import Security

_OWN = "the mini-broker"
_SHOWN = 10
"""Maximum number of differences that are shown."""


@dataclass(slots=True)
class ReplayRun:
    """The run of `replay`."""

    options: ReplayOptions
    reading: ReadOptions
    security: Security

    def run(self) -> None:
        """Replay against each broker ``repeat`` times. Raises typer.Exit with the exit code, or LocalError."""
        from pcli.cli.replay.replay_output import packet_index, print_left_out, print_plan, print_report, print_two

        given = self.options
        self._check()
        replay = self._replay()
        packets = packet_index(replay.script) if given.packet_numbers else None
        if given.dry_run:
            print_plan(replay, packets)
        if not replay.script.steps:
            print_left_out(replay.script.left_out, replay.script.composed)
            say("the capture contains nothing that can be replayed")
            raise typer.Exit(Exit.USAGE)
        if given.dry_run:
            return
        reports = [(name, report) for _ in range(given.repeat) for name, report in self._plays(replay)]
        self._write([{"to": name, **report.json()} for name, report in reports])
        with ignoring_closed_stdout():
            for name, report in reports:
                print_report(name, report, _SHOWN, packets)
            if len(given.to or ()) > 1:
                print_two(reports[0], reports[1], _SHOWN, packets)
        if not all(report.good for _, report in reports):
            raise typer.Exit(Exit.NO)

    def _check(self) -> None:
        given = self.options
        if given.admin and len(given.admin) != len(given.to or ()):
            raise LocalError("--admin: give one URL for each --to, in the same order")
        if given.to and given.settings:
            raise LocalError("--set is for the mini-broker: a broker given with --to has its own settings")
        if given.side == "broker" and (given.to or given.settings or given.topics or given.repeat > 1 or given.factor):
            raise LocalError("--side broker: --to, --set, --map-topic, --repeat and --speed are for --side client")
        if given.side == "client" and given.port is not None:
            raise LocalError("--port requires --side broker")
        if len(given.to or ()) > 2:
            raise LocalError("--to: give at most two brokers")

    # -- reading ---------------------------------------------------------------------------------------------------

    def _replay(self) -> Replay:
        from pcli.replay.player.replay import Replay

        given = self.options
        newer = given.side == "client"
        script = read_script(given.captures, given.filter, given.only, self.reading, newer=newer)
        return Replay(script, _pairs("--set", given.settings or ()), [_topic_rule(text) for text in given.topics or ()])

    # -- replaying -------------------------------------------------------------------------------------------------

    def _plays(self, replay: Replay) -> Iterator[tuple[str, Report]]:
        given = self.options
        if given.side == "broker":
            yield "live clients", self._to_clients(replay.script)
        elif not given.to:
            yield _OWN, self._own(replay)
        for number, url in enumerate(given.to or ()):
            yield url, self._other(replay, url, given.admin[number] if given.admin else "")

    def _own(self, replay: Replay) -> Report:
        from pcli.cli.replay.in_memory_broker import InMemoryBroker
        from pcli.replay.player.player import Pace

        start = replay.start_ms
        found = replay.preparation
        broker = InMemoryBroker({**found.settings, **replay.settings}, start, version=found.version)
        player = replay.player(start, Pace(speed=1), administered=True)
        for call in replay.calls:
            player.answered(call, broker.call(call))
        with _bar() as progress:
            broker.play(player, progress)
        return replay.report(player, own_broker=True, administered=True)

    def _to_clients(self, script: Script) -> Report:
        from pcli.replay.player.asyncio_recorded_broker import play_broker

        def ready(url: str) -> None:
            write_line(f"broker service URL  {url}")
            sys.stdout.flush()

        port = 6650 if self.options.port is None else self.options.port
        return play_broker(script, port, ready=ready, note=say).report()

    def _other(self, replay: Replay, url: str, admin: str) -> Report:
        from pcli.replay.event_loop import now_ms
        from pcli.replay.player.asyncio_player import call_rest, play
        from pcli.replay.player.player import Pace
        from pcli.replay.service_url import ServiceUrl

        service = ServiceUrl.parse(url)
        data, method = self.security.data(), self.security.method
        statuses = [(call, call_rest(admin, call, self.security)) for call in replay.calls] if admin else []
        auth = (method, data) if method != "none" else None
        pace = Pace(speed=self.options.factor, latency_ms=500)
        player = replay.player(now_ms(), pace, administered=bool(admin), auth=auth)
        for call, status in statuses:
            player.answered(call, status)
        with _bar() as progress:
            play(player, service, self.security, admin=admin, progress=progress)
        return replay.report(player, own_broker=False, administered=bool(admin))

    def _write(self, results: list[dict[str, Any]]) -> None:
        if self.options.report:
            Path(self.options.report).write_text(
                json_text(results if len(results) > 1 else results[0], indent=1) + "\n", "utf-8"
            )


def read_script(
    captures: list[str], filter_: str, only: int | None, options: ReadOptions, *, newer: bool = True
) -> Script:
    """Return the script of some captures. Raises CaptureError if they cannot be read.

    ``newer`` includes connections with features of Pulsar 5.0.
    """
    from pcli.codec.capture import read_capture
    from pcli.codec.observe import compile_filter
    from pcli.replay.player.script.build_script import build_script
    from pcli.replay.sources.capture_sources import open_inputs

    wanted = compile_filter(filter_).match if filter_ else None
    with ExitStack() as opened:
        inputs = open_inputs(captures, rewindable=True)  # rewindable, to sort the parts of a recording, even from pipes
        for one in inputs:
            opened.callback(one.file.close)
        events = read_capture(((one.name, one.file) for one in inputs), replace(options, ends=True))
        return build_script(events, only=only, wanted=wanted, newer=newer)


def _topic_rule(text: str) -> TopicRule:
    pattern, equals, replacement = text.partition("=")
    if not equals or not pattern:
        raise LocalError(f"--map-topic {text}: write REGEX=REPLACEMENT")
    try:
        rule = re.compile(pattern)
        rule.sub(replacement, "")
    except (re.error, IndexError) as fault:
        raise LocalError(f"--map-topic {text}: {fault}") from None
    return rule, replacement


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise LocalError(f"{option} {text}: write NAME=VALUE")
        pairs[name.strip()] = value
    return pairs


@contextmanager
def _bar() -> Iterator[Callable[[float], None]]:
    """Yield a function that shows the progress (0 to 1). It shows nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=1.0)
        yield lambda share: bar.update(task, completed=share)
