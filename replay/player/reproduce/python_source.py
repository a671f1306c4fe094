"""Python source of values and calls, laid out as ruff's formatter would: what it prints, ``ruff format`` leaves alone.

Rules of this file
1. A node that fits in its line stands there. If not, the arguments of a call stand in a line of their own, and if they
   do not fit either, in a line each; the items of a list or dict in a line each at once.
2. Text is in double quotes, unless that means more escapes. What is too long for a line is a constant of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["WIDTH", "Group", "Node", "laid_out", "literal", "pieces"]

WIDTH: Final = 120
_INDENT: Final = 4


@dataclass(frozen=True, slots=True)
class Group:
    """Something in brackets: ``head`` ends with the opening one."""

    head: str
    items: Sequence[tuple[str, Node]]
    """What stands before an item (``name=``), and the item."""
    close: str
    call: bool = True
    """Not a list or dict."""

    @property
    def flat(self) -> str:
        """In one line."""
        return self.head + ", ".join(before + _flat(node) for before, node in self.items) + self.close


Node = str | Group


def _flat(node: Node) -> str:
    return node if isinstance(node, str) else node.flat


def laid_out(before: str, node: Node, indent: int, after: str = "") -> list[str]:
    """The lines of ``before node after`` at an indentation of so many spaces."""
    space = " " * indent
    line = f"{space}{before}{_flat(node)}{after}"
    if len(line) <= WIDTH or isinstance(node, str) or not node.items:
        return [line]
    inner = space + " " * _INDENT + ", ".join(name + _flat(item) for name, item in node.items)
    if node.call and len(inner) <= WIDTH:
        body = [inner]
    else:
        body = [text for name, item in node.items for text in laid_out(name, item, indent + _INDENT, ",")]
    return [f"{space}{before}{node.head}", *body, f"{space}{node.close}{after}"]


def literal(value: str | bytes) -> str:
    """Text or bytes as source, in one line."""
    items = [value[at : at + 1] for at in range(len(value))]
    marks = [item if isinstance(item, str) else item.decode("latin-1") for item in items]
    quote = "'" if marks.count('"') > marks.count("'") else '"'
    body = "".join(_escaped(item, mark, quote) for item, mark in zip(items, marks, strict=True))
    return ("b" if isinstance(value, bytes) else "") + quote + body + quote


def _escaped(item: str | bytes, mark: str, quote: str) -> str:
    if mark in ("'", '"'):
        return f"\\{mark}" if mark == quote else mark
    return repr(item)[len(repr(item[:0])) - 1 : -1]


def pieces(value: str | bytes, width: int) -> list[str]:
    """Text or bytes as several literals, none wider than ``width``."""
    found, rest = [], value
    while rest:
        size = min(len(rest), width)
        while size > 1 and len(literal(rest[:size])) > width:
            size -= 1
        found.append(literal(rest[:size]))
        rest = rest[size:]
    return found
