"""A JSON parser that returns tokens with positions, and reports errors as Jackson does (UTF8StreamJsonParser).

A value is converted while it is parsed (`pcli.minibroker.policies.java_types`). So the first error in the text is the
reported one, whether it is an error of syntax or of type. Columns count bytes, starting with 1.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pcli.minibroker.policies.errors import BadValueError

_SOURCE: Final = "Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(rb"[\w$\x80-\xff]*", re.ASCII)
_ESCAPES: Final = {b'"': '"', b"\\": "\\", b"/": "/", b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r", b"t": "\t"}
_HEX: Final = re.compile(rb"[0-9a-fA-F]{4}")
_WORDS: Final = {b"true": ("VALUE_TRUE", True), b"false": ("VALUE_FALSE", False), b"null": ("VALUE_NULL", None)}
_KNOWN: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_CLOSE: Final = {"Array": b"]", "Object": b"}"}
_DEEPEST: Final = 1000
"""Maximum nesting (StreamReadConstraints.DEFAULT_MAX_DEPTH)."""


class JsonError(BadValueError):
    """An error of syntax or type."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text, 400)
        self.what = text
        self.place = place
        self.path: list[str] = []
        """The references to the value, innermost first; each is ``Class["field"]`` or ``Class[index]``."""
        self.overflow = False
        """Whether a number is out of range. Jackson reports this error without a path if the number is the body."""

    @property
    def full(self) -> str:
        """The text, position and path."""
        chain = f" (through reference chain: {'->'.join(reversed(self.path))})" if self.path else ""
        return f"{self.what}\n at [{self.place}]{chain}"


class JsonParser:
    """The current token of a text, and the way to the next one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._open: list[tuple[str, int]] = []
        """The open arrays and objects, each with its start."""
        self._first = True
        """Whether the open array or object has no values yet."""
        self._named = False
        """Whether the current token is a field's name."""
        self.kind = ""
        """Jackson's name of the current token, for example VALUE_STRING; empty at the end of the text."""
        self.value: Any = None
        """The value of a field name, string, boolean or integer, or the text of a float."""
        self.start = 0
        """Offset of the current token."""

    # -- positions and errors --------------------------------------------------------------------------------------

    def place(self, offset: int) -> str:
        """Return the description of an offset."""
        before = self._data[:offset]
        column = offset - (before.rfind(b"\n") + 1)
        return f"{_SOURCE}line: {before.count(bytes([10])) + 1}, column: {column + 1}"

    def mismatch(self, text: str) -> JsonError:
        """Return an error at the start of the current token."""
        return JsonError(text, self.place(self.start))

    def overflow(self, kind: str, least: int, most: int) -> JsonError:
        """Return the error for a number that does not fit into ``kind``."""
        error = self._error(f"Numeric value ({self.value}) out of range of {kind} ({least} - {most})")
        error.overflow = True
        return error

    def _error(self, text: str, offset: int | None = None) -> JsonError:
        return JsonError(text, self.place(self._at if offset is None else offset))

    def _character(self, expected: str) -> JsonError:
        character = self._data[self._at :].decode("utf-8", "replace")[0]
        code = ord(character)
        shown = f"'{character}' (code {code})" if code >= 32 else f"(CTRL-CHAR, code {code})"
        return self._error(f"Unexpected character ({shown}): {expected}")

    # -- tokens ----------------------------------------------------------------------------------------------------

    def next(self) -> str:
        """Go to the next token and return its kind. Raises JsonError."""
        if self._named:
            self._named = False
            self._colon()
            return self._value("Object")
        container = self._open[-1][0] if self._open else ""
        if not container:
            self._skip_space()
            return self._value("") if self._at < len(self._data) else self._token("", None, self._at)
        if self._separator(container):
            return self.kind
        return self._field() if container == "Object" else self._value(container)

    def skip(self) -> None:
        """Go to the last token of the current value."""
        depth = len(self._open)
        if self.kind.startswith("START_"):
            while len(self._open) >= depth:
                self.next()

    def _token(self, kind: str, value: Any, start: int) -> str:
        self.kind, self.value, self.start = kind, value, start
        return kind

    def _skip_space(self) -> None:
        found = _SPACE.match(self._data, self._at)
        assert found is not None
        self._at = found.end()

    def _separator(self, container: str) -> bool:
        """Read the comma before a value. Return whether the array or object ends instead."""
        self._skip_space()
        byte = self._data[self._at : self._at + 1]
        if not byte:
            where = self.place(self._open[-1][1])
            raise self._error(
                f"Unexpected end-of-input: expected close marker for {container} (start marker at [{where}])"
            )
        if byte in (b"]", b"}"):
            self._close(container, byte)
            return True
        if not self._first:
            if byte != b",":
                raise self._character(f"was expecting comma to separate {container} entries")
            self._at += 1
            self._skip_space()
            if self._at >= len(self._data):
                raise self._error(f"Unexpected end-of-input within/between {container} entries")
        self._first = False
        return False

    def _close(self, container: str, byte: bytes) -> None:
        expected = _CLOSE[container]
        if byte != expected:
            where = self.place(self._open[-1][1])
            text = f"expected '{expected.decode()}' (for {container} starting at [{where}])"
            raise self._error(f"Unexpected close marker '{byte.decode()}': {text}")
        self._open.pop()
        self._first = False
        self._at += 1
        self._token(f"END_{container.upper()}", None, self._at - 1)

    def _field(self) -> str:
        if self._data[self._at : self._at + 1] != b'"':
            raise self._character("was expecting double-quote to start field name")
        start = self._at
        self._token("FIELD_NAME", self._string("field name"), start)
        self._named = True
        return self.kind

    def _colon(self) -> None:
        between = "Unexpected end-of-input within/between Object entries"
        self._skip_space()
        if self._at >= len(self._data):
            raise self._error(between)
        if self._data[self._at : self._at + 1] != b":":
            raise self._character("was expecting a colon to separate field name and value")
        self._at += 1
        self._skip_space()
        if self._at >= len(self._data):
            raise self._error(between)

    def _value(self, container: str) -> str:
        start, byte = self._at, self._data[self._at : self._at + 1]
        if byte in (b"{", b"["):
            kind = "Object" if byte == b"{" else "Array"
            if len(self._open) >= _DEEPEST:
                limit = f"({_DEEPEST}, from `StreamReadConstraints.getMaxNestingDepth()`)"
                raise self._error(f"Document nesting depth ({_DEEPEST + 1}) exceeds the maximum allowed {limit}")
            self._open.append((kind, start))
            self._first = True
            self._at += 1
            return self._token(f"START_{kind.upper()}", None, start)
        if byte == b'"':
            return self._token("VALUE_STRING", self._string("VALUE_STRING"), start)
        if byte == b"-" or byte.isdigit():
            return self._number(container)
        if byte in (b"]", b"}", b",", b":"):
            raise self._character("expected a value" if byte != b":" else f"expected a valid value {_KNOWN}")
        return self._word()

    def _word(self) -> str:
        start = self._at
        found = _WORD.match(self._data, start)
        assert found is not None
        if not found.group():
            raise self._character(f"expected a valid value {_KNOWN}")
        self._at = found.end()
        if (known := _WORDS.get(found.group())) is not None:
            return self._token(*known, start)
        word = found.group().decode("utf-8", "replace")
        raise self._error(f"Unrecognized token '{word}': was expecting {_KNOWN}")

    def _number(self, container: str) -> str:
        start = self._at
        found = _NUMBER.match(self._data, start)
        if found is None:
            self._at += 1
            if self._at >= len(self._data):
                raise self._error("Unexpected end-of-input in VALUE_NUMBER_INT")
            text = "in numeric value: expected digit (0-9) to follow minus sign, for valid numeric value"
            raise self._character(text)
        self._at = found.end()
        after = self._data[self._at : self._at + 1]
        if after.isdigit():
            raise self._error("Invalid numeric value: Leading zeroes not allowed")
        if not container and after and after not in b" \t\r\n":
            raise self._character("Expected space separating root-level values")
        text = found.group().decode()
        if found.group(1) or found.group(2):
            return self._token("VALUE_NUMBER_FLOAT", text, start)
        return self._token("VALUE_NUMBER_INT", int(text) if len(text) < 1000 else 1 << 1000, start)

    def _string(self, what: str) -> str:
        """Read a string that starts here, and return it."""
        self._at += 1
        pieces = []
        while True:
            found = _PLAIN.match(self._data, self._at)
            assert found is not None
            pieces.append(self._text(found.group()))
            self._at = found.end()
            byte = self._data[self._at : self._at + 1]
            if not byte:
                raise self._error(f"Unexpected end-of-input in {what}")
            if byte == b'"':
                self._at += 1
                return "".join(pieces)
            if byte != b"\\":
                name = "name" if what == "field name" else "string value"
                escaped = f"has to be escaped using backslash to be included in {name}"
                raise self._error(f"Illegal unquoted character ((CTRL-CHAR, code {byte[0]})): {escaped}")
            pieces.append(self._escape(what))

    def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self._at += error.start
            raise self._error(f"Invalid UTF-8 start byte 0x{data[error.start]:02x}") from None

    def _escape(self, what: str) -> str:
        code = self._data[self._at + 1 : self._at + 2]
        if code == b"u":
            digits = self._data[self._at + 2 : self._at + 6]
            if not _HEX.fullmatch(digits):
                raise self._error("Unexpected character: expected a hex-digit for character escape sequence")
            self._at += 6
            character = chr(int(digits, 16))
            return character if not 0xD800 <= ord(character) < 0xE000 else "\ufffd"
        if code not in _ESCAPES:
            if not code:
                raise self._error(f"Unexpected end-of-input in {what}", self._at + 1)
            raise self._error(f"Unrecognized character escape '{code.decode('latin-1')}' (code {code[0]})")
        self._at += 2
        return _ESCAPES[code]
