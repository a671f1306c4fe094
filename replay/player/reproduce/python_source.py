"""Python source of values and calls, formatted as ``ruff format`` would format it.

Rules of this file
1. A node is written on one line if it fits. Otherwise the arguments of a call are moved to one indented line or, if
   they do not fit, to one line each. The items of a list or dict are written on one line each.
2. Strings have double quotes, unless single quotes need fewer escapes. A value that is too long becomes a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 120
_INDENT: Final = 4


@dataclass(frozen=True, slots=True)
class Group:
    """A bracketed expression; ``head`` ends with the opening bracket."""

    head: str
    items: Sequence[tuple[str, Node]]
    """Pairs of a prefix (``name=``) and an item."""
    close: str
    call: bool = True
    """True for calls, False for lists and dicts."""

    @property
    def flat(self) -> str:
        """The source on one line."""
        return self.head + ", ".join(before + _flat(node) for before, node in self.items) + self.close


Node = str | Group


def _flat(node: Node) -> str:
    return node if isinstance(node, str) else node.flat


def formatted_lines(before: str, node: Node, indent: int, after: str = "") -> list[str]:
    """Return the lines of ``before node after`` with this indentation."""
    space = " " * indent
    line = f"{space}{before}{_flat(node)}{after}"
    if len(line) <= WIDTH or isinstance(node, str) or not node.items:
        return [line]
    inner = space + " " * _INDENT + ", ".join(name + _flat(item) for name, item in node.items)
    if node.call and len(inner) <= WIDTH:
        body = [inner]
    else:
        body = [text for name, item in node.items for text in formatted_lines(name, item, indent + _INDENT, ",")]
    return [f"{space}{before}{node.head}", *body, f"{space}{node.close}{after}"]


def literal(value: str | bytes) -> str:
    """Return a one-line literal of a string or bytes."""
    items = [value[at : at + 1] for at in range(len(value))]
    marks = [item if isinstance(item, str) else item.decode("latin-1") for item in items]
    quote = "'" if marks.count('"') > marks.count("'") else '"'
    body = "".join(_escaped(item, mark, quote) for item, mark in zip(items, marks, strict=True))
    return ("b" if isinstance(value, bytes) else "") + quote + body + quote


def _escaped(item: str | bytes, mark: str, quote: str) -> str:
    if mark in ("'", '"'):
        return f"\\{mark}" if mark == quote else mark
    return repr(item)[len(repr(item[:0])) - 1 : -1]


def split_literal(value: str | bytes, width: int) -> list[str]:
    """Split a string or bytes into literals of at most ``width`` characters."""
    found, rest = [], value
    while rest:
        size = min(len(rest), width)
        while size > 1 and len(literal(rest[:size])) > width:
            size -= 1
        found.append(literal(rest[:size]))
        rest = rest[size:]
    return found
