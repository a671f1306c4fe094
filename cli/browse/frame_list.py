"""The list of frames: columns, times, marks.

Rules of this file
1. A column is one of COLUMNS or a field of filters (`pcli fields`). The last column takes the width that is left.
2. The list shows the frames of a view, an array of frame numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.style import Style
from rich.text import Text

from pcli.cli.browse.line_list import LineList
from pcli.cli.browse.row_filter import Rows
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.common.times import TimeFormat, time_writer
from pcli.codec.observe import Facts, column, find_field
from pcli.codec.observe.fields.general_fields import problems_of
from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.observe.text_format import latency_text, printable
from pcli.codec.wire import name_of

if TYPE_CHECKING:
    from pcli.cli.browse.marks import Marks

COLUMNS: Final[dict[str, tuple[str, int, str]]] = {
    "number": ("No.", 7, "number of the frame"),
    "packet": ("Packet", 7, "number of the packet (Wireshark's frame.number)"),
    "time": ("Time", 11, "time in the format of -t"),
    "connection": ("Conn", 5, "number of the TCP connection (tcp.stream)"),
    "client": ("Client", 21, "address and port of the client"),
    "type": ("Type", 19, "direction and command type"),
    "length": ("Length", 7, "size of the frame in bytes"),
    "latency": ("Latency", 9, "time since the request"),
    "info": ("Info", 0, "description of the frame, as in pcli dissect"),
}
"""The columns: title, width, help. Width 0 is the rest of the line."""

DEFAULT_COLUMNS: Final = ("number", "time", "connection", "type", "info")

_RIGHT: Final = frozenset({"number", "packet", "time", "connection", "length", "latency"})
_FIELD_WIDTH: Final = 16
_WIDE: Final = 120
"""Width of a terminal from which the names of command types are shown in full, except the longest."""
_LONGEST_TYPE: Final = 31
_TIME_WIDTHS: Final = {"a": 15, "ad": 26, "e": 18}

_PROBLEM: Final = Style(color="red", bold=True)
_TO_BROKER: Final = Style(color="cyan")
_TO_CLIENT: Final = Style(color="green")


class FrameList(LineList):
    """The list of frames."""

    HEAD = 1

    def __init__(self, frames: StoredFrames, marks: Marks, time: TimeFormat, columns: list[str]) -> None:
        super().__init__(id="frames")
        self.frames = frames
        self.marks = marks
        self.view: Rows = np.empty(0, np.uint32)
        """The numbers of the frames to show."""
        self.time = time
        self.utc = False
        """Whether times are in UTC instead of the format ``time``."""
        self.columns = columns
        self._getters: dict[str, Callable[[Facts], Any]] = {}

    # -- lines and frame numbers

    def line_count(self) -> int:
        """Return the number of frames in the view."""
        return len(self.view)

    def number_at(self, line: int) -> int:
        """Return the number of the frame in a line, or 0."""
        if not 0 <= line < len(self.view):
            return 0
        return int(self.view[line])

    @property
    def number(self) -> int:
        """The number of the frame under the cursor; 0 if there is none."""
        return self.number_at(self.cursor)

    def line_of_number(self, number: int) -> int:
        """Return the line of a frame, or of the next frame in the view if it is not shown."""
        return int(np.searchsorted(self.view, number))

    def shows(self, number: int) -> bool:
        """Whether the view contains a frame."""
        return self.number_at(self.line_of_number(number)) == number

    # -- text

    def head_text(self, line: int, width: int) -> Text:
        """Return the titles of the columns."""
        cells = []
        for name, size in self._widths(width):
            title = COLUMNS[name][0] if name in COLUMNS else name.removeprefix("pulsar.")
            cells.append(_fit(title, size, right=name in _RIGHT))
        return Text(" " + " ".join(cells))

    def line_text(self, line: int, width: int) -> Text:
        """Return the cells of a frame."""
        number = self.number_at(line)
        facts = self.frames.facts(number)
        problems = problems_of(facts)
        text = Text(self.marks.sign(number))
        for place, (name, size) in enumerate(self._widths(width)):
            cell = self.cell(name, facts, line)
            fitted = _fit(cell, size, right=name in _RIGHT)
            text.append((" " if place else "") + fitted, self._style(name, facts, bool(problems)))
        return text

    def _style(self, name: str, facts: Facts, problem: bool) -> Style:
        if name != "type":
            return Style()
        if problem or "ERROR" in name_of(facts.frame.type):
            return _PROBLEM
        return _TO_BROKER if facts.frame.from_client else _TO_CLIENT

    def _widths(self, width: int) -> list[tuple[str, int]]:
        """Return the columns with their widths. If the terminal is narrow, the first columns are omitted."""
        names = list(self.columns)
        while True:
            sizes = [self._width(name, width) for name in names]
            left = width - 1 - sum(sizes) - max(0, len(names) - 1)
            if left >= 16 or len(names) <= 2 or "info" not in names:
                break
            names.pop(next((place for place, name in enumerate(names) if name not in ("type", "info", "number")), 0))
        return [(name, size or max(1, left)) for name, size in zip(names, sizes)]

    def _width(self, name: str, width: int) -> int:
        if name == "type" and width >= _WIDE:
            return _LONGEST_TYPE
        if name == "time":
            return 27 if self.utc else _TIME_WIDTHS.get(self.time, COLUMNS[name][1])
        return COLUMNS[name][1] if name in COLUMNS else _FIELD_WIDTH

    def cell(self, name: str, facts: Facts, line: int = 0) -> str:
        """Return the text of one cell."""
        frame = facts.frame
        if name == "number":
            return str(frame.number)
        if name == "packet":
            return str(frame.packet)
        if name == "time":
            return self._time(facts, line)
        if name == "connection":
            return str(frame.stream.number)
        if name == "client":
            return printable(f"{frame.stream.client[0]}:{frame.stream.client[1]}")
        if name == "type":
            return f"{'→' if frame.from_client else '←'} {name_of(frame.type)}"
        if name == "length":
            return str(frame.length)
        if name == "latency":
            return latency_text(facts.latency_ns) if facts.request_number else ""
        return line_of(facts) if name == "info" else self._field(name, facts)

    def _time(self, facts: Facts, line: int) -> str:
        times = self.frames.index.columns["time"]
        now = facts.frame.time_ns
        if self.utc:
            return utc_text(now)
        before = self.number_at(line - 1) if self.time == "dd" else facts.frame.number - 1
        return time_writer(self.time)(now, int(times[0]), int(times[before - 1]) if before > 0 else now)

    def _field(self, name: str, facts: Facts) -> str:
        get = self._getters.get(name)
        if get is None:
            get = self._getters[name] = column(find_field(name))
        value = get(facts)
        if value is None:
            return ""
        values = value if isinstance(value, list) else [value]
        return ", ".join(str(one).lower() if isinstance(one, bool) else printable(one) for one in values[:20])


def utc_text(time_ns: int) -> str:
    """Return a time as UTC in ISO 8601, or as seconds if the calendar lacks it."""
    from datetime import UTC, datetime

    from pcli.codec.observe.text_format import epoch_text

    seconds, rest = divmod(time_ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return epoch_text(time_ns)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"


def line_of(facts: Facts) -> str:
    """Return the description of a frame with its latency and problems."""
    text = describe(facts)
    if facts.latency_ns >= 0 and facts.request_number:
        text += f"  ({latency_text(facts.latency_ns)})"
    return text + "".join(f"  [{printable(problem)}]" for problem in problems_of(facts))


def _fit(cell: str, width: int, *, right: bool) -> str:
    if len(cell) > width:
        return cell[: max(0, width - 1)] + "…"
    return f"{cell:>{width}}" if right else f"{cell:<{width}}"
