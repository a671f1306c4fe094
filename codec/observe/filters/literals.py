"""Values in a filter: a word or string is converted for the field with which it is compared.

Rules of this file
1. The kind of the field determines the meaning. A comparison of a number with text is reported as an error when the
   filter is compiled.
2. Sizes may have a unit (``64KiB`` is 64 · 1024, ``5MB`` is 5 · 1000²), and so may durations (``100ms``; the default is
   seconds). Times are seconds since 1970 or ISO text. Times without a zone are in UTC, so that results do not depend on
   the local time zone.
3. For bytes, a bare word is hex (``0a0b``, ``0a:0b``), and a quoted string represents the bytes of the string.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

from pcli.codec.observe.fields.field import Field
from pcli.codec.observe.fields.field_table import nearest
from pcli.codec.observe.filters.syntax_tree import Literal

_NUMBER: Final = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]{1,32})|(\d{1,40}(?:\.\d{1,40})?)([A-Za-zµ]*))", re.ASCII)
_HEX: Final = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2}[:.-]?)*[0-9a-fA-F]{2})")
_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII
)
_SIZES: Final = {
    "": 1,
    **{f"{letter}{unit}": 1000**power for power, letter in enumerate("kMGT", 1) for unit in ("", "B")},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    "B": 1,
    "K": 1000,
    "KB": 1000,
}
_SECONDS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "": 10**9, "m": 60 * 10**9}
_DURATIONS: Final = {**_SECONDS, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WrongValueError(ValueError):
    """A value that the field cannot have, with the reason. It is converted to a LocalError with the position."""


def value_of(field: Field, kind: str, literal: Literal) -> Any:
    """Return the raw value of a literal for a field of this kind. Raise WrongValueError if there is none."""
    return _READERS[kind](field, literal)


def enum_number(field: Field, name: str) -> int:
    """Return the number of an enum value, for ordering; ``UNKNOWN_9`` is 9."""
    for word, number in field.words:
        if word == name:
            return number
    digits = name.removeprefix("UNKNOWN_")
    return int(digits) if digits.removeprefix("-").isdecimal() else -1


def _number(field: Field, literal: Literal) -> Any:
    value, unit = _decimal(field, literal, "a number")
    if unit not in _SIZES:
        raise WrongValueError(f"{unit!r} is not a unit; use one of {', '.join(sorted(filter(None, _SIZES)))}")
    value *= _SIZES[unit]
    return int(value) if value == value.to_integral_value() else float(value)


def _decimal(field: Field, literal: Literal, what: str) -> tuple[Decimal, str]:
    match = None if literal.quoted else _NUMBER.fullmatch(literal.text)
    if match is None:
        shown = f'"{literal.text}"' if literal.quoted else literal.text
        raise WrongValueError(f"{field.name} is {what}; {shown} is not")
    sign, hexadecimal, decimal, unit = match.groups()
    value = Decimal(int(hexadecimal, 16)) if hexadecimal else Decimal(decimal)
    return (-value if sign == "-" else value), unit or ""


def parse_duration(text: str) -> int:
    """Return a duration such as ``5s`` or ``200 ms`` in nanoseconds; without a unit, seconds. Raises ValueError."""
    match = _NUMBER.fullmatch(text.replace(" ", ""))
    if match is None or match[1] or not match[3] or match[4] not in _DURATIONS:
        raise ValueError(text)
    return int(Decimal(match[3]) * _DURATIONS[match[4]])


def _duration(field: Field, literal: Literal) -> int:
    value, unit = _decimal(field, literal, "a duration")
    if unit not in _DURATIONS:
        raise WrongValueError(f"{unit!r} is not a unit of time; use one of {', '.join(filter(None, _DURATIONS))}")
    return int(value * _DURATIONS[unit])


def _time(field: Field, literal: Literal) -> int:
    match = _ISO.fullmatch(literal.text.strip())
    if match is None:
        bare = Literal(literal.text, quoted=False)
        value, unit = _decimal(field, bare, "a time (seconds since 1970, or 2026-01-31T12:00:00Z)")
        if unit:
            raise WrongValueError(f"{field.name} is a time; {literal.text} is not")
        return int(value * 10**9)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=_zone(zone)
        )
    except ValueError as error:
        raise WrongValueError(f"{literal.text}: {error}") from None
    return (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "0").ljust(9, "0"))


def _zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "UTC"):
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _bool(field: Field, literal: Literal) -> bool:
    found = {"true": True, "1": True, "false": False, "0": False}.get(literal.text.lower())
    if found is None:
        raise WrongValueError(f"{field.name} is true or false, not {literal.text!r}")
    return found


def _enum(field: Field, literal: Literal) -> str:
    text = literal.text
    names = [name for name, _ in field.words]
    if text in names or re.fullmatch(r"UNKNOWN_-?\d{1,19}", text, re.ASCII):
        return text
    if not literal.quoted and re.fullmatch(r"-?(\d{1,19}|0[xX][0-9a-fA-F]{1,16})", text, re.ASCII):
        number = int(text, 0) if "x" in text.lower() else int(text)
        return next((name for name, one in field.words if one == number), f"UNKNOWN_{number}")
    alike = {name.casefold(): name for name in names}
    meant = alike.get(text.casefold())
    hint = f"; did you mean {meant}?" if meant else nearest(text, names) or f"; there are {', '.join(names[:12])}"
    raise WrongValueError(f"{field.name} is never {text!r}{hint}")


def _address(field: Field, literal: Literal) -> Any:
    try:
        return ipaddress.ip_network(literal.text, strict=False)
    except ValueError:
        raise WrongValueError(
            f"{field.name} is an address (10.0.0.1, 10.0.0.0/8, ::1); {literal.text!r} is not"
        ) from None


def _bytes(field: Field, literal: Literal) -> bytes:
    if literal.quoted:
        return literal.text.encode("utf-8", "surrogatepass")
    match = _HEX.fullmatch(literal.text)
    if match is None:
        raise WrongValueError(f"{field.name} is bytes: write hex (0a0b, 0a:0b), or text in quotes")
    return bytes.fromhex(re.sub("[:.-]", "", match[1]))


def _text(_field: Field, literal: Literal) -> str:
    return literal.text


def _any(field: Field, literal: Literal) -> Any:
    """Parse a value for an unknown field: a number, otherwise bytes."""
    if not literal.quoted and _NUMBER.fullmatch(literal.text):
        return _number(field, literal)
    return _bytes(field, literal)


def _message(field: Field, _literal: Literal) -> Any:
    raise WrongValueError(f"{field.name} is a group of fields: it is present or absent and has no value")


_READERS: Final[dict[str, Callable[[Field, Literal], Any]]] = {
    "address": _address,
    "any": _any,
    "bool": _bool,
    "bytes": _bytes,
    "duration": _duration,
    "enum": _enum,
    "message": _message,
    "number": _number,
    "text": _text,
    "time": _time,
}
