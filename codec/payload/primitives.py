"""Primitive schema types: decoding of bytes to values suitable for JSON.

Rules of this file
1. One table contains the size and the reader of each type. All numbers are big-endian with exactly their size (classes
   ByteSchema … LocalDateTimeSchema of the Java client); the size is None for a type without a fixed size.
2. Times are ISO 8601 in UTC with the precision of the type: milliseconds or nanoseconds. Years outside 0000 … 9999
   are written as java.time writes them: with a sign, and with more digits if required.
3. Values that JSON cannot represent (NaN, infinities) are strings; bytes are lower-case hex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

_BYTES: Final = 0
"""Schema.Type.None, whose name is a Python keyword: no schema, bytes."""

_DAY_MS: Final = 86_400_000
_SECOND_NS: Final = 1_000_000_000

_i64 = Struct(">q").unpack
_i64_i32 = Struct(">qi").unpack


def number(value: float) -> float | str:
    """Decode a float. ``NaN``, ``Infinity`` and ``-Infinity`` are returned as text because JSON lacks them."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def date_text(day: int) -> str:
    """Return a day, counted from 1970-01-01, as a date of the proleptic Gregorian calendar with any year.

    Each 400-year era has 146,097 days. Within an era, years start in March so that the leap day comes last.
    """
    day += 719_468  # counted from 0000-03-01
    era, day_of_era = divmod(day, 146_097)
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year += era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day_of_year - (153 * shifted + 2) // 5 + 1:02}"


def clock_text(nanos: int, digits: int) -> str:
    """Return a time of day from nanoseconds since midnight, with ``digits`` decimals of a second."""
    seconds, fraction = divmod(nanos, _SECOND_NS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:09}"[: 9 + digits]


def moment_text(ticks: int, digits: int) -> str:
    """Return a time in UTC from ticks since 1970, with ``10**digits`` ticks per second."""
    day, rest = divmod(ticks, 86_400 * 10**digits)
    return f"{date_text(day)}T{clock_text(rest * 10 ** (9 - digits), digits)}Z"


def _instant(data: bytes) -> str:
    seconds, nanos = _i64_i32(data)
    return moment_text(seconds * _SECOND_NS + nanos, 9)


def _time(data: bytes) -> str:
    # java.sql.Time: a timestamp on 1970-01-01; only its time of day matters.
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
"""(size in bytes, reader) by type. A reader receives bytes of that size."""


def decode_primitive(kind: int, data: bytes) -> object | Problem:
    """Decode a value of a primitive type (a key of PRIMITIVES), or return a Problem if the bytes are invalid."""
    size, read = PRIMITIVES[kind]
    if size is not None and len(data) != size:
        return Problem("schema", f"{pb.Schema.Type.Name(kind)} has {size} bytes, not {len(data)}")  # type: ignore[arg-type]
    return read(data)
