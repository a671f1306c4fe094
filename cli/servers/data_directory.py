"""The options of `pcli broker` for a data directory that no broker uses: --check, --export and --import."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import typer

from pcli.cli.common.output import complete_file, counted, json_text, say
from pcli.codec.errors import LocalError
from pcli.replay.sources.lazy_file import reason_of


def check(directory: str, output: str) -> None:
    """Print the result of a check. The exit code is 1 if there are problems."""
    from pcli.minibroker.embedded import data_directory

    report = data_directory.check(Path(directory))
    if output == "text":
        for line in report.problems:
            print(line)
        size = f"{counted(report.entries, 'entry', 'entries')} ({counted(report.size, 'byte')})"
        print(f"{counted(report.topics, 'topic')}, {size}, {counted(len(report.problems), 'problem')}")
    else:
        print(
            json_text(
                {
                    "topics": report.topics,
                    "entries": report.entries,
                    "bytes": report.size,
                    "problems": report.problems,
                }
            )
        )
    if report.problems:
        raise typer.Exit(1)


def export(directory: str, out: str) -> None:
    """Write an export to a file, or to stdout if ``out`` is empty. A file appears when it is complete."""
    from pcli.minibroker.embedded.data_directory import export_lines

    lines = export_lines(Path(directory))
    if not out or out == "-":
        _write(lines, sys.stdout)
        return
    try:
        with complete_file(out) as part, part.open("w", encoding="utf-8") as file:
            count = _write(lines, file)
    except OSError as error:
        raise LocalError(f"-o {out}: {reason_of(error)}") from None
    say(f"{out}: {counted(count, 'line')}")


def _write(lines: Iterable[str], file: TextIO) -> int:
    count = 0
    for line in lines:
        file.write(f"{line}\n")
        count += 1
    return count


def import_(source: str, directory: str) -> None:
    """Create a data directory from an export (``-`` is stdin)."""
    from pcli.minibroker.embedded.data_directory import import_lines

    if not directory:
        raise LocalError("--import requires --data DIR, the directory to create")
    try:
        with ExitStack() as stack:
            file = sys.stdin if source == "-" else stack.enter_context(Path(source).open(encoding="utf-8"))
            count = import_lines(Path(directory), file)
    except OSError as error:
        raise LocalError(f"{error.filename or source}: {reason_of(error)}") from None
    except UnicodeDecodeError:
        raise LocalError(f"--import {source}: not UTF-8 text") from None
    except LocalError as error:
        raise LocalError(f"--import {source}: {error.text}") from None
    say(f"{directory}: {counted(count, 'entry', 'entries')}")
