"""What leaves a command: data on stdout, talk on stderr, and an exit code that means something.

Rules of this file
1. Exit codes: 0 read to the end; 1 a question answered no; 2 usage, or input that cannot be read; 3 input that is
   damaged or cut (what came before it is shown). 130 after Ctrl-C.
2. A reader that goes away (``| head``) is no error: we end quietly.
3. An error is one line on stderr: what, where, and the way out.
"""

from __future__ import annotations

import json
import os
import sys
from enum import IntEnum
from typing import Any, NoReturn

__all__ = ["Exit", "fail", "json_text", "say", "stop_quietly", "write_bytes", "write_line"]


class Exit(IntEnum):
    """The exit codes of every command."""

    FINE = 0
    NO = 1
    USAGE = 2
    DAMAGED = 3
    INTERRUPTED = 130


def write_line(text: str) -> None:
    """One line of data on stdout."""
    sys.stdout.write(text)
    sys.stdout.write("\n")


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON that is readable and harmless: what is not printable stands as its escape, line ends aside."""
    separators = None if indent is not None else (",", ":")
    text = json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def write_bytes(data: bytes) -> None:
    """Binary data on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def say(text: str) -> None:
    """One line of talk on stderr, after what was printed so far."""
    if sys.stdout is not None:
        sys.stdout.flush()
    print(f"pcli: {text}", file=sys.stderr)


def fail(text: str, code: Exit = Exit.USAGE) -> NoReturn:
    """Say what is wrong and end with this code."""
    say(text)
    raise SystemExit(int(code))


def stop_quietly(code: Exit) -> NoReturn:
    """End although stdout takes no more; it is replaced so that Python's own flush at exit says nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(int(code))
