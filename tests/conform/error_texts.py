"""Run the conformance tool so that it also compares the texts of errors.

    python tests/conform/error_texts.py [--tool TOOL] check|record|show|list ... --dir FOLDER

The tool itself compares only the codes of errors. Here the first 100 characters of each text are compared too, without
numbers. LIBRARIES matches the texts that libraries produce, which are equal.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Final

SHARED = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "conform"

_arguments = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
_arguments.add_argument("--tool", type=Path, default=SHARED)
TOOL, REST_OF_LINE = _arguments.parse_known_args()
sys.path.insert(0, str(TOOL.tool))

import conform  # noqa: E402
import play  # noqa: E402, F401  (for conform5.py)
import wire  # noqa: E402, F401

COMPARED: Final = 100

LIBRARIES: Final = re.compile(
    r"java\.util\.regex\.|Invalid topics pattern: "  # Java's and Python's regular expressions
    r"|missing \) at position"
    r"|.*SchemaParseException: "  # the parsers of JSON
    r"|Failed to get batch size for entry"  # Netty's buffers
)


def text_of(note: str) -> str:
    """Return the part of an error's text that is compared."""
    if LIBRARIES.match(note):
        return "a text of a library"
    return re.sub(r"0x[0-9a-f]+|\d+", "N", note)[:COMPARED]


def flat(steps: list[dict[str, Any]], notes: bool = False) -> list[str]:
    """Replace ``conform.flat``: return the lines of a transcript that are compared."""
    lines = []
    for step in steps:
        lines += step["do"]
        for name, received in step["got"].items():
            for line in received:
                head, mark, note = line.partition("  # ")
                compared = f"{head}{mark}{text_of(note)}" if "error" in head else head
                lines.append(f"    {name} << {line if notes else compared}")
    return lines


conform.flat = flat

if __name__ == "__main__":
    sys.argv[1:] = REST_OF_LINE
    sys.exit(conform.main())
