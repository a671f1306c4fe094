"""The output of all commands: data on stdout, messages on stderr, and an exit code.

Rules of this file
1. Exit codes: 0 if the input was read to the end; 1 if a check failed; 2 for wrong usage or unreadable input; 3 if the
   input is damaged or truncated (everything before the damage is shown); 130 after Ctrl-C.
2. If the reader of stdout closes it (``| head``), the command ends without a message. Files that the command writes are
   still complete, and the exit code does not change.
3. An error is one line on stderr: the problem, its position, and the remedy.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import IO, Any, Final, NoReturn


class Exit(IntEnum):
    """The exit codes of every command."""

    FINE = 0
    NO = 1
    USAGE = 2
    DAMAGED = 3
    INTERRUPTED = 130


SEVERITY_COLORS: Final = {"error": "\x1b[1;31m", "warning": "\x1b[33m", "note": "\x1b[36m"}
"""Escape sequences for the severities of findings; ``\\x1b[0m`` resets the colour."""

_LEAST_WIDTH: Final = 80


def write_line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text)
    sys.stdout.write("\n")


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as readable JSON. Characters that are not printable, except line ends, are escaped."""
    text = _compact(value) if indent is None else json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def print_json(values: list[Any] | dict[str, Any], output: str) -> None:
    """Print objects as ``json`` (one array) or as ``ndjson`` (one object per line).

    A dict contains objects by topic. In ``ndjson``, each object begins with its topic.
    """
    if output == "ndjson":
        if isinstance(values, dict):
            values = [{"topic": topic, **one} for topic, one in values.items()]
        print_json_lines(map(json_text, values), output)
    else:
        write_line(json_text(values, indent=1))


def print_json_lines(lines: Iterable[str], output: str) -> int:
    """Print objects, one per line, as ``json`` (one array) or as ``ndjson``. Return their number."""
    before, between, after = ("[\n", ",\n", "\n]\n") if output == "json" else ("", "\n", "\n")
    count = 0
    for count, line in enumerate(lines, 1):
        sys.stdout.write((between if count > 1 else before) + line)
    sys.stdout.write(after if count else "[]\n" if output == "json" else "")
    return count


def write_bytes(data: bytes) -> None:
    """Write binary data to stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


@contextmanager
def complete_file(path: str | Path) -> Iterator[Path]:
    """Yield the name of the file to write, which replaces ``path`` when the block ends without an exception.

    The target of a link is replaced, not the link, and keeps its mode. A device, a pipe, and any name below /dev or
    /proc is written directly. Raises OSError.
    """
    target = Path(path).resolve()
    special = Path(path).absolute().parts[1:2] in (("dev",), ("proc",))
    if special or (target.exists() and not target.is_file()):
        yield Path(path)
        return
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        yield part
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    except OSError as error:
        if error.filename == str(part):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            part.unlink()


def say(text: str) -> None:
    """Print one message on stderr, after all buffered output of stdout. It may contain text of a peer."""
    if not text.replace("\n", "").isprintable():
        from pcli.codec.observe.text_format import printable

        text = "\n".join(map(printable, text.split("\n")))
    if sys.stdout is not None:
        sys.stdout.flush()
    print(f"pcli: {text}", file=sys.stderr)


def fail(text: str, code: Exit = Exit.USAGE) -> NoReturn:
    """Print an error and end the command with this exit code."""
    say(text)
    raise SystemExit(int(code))


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 packet``, ``2 packets``. The default plural is the noun with ``s``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def colored(file: IO[str] | None = None) -> bool:
    """Whether to print colours: True if the file (default: stdout) is a terminal and NO_COLOR is not set."""
    return not os.environ.get("NO_COLOR") and (file or sys.stdout).isatty()


def text_width() -> int | None:
    """Return the number of columns of the terminal, at least 80, or None if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(_LEAST_WIDTH, shutil.get_terminal_size().columns)


def discard_stdout() -> None:
    """Redirect stdout and its buffered output to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def ignoring_closed_stdout() -> Iterator[None]:
    """Leave the block at the first write after the reader of stdout has closed it. Discard later output."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def stop_quietly(code: int) -> NoReturn:
    """End the command after the reader of stdout has closed it. Neither the command nor Python prints a message."""
    discard_stdout()
    raise SystemExit(int(code))
