"""The reference of the commands, derived from the command line: Markdown pages for the site, and manual pages.

python -m pcli.cli.command_reference FOLDER: writes pcli.1 and a manual page for each command into FOLDER (`make man`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from pcli.cli import __version__
from pcli.cli.commands import application
from pcli.cli.common.help_pages import help_records

Rows = list[tuple[str, str]]

EXIT_CODES: Final[Rows] = [
    ("0", "The input was read to its end."),
    ("1", "A check failed, or nothing was found."),
    ("2", "The usage is wrong, the input is unreadable, or the peer refused a request."),
    ("3", "The input is damaged or truncated. The command shows everything before the damage."),
    (
        "130",
        "The command was interrupted with Ctrl-C. Live views exit with 0 instead, because Ctrl-C is the normal way to "
        "end them.",
    ),
]


@dataclass(frozen=True)
class Entry:
    """A command with the parts of its help: the usage, paragraphs of text, examples, and rows of names and texts."""

    name: str
    """The words of the command, such as ``pcli stats io``."""

    panel: str
    usage: str
    summary: str
    text: list[str]
    examples: list[str]
    records: dict[str, Rows]
    subcommands: list[Entry] = field(default_factory=list)

    @property
    def page(self) -> str:
        """The name of the page: ``pcli-stats`` for `pcli stats`."""
        return self.name.replace(" ", "-")


def is_example(paragraph: str) -> bool:
    """Return whether a paragraph of a help text is a command line."""
    return bool(re.match(r"(?:\w+ [^.]*\| )?pcli ", paragraph))


def entry_of(command: Any, name: str, outer: Any = None) -> Entry:
    """Return the entry of a command and of its subcommands. ``outer`` is the context of the group."""
    ctx = command.make_context(name, [], parent=outer, resilient_parsing=True)
    first, *rest = [re.sub(r"\s*\n\s*", " ", part) for part in command.help.strip().split("\n\n")]
    names = getattr(command, "commands", {})
    return Entry(
        ctx.command_path,
        getattr(command, "rich_help_panel", "") or "",
        f"{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}",
        first,
        [part for part in rest if not is_example(part)],
        [part for part in rest if is_example(part)],
        help_records(command, ctx),
        [entry_of(one, key, ctx) for key, one in names.items() if not one.hidden],
    )


def command_line() -> Entry:
    """Return the entry of `pcli`."""
    return entry_of(get_command(application()), "pcli")


def panels(root: Entry) -> dict[str, list[Entry]]:
    """Return the commands below the titles of their panels, in the order of `pcli --help`."""
    return {
        title: [one for one in root.subcommands if one.panel == title]
        for title in dict.fromkeys(one.panel for one in root.subcommands)
    }


def cell(text: str) -> str:
    """Return the text for a cell of a Markdown table, without HTML and links."""
    return re.sub(r"([|<>\[\]*_])", r"\\\1", text)


def markdown(entry: Entry, level: int = 1) -> Iterator[str]:
    """Yield the parts of the Markdown page of a command."""
    yield f"{'#' * level} {entry.name}"
    yield cell(entry.summary)
    yield f"```\n{entry.usage}\n```"
    yield from map(cell, entry.text)
    if entry.examples:
        yield "Examples:"
        yield "```\n" + "\n".join(entry.examples) + "\n```"
    for title, rows in entry.records.items():
        body = "\n".join(f"| `{names.replace('|', chr(92) + '|')}` | {cell(text)} |" for names, text in rows)
        yield f"| {title.lower().rstrip('s')} | meaning |\n|---|---|\n{body}"
    for one in entry.subcommands:
        yield from markdown(one, level + 1)


def roff(text: str) -> str:
    """Return the text as ASCII for a line of a manual page. Hyphens are minus signs, so that options can be copied."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = re.sub(r"[^\x00-\x7f]", lambda match: rf"\[u{ord(match[0]):04X}]", text)
    return rf"\&{text}" if text[:1] in (".", "'") else text


def titled(title: str, rows: Rows) -> Iterator[str]:
    """Yield the lines of a section with a list of names and texts."""
    yield f".SH {title.upper()}"
    for names, text in rows:
        yield from (".TP", f".B {roff(names)}", roff(text) or r"\&")


def body(entry: Entry) -> Iterator[str]:
    """Yield the lines of the sections of one command, without its name."""
    yield from (".SH SYNOPSIS", f".B {roff(entry.usage)}", ".SH DESCRIPTION", roff(entry.summary))
    for part in entry.text:
        yield from (".PP", roff(part))
    for title, rows in entry.records.items():
        yield from titled(title, rows)
    if entry.examples:
        yield from (".SH EXAMPLES", ".nf", *map(roff, entry.examples), ".fi")


def manual_pages(root: Entry) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each manual page: of pcli, its commands and their subcommands."""
    inner = [entry for one in root.subcommands for entry in (one, *one.subcommands)]
    for entry in (root, *inner):
        outer = [one for one in (root, *inner) if entry in one.subcommands]
        others = [*outer, *entry.subcommands]
        lines = [
            f'.TH {entry.page.upper()} 1 "" "pcli {__version__}" "pcli"',
            ".SH NAME",
            rf"{roff(entry.page)} \- {roff(entry.summary.rstrip('.'))}",
            *body(entry),
            *(titled("Commands", [(one.name, one.summary) for one in entry.subcommands]) if entry.subcommands else ()),
            *titled("Exit status", EXIT_CODES),
            ".SH SEE ALSO",
            " ,\n".join(f".BR {roff(one.page)} (1)" for one in others),
        ]
        yield entry.page, "\n".join(lines) + "\n"


def main() -> None:
    """Write the manual pages."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manual_pages(command_line()):
        (folder / f"{name}.1").write_text(text)


if __name__ == "__main__":
    main()
