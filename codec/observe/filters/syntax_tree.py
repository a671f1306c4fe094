"""The syntax tree of a filter, and its conversion back to text.

Nodes are values: equal trees represent the same filter. Positions in the text are used only in messages and are not
compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FUNCTIONS: Final[dict[str, str]] = {
    "count": "number of values of a field in the frame",
    "len": "length in characters of a string, or in bytes of a bytes field",
    "lower": "a string in lower case",
    "upper": "a string in upper case",
}
"""Functions of a field, with the kinds of their results."""


@dataclass(frozen=True, slots=True)
class FieldName:
    """A field."""

    name: str
    at: int = field(default=0, compare=False)
    """Position in the text."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a field."""

    function: str
    of: FieldName
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as written. Its meaning depends on the field with which it is compared."""

    text: str
    quoted: bool
    at: int = field(default=0, compare=False)


Operand = FieldName | Call | Literal


@dataclass(frozen=True, slots=True)
class Range:
    """``low..high`` in a set, both ends included."""

    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class Present:
    """The test whether a field is present."""

    of: FieldName | Call


@dataclass(frozen=True, slots=True)
class Compare:
    """A relation ``left operator right``. The operator is in its short form, or is ``contains`` or ``matches``."""

    operator: str
    left: Operand
    right: Operand
    quantifier: str = ""
    """``any``, ``all``, or empty for the operator's default (all for !=, any for all other operators)."""
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """The test whether a value is in a set."""

    of: FieldName | Call
    items: tuple[Literal | Range, ...]
    quantifier: str = ""
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of a node."""

    of: Node


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction: true if all nodes are true."""

    of: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction: true if at least one node is true."""

    of: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Xor:
    """An exclusive or: true if an odd number of nodes is true."""

    of: tuple[Node, ...]


Node = Present | Compare | In | Not | And | Or | Xor

_WORDS: Final = {And: " and ", Or: " or ", Xor: " xor "}
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def to_text(node: Node) -> str:
    """Return a filter expression that parses to this tree."""
    match node:
        case Present(of):
            return _operand(of)
        case Compare(operator, left, right, quantifier):
            return f"{_prefix(quantifier)}{_operand(left)} {operator} {_operand(right)}"
        case In(of, items, quantifier):
            return f"{_prefix(quantifier)}{_operand(of)} in {{{', '.join(map(_item, items))}}}"
        case Not(of):
            return f"not {_inner(of)}"
        case And(parts) | Or(parts) | Xor(parts):
            return _WORDS[type(node)].join(map(_inner, parts))


def _inner(node: Node) -> str:
    return f"({to_text(node)})" if isinstance(node, (And, Or, Xor)) else to_text(node)


def _prefix(quantifier: str) -> str:
    return f"{quantifier} " if quantifier else ""


def _item(item: Literal | Range) -> str:
    return _operand(item) if isinstance(item, Literal) else f"{_operand(item.low)}..{_operand(item.high)}"


def _operand(operand: Operand) -> str:
    match operand:
        case FieldName(name):
            return name
        case Call(function, of):
            return f"{function}({of.name})"
        case Literal(text, quoted):
            return f'"{"".join(_ESCAPES.get(one, one) for one in text)}"' if quoted else text
