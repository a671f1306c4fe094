r"""Parser from filter text to syntax tree, with the grammar of Wireshark 4.

Rules of this file
1. The precedence from low to high is ``or``, ``xor``, ``and``, ``not``. Each operator has a word and a symbol:
   ``and &&``, ``or ||``, ``xor ^^``, ``not !``, ``eq ==``, ``ne !=``, ``lt <``, ``le <=``, ``gt >``, ``ge >=``,
   ``matches ~``. ``all_eq ===`` and ``any_ne !==`` are for fields with several values.
2. ``a < b < c`` is ``a < b and b < c``.
3. A word with the prefix of a field (``pulsar.``, ``frame.``, ``ip.``, ``tcp.``) is a field. Any other word is a value,
   which needs quotes only if it contains characters of the grammar. Single and double quotes are equivalent, because
   shells remove unescaped quotes.
4. In a string ``\n \r \t \0 \" \' \\ \x41 \u20ac`` are escapes. A backslash before any other character is kept, so that
   ``"\d+"`` works as a pattern. In ``r"…"`` every backslash is kept.
5. Text and nesting are limited. Every error is a LocalError with the position.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from pcli.codec.errors import LocalError
from pcli.codec.observe.filters.syntax_tree import (
    FUNCTIONS,
    And,
    Call,
    Compare,
    FieldName,
    In,
    Literal,
    Node,
    Not,
    Operand,
    Or,
    Present,
    Range,
    Xor,
)

MAX_TEXT: Final = 100_000
"""Maximum number of characters in a filter."""

MAX_DEPTH: Final = 50
"""Maximum nesting of brackets and ``not``."""

OPERATORS: Final[dict[str, str]] = {
    "eq": "==",
    "any_eq": "==",
    "ne": "!=",
    "all_ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "all_eq": "===",
    "any_ne": "!==",
    "~": "matches",
    **{sign: sign for sign in ("==", "!=", "<", "<=", ">", ">=", "===", "!==", "contains", "matches")},
}
"""Words and signs of the relations, with their form in the tree."""

_AND: Final = ("and", "&&")
_OR: Final = ("or", "||")
_XOR: Final = ("xor", "^^")
_NOT: Final = ("not", "!")
_WINDOW: Final = 100  # maximum length of the part of a filter that a message shows
_ROOTS: Final = ("frame.", "ip.", "pulsar.", "tcp.")

_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<raw>[rR](?:"[^"]*"|'[^']*'))
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<sign>===|!==|==|!=|<=|>=|&&|\|\||\^\^|\.\.|[<>!(){},~])
    |(?P<word>(?:(?!\.\.)[^\s(){},"'!=<>&|^~])+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([nrt0\"'\\]))")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class _Token(NamedTuple):
    kind: str
    """``string``, ``sign``, ``word`` or, after the last token, ``end``."""
    text: str
    at: int
    end: int


def parse_filter(text: str) -> Node:
    """Parse a filter to its tree. If it is invalid, raise LocalError with a caret under the position."""
    if len(text) > MAX_TEXT:
        raise LocalError(f"invalid filter: {len(text)} characters; at most {MAX_TEXT} are allowed")
    parser = _Parser(text, _tokens(text))
    node = parser.either()
    if parser.token.kind != "end":
        parser.wrong(f"{parser.token.text!r} is not expected here", parser.token)
    return node


def fail(text: str, message: str, at: int, end: int) -> NoReturn:
    """Raise a LocalError with the reason, the filter, and a caret under the position."""
    first = max(0, at - _WINDOW // 2) if len(text) > _WINDOW else 0
    line = "".join(one if one.isprintable() else " " for one in text[first : first + _WINDOW])
    caret = "^" * max(1, min(end, first + _WINDOW) - at)
    offset = len(text[:at].encode("utf-8", "surrogatepass"))
    raise LocalError(f"invalid filter: {message}\n  {line}\n  {' ' * (at - first)}{caret}", offset)


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            at = position + len(text[position:]) - len(text[position:].lstrip())
            quote = text[at] in "\"'"
            fail(text, "the string is not terminated" if quote else f"{text[at]!r} is not valid here", at, at + 1)
        kind, found, at = match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)
        position = match.end()
        if kind == "string":
            found = _ESCAPE.sub(_unescape, found[1:-1])
        elif kind == "raw":
            kind, found = "string", found[2:-1]
        tokens.append(_Token(kind, found, at, position))
    return [*tokens, _Token("end", "the end", end, end + 1)]


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])


class _Parser:
    """A recursive-descent parser with one method per rule of the grammar."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> _Token:
        """The next token."""
        return self._tokens[self._next]

    def wrong(self, message: str, token: _Token) -> NoReturn:
        """Raise an error at the current position."""
        fail(self._text, message, token.at, token.end)

    def either(self) -> Node:
        """Parse "or", the rule with the lowest precedence."""
        parts = [self._odd()]
        while self._take(*_OR):
            parts.append(self._odd())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _odd(self) -> Node:
        parts = [self._both()]
        while self._take(*_XOR):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Xor(tuple(parts))

    def _both(self) -> Node:
        parts = [self._unary()]
        while self._take(*_AND):
            parts.append(self._unary())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _unary(self) -> Node:
        token = self.token
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.wrong(f"more than {MAX_DEPTH} nested brackets", token)
        node: Node
        if self._take(*_NOT):
            node = Not(self._unary())
        elif self._take("("):
            node = self.either()
            self._want(")")
        else:
            node = self._test()
        self._depth -= 1
        return node

    def _test(self) -> Node:
        token = self.token
        quantifier = token.text if token.kind == "word" and token.text in ("any", "all") else ""
        if quantifier:
            self._next += 1
        left = self._operand()
        negated = self.token.text == "not" and self._tokens[self._next + 1].text == "in" and self._take("not")
        if self._take("in"):
            members = In(self._valued(left, token), self._set(), quantifier, token.at)
            return Not(members) if negated else members
        tests: list[Node] = []
        while (operator := self._operator()) is not None:
            right = self._operand()
            if isinstance(left, Literal) and isinstance(right, Literal):
                self.wrong(f"no field: {left.text!r} and {right.text!r} are both values", token)
            tests.append(Compare(operator, left, right, quantifier, token.at))
            left = right
        if not tests:
            if quantifier:
                self.wrong(f"{quantifier!r} requires a comparison", token)
            return Present(self._valued(left, token))
        return tests[0] if len(tests) == 1 else And(tuple(tests))

    def _operator(self) -> str | None:
        token = self.token
        operator = OPERATORS.get(token.text) if token.kind in ("sign", "word") else None
        if operator is not None:
            self._next += 1
        return operator

    def _valued(self, operand: Operand, token: _Token) -> FieldName | Call:
        if isinstance(operand, Literal):
            self.wrong(f"{operand.text!r} is not a field", token)
        return operand

    def _operand(self) -> Operand:
        token = self.token
        if token.kind == "string":
            self._next += 1
            return Literal(token.text, quoted=True, at=token.at)
        if token.kind != "word" or token.text in _KEYWORDS:
            self.wrong(f"a field or a value is missing before {token.text!r}", token)
        self._next += 1
        if token.text in FUNCTIONS and self._take("("):
            of = self._operand()
            if not isinstance(of, FieldName):
                self.wrong(f"{token.text}() requires a field", token)
            self._want(")")
            return Call(token.text, of, token.at)
        if token.text.startswith(_ROOTS):
            return FieldName(token.text, token.at)
        return Literal(token.text, quoted=False, at=token.at)

    def _set(self) -> tuple[Literal | Range, ...]:
        self._want("{")
        items: list[Literal | Range] = []
        while not self._take("}"):
            low = self._literal()
            items.append(Range(low, self._literal()) if self._take("..") else low)
            self._take(",")
        if not items:
            self.wrong("the set is empty", self._tokens[self._next - 1])
        return tuple(items)

    def _literal(self) -> Literal:
        token = self.token
        operand = self._operand()
        if not isinstance(operand, Literal):
            self.wrong("a set contains values, not fields", token)
        return operand

    def _take(self, *texts: str) -> bool:
        """Return whether the next token is one of the given tokens; if so, consume it."""
        if self.token.kind in ("sign", "word") and self.token.text in texts:
            self._next += 1
            return True
        return False

    def _want(self, text: str) -> None:
        if not self._take(text):
            self.wrong(f"{text!r} is missing before {self.token.text!r}", self.token)


_KEYWORDS: Final = frozenset({"in", "any", "all", *_AND, *_OR, *_XOR, *_NOT, *OPERATORS})
