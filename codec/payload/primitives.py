"""The primitive kinds of schemas: bytes to a value fit for JSON.

Rules of this file
1. One table: kind, size, how to read it. All numbers are big-endian, of exactly their size (classes ByteSchema …
   LocalDateTimeSchema of the Java client); a kind that has no fixed size stands with None.
2. Moments come as ISO 8601 in UTC, with as many digits as the kind has: milliseconds or nanoseconds. Years outside
   0000 … 9999 are written as java.time does it: with a sign, and with more digits if need be.
3. What JSON has no word for (not a number, the infinities) is a string; bytes are lower-case hex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

__all__ = ["PRIMITIVES", "clock_text", "date_text", "decode_primitive", "moment_text", "number"]

_BYTES: Final = 0
"""Schema.Type.None, a word that Python keeps for itself: no schema, bytes."""

_DAY_MS: Final = 86_400_000
_SECOND_NS: Final = 1_000_000_000

_i64 = Struct(">q").unpack
_i64_i32 = Struct(">qi").unpack
_two_i64 = Struct(">qq").unpack


def number(value: float) -> float | str:
    """A float, or its name where JSON has none: ``NaN``, ``Infinity``, ``-Infinity``."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def date_text(day: int) -> str:
    """A day, counted from 1970-01-01, of the proleptic Gregorian calendar, whatever the year.

    Whole 400-year eras have 146,097 days; within one, years begin in March so that the leap day comes last.
    """
    day += 719_468  # from 0000-03-01
    era, day_of_era = divmod(day, 146_097)
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year += era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day_of_year - (153 * shifted + 2) // 5 + 1:02}"


def clock_text(nanos: int, digits: int) -> str:
    """A time of day from nanoseconds since midnight, with that many digits behind the second's point."""
    seconds, fraction = divmod(nanos, _SECOND_NS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:09}"[: 9 + digits]


def moment_text(ticks: int, digits: int) -> str:
    """A moment in UTC from ticks since 1970, of which ``10**digits`` make a second."""
    day, rest = divmod(ticks, 86_400 * 10**digits)
    return f"{date_text(day)}T{clock_text(rest * 10 ** (9 - digits), digits)}Z"


def _instant(data: bytes) -> str:
    seconds, nanos = _i64_i32(data)
    return moment_text(seconds * _SECOND_NS + nanos, 9)


def _time(data: bytes) -> str:
    # java.sql.Time: a moment of 1970-01-01 of which only the time of day is meant.
    return clock_text(_i64(data)[0] % _DAY_MS * 1_000_000, 3)


def _local_time(data: bytes) -> str | Problem:
    nanos: int = _i64(data)[0]
    if not 0 <= nanos < 86_400 * _SECOND_NS:
        return Problem("schema", f"{nanos} ns are not a time of day")
    return clock_text(nanos, 9)


def _local_date_time(data: bytes) -> str | Problem:
    clock = _local_time(data[8:])
    return clock if isinstance(clock, Problem) else f"{date_text(_i64(data[:8])[0])}T{clock}"


def _text(data: bytes) -> str | Problem:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return Problem("schema", f"not UTF-8 at byte {error.start} of {len(data)}")


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _float(form: str) -> Callable[[bytes], float | str]:
    unpack = Struct(form).unpack
    return lambda data: number(unpack(data)[0])


PRIMITIVES: Final[dict[int, tuple[int | None, Callable[[bytes], object]]]] = {
    pb.Schema.String: (None, _text),
    pb.Schema.Bool: (1, lambda data: data != b"\0"),
    pb.Schema.Int8: (1, _integer),
    pb.Schema.Int16: (2, _integer),
    pb.Schema.Int32: (4, _integer),
    pb.Schema.Int64: (8, _integer),
    pb.Schema.Float: (4, _float(">f")),
    pb.Schema.Double: (8, _float(">d")),
    pb.Schema.Date: (8, lambda data: moment_text(_i64(data)[0], 3)),
    pb.Schema.Time: (8, _time),
    pb.Schema.Timestamp: (8, lambda data: moment_text(_i64(data)[0], 3)),
    pb.Schema.Instant: (12, _instant),
    pb.Schema.LocalDate: (8, lambda data: date_text(_i64(data)[0])),
    pb.Schema.LocalTime: (8, _local_time),
    pb.Schema.LocalDateTime: (16, _local_date_time),
    _BYTES: (None, bytes.hex),
}
"""Kind to (size in bytes, reader). A reader is given bytes of that size."""


def decode_primitive(kind: int, data: bytes) -> object | Problem:
    """The value of a primitive kind (a key of PRIMITIVES); a Problem when the bytes are none."""
    size, read = PRIMITIVES[kind]
    if size is not None and len(data) != size:
        return Problem("schema", f"{pb.Schema.Type.Name(kind)} has {size} bytes, not {len(data)}")  # type: ignore[arg-type]
    return read(data)
