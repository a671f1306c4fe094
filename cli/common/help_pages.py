"""Help pages of commands with readable placeholders: ``FILE`` and ``[FILE]...`` instead of Python types."""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperCommand

_TYPE: Final = re.compile(r" <[^|>]*>$")
_RANGE: Final = re.compile(r"(; |(?<=\[))[^;\[\]]*\bx[<>]=?[^;\[\]]*")


class PlainCommand(TyperCommand):
    """A command whose help page shows neither Python types nor ranges of numbers."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments of the usage line: ``TOPIC`` if required, ``[FILE]...`` if optional and repeatable."""
        words = [self.options_metavar or ""]
        for param in self.get_params(ctx):
            more = "..." if param.nargs == -1 else ""
            words += (word.strip("{}").removesuffix(more) + more for word in param.get_usage_pieces(ctx))
        return words

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Print arguments and options with their help."""
        for title, rows in help_records(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl(rows)


def help_records(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the names and the help of the arguments and the options of a command, below their titles."""
    records: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            title = "Arguments" if param.param_type_name == "argument" else "Options"
            records[title].append(_readable(*record))
    return {title: rows for title, rows in records.items() if rows}


def _readable(names: str, text: str) -> tuple[str, str]:
    """Return the names without Python types, and the help without ranges."""
    text = _RANGE.sub("", text).replace("[; ", "[").replace("  []", "").replace("[required]", "").rstrip()
    return _TYPE.sub("", names), text
