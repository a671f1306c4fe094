"""What pcli reports about a capture: the findings, and the statistics at given times.

The commands run in processes that analyse many captures, because the start of a process takes longer than they do.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIMIT_S = 120


@dataclass(frozen=True)
class Found:
    """A finding."""

    rule: str
    severity: str
    culprit: str
    certainty: str
    """The certainty of the fact."""
    cause_certainty: str
    variant: str
    """What distinguishes the findings of the rule."""
    subject: dict[str, str]
    text: str
    count: int | None = None
    """The number of affected messages or frames, if the finding has one."""


@dataclass(frozen=True)
class Analysis:
    """The output of the commands."""

    findings: list[Found]
    stats: list[Any]
    """The statistics for each time: by topic, or a list of scalable topics."""
    messages: list[dict[str, Any]]
    """The lifecycles."""


def _found(one: dict[str, Any]) -> Found:
    """Return a finding of the JSON output."""
    return Found(
        one["rule"],
        one["severity"],
        one["cause"]["culprit"],
        one["certainty"],
        one["cause"]["certainty"],
        one["variant"],
        {name: str(value) for name, value in one["subject"].items()},
        one["what"],
        one.get("count"),
    )


def analysers(processes: int) -> ProcessPoolExecutor:
    """Return the processes that analyse captures."""
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))


def analyse(pool: ProcessPoolExecutor, capture: Path, port: int, times: list[tuple[str, float]]) -> Analysis:
    """Return the output of `pcli diagnose`, `pcli trace` and, for each view and time, `pcli stats VIEW --at`."""
    common = ("-r", str(capture), "-d", f"tcp.port=={port}")
    commands = [("diagnose", *common), ("trace", *common)]
    commands += [("stats", view, *common, "--at", f"{time:.6f}") for view, time in times]
    diagnosis, messages, *stats = pool.submit(_run, commands).result(timeout=_LIMIT_S)
    return Analysis([_found(one) for one in diagnosis["findings"]], stats, messages)


def _run(commands: list[tuple[str, ...]]) -> list[Any]:
    return [_json(*words) for words in commands]


def _json(*words: str) -> Any:
    """Run a command in this process and return its JSON output."""
    from pcli.cli.app import main

    raw, errors = io.BytesIO(), io.StringIO()
    output = io.TextIOWrapper(raw, write_through=True)
    sys.argv = ["pcli", *words, "-T", "json"]
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            if end.code not in (None, 0, 1, 3):
                raise RuntimeError(f"{' '.join(words)}: {errors.getvalue()}") from None
    return json.loads(raw.getvalue() or b"[]")
