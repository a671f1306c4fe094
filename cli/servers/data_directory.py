"""The options of `pcli broker` for a data directory that no broker uses: --check, --export and --import."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import typer

from pcli.cli.common.output import json_text, say
from pcli.codec.errors import LocalError
from pcli.replay.sources.lazy_file import reason_of

__all__ = ["check", "export", "import_"]


def check(directory: str, output: str) -> None:
    """Print the result of a check. The exit code is 1 if there are problems."""
    from pcli.minibroker.storage import data_directory

    report = data_directory.check(Path(directory))
    if output == "text":
        for line in report.problems:
            print(line)
        print(f"{report.topics} topics, {report.entries} entries, {report.size} bytes, {len(report.problems)} problems")
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
    from pcli.minibroker.storage.data_directory import export_lines

    lines = export_lines(Path(directory))
    if not out or out == "-":
        _write(lines, sys.stdout)
        return
    part = Path(f"{out}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            count = _write(lines, file)
        part.replace(out)
    except OSError as error:
        raise LocalError(f"-o {out}: {reason_of(error)}") from None
    finally:
        part.unlink(missing_ok=True)
    say(f"{out}: {count} lines")


def _write(lines: Iterable[str], file: TextIO) -> int:
    count = 0
    for line in lines:
        file.write(f"{line}\n")
        count += 1
    return count


def import_(source: str, directory: str) -> None:
    """Create a data directory from an export (``-`` is stdin)."""
    from pcli.minibroker.storage.data_directory import import_lines

    if not directory:
        raise LocalError("--import requires --data DIR, the directory to create")
    try:
        if source == "-":
            count = import_lines(Path(directory), sys.stdin)
        else:
            with Path(source).open(encoding="utf-8") as file:
                count = import_lines(Path(directory), file)
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not UTF-8 text"
        raise LocalError(f"--import {source}: {reason}") from None
    say(f"{directory}: {count} entries")
