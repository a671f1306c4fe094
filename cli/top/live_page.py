"""The live page of `pcli top`: a table, the findings, and the keys. It requires the extra ``pulsar-pcli[tui]``.

Rules of this file
1. Every function has a key, so that the page can be used over ssh and without a mouse.
2. The source is polled in a thread, one poll at a time, so that a slow broker does not delay keys.
3. Names from the wire are shown as text, never as markup.
4. The page fits 80 columns and 24 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Input, Static

from pcli.cli.common.text_sheet import TextSheet
from pcli.cli.top.rows import COLUMNS, SORTS, Path, Row, Snapshot, cells, concerns, make_rows, ordered, statistics_of
from pcli.codec.observe.text_format import printable

MAX_ROWS: Final = 500
"""Maximum number of rows in the table. The other rows are counted and can be found with the filter."""

_FINDINGS: Final = 6
"""Maximum number of findings. Each finding takes one line."""

_COLOURS: Final = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_OPTIONAL: Final = ("type", "msgs", "msg/s")
"""Columns that a narrow terminal omits, in this order. The sheet of a row contains their values."""

_LEAST_NAME: Final = 24
_PADDING: Final = 2
_SCROLL_BAR: Final = 2
_ALARMS: Final = ("blocked", "no permits")

_KEYS: Final = (
    ("↑ ↓ PgUp PgDn", "move in the table"),
    ("Enter", "show all statistics and findings of a row"),
    *((key, f"sort by {what}") for key, what in SORTS.items()),
    ("s", "show the segments of scalable topics, or their sums"),
    ("/", "filter by name; Enter keeps the filter, Escape clears it"),
    ("Space", "pause or resume"),
    ("?", "show this help"),
    ("q", "quit"),
)


class _RowTable(DataTable[Text]):
    """The table. It calls ``redraw`` when its width changes, because the application gets no resize event."""

    def __init__(self, redraw: Callable[[], None]) -> None:
        super().__init__(id="table", cursor_type="row")
        self._redraw = redraw
        self._width = 0

    def on_resize(self) -> None:
        """Redraw for the new width."""
        if self.app.size.width != self._width:
            self._width = self.app.size.width
            self._redraw()


class TopPage(App[None]):
    """The page. It calls ``poll`` for a snapshot at regular intervals."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #status { height: 1; background: $accent; color: $text; }
    #table { height: 1fr; }
    #filter { display: none; }
    #findings { height: auto; max-height: 12; border-top: solid $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("space", "pause", "pause"),
        Binding("s", "segments", "segments"),
        Binding("slash", "filter", "filter"),
        Binding("question_mark", "help", "help"),
        *(Binding(key, f"sort('{key}')", what) for key, what in SORTS.items()),
    ]

    def __init__(
        self, poll: Callable[[], Snapshot], interval: float, title: str, first: Snapshot, *, segments: bool = False
    ) -> None:
        """``first`` is the snapshot to show until the first poll. ``interval`` is in seconds.

        If ``segments`` is set, the page shows the segments of scalable topics.
        """
        super().__init__()
        self.paused = False
        self.sorted_by = "n"
        self.words = ""
        """The text of the filter."""
        self._poll = poll
        self._interval = interval
        self._title = title
        self._segments = segments
        self._snapshot, self._before = first, Snapshot(0)
        self._topics = make_rows(first, None, segments=segments)
        self._shown: dict[str, Row] = {}
        """The rows, by their keys in the table."""
        # These widgets are kept, because a query finds only widgets of the top screen, which may be a sheet.
        self._bar = Static(id="status")
        self._table = _RowTable(self._draw)
        self._filter = Input(id="filter", placeholder="part of a name")
        self._findings = Static(id="findings")

    def compose(self) -> ComposeResult:
        """Compose status, table, filter and findings."""
        yield self._bar
        yield self._table
        yield self._filter
        yield self._findings

    def on_mount(self) -> None:
        """Draw the first snapshot and start polling."""
        self._table.focus()
        self._draw()
        self.set_interval(self._interval, self._poll_if_idle)

    # -- snapshots

    def _poll_if_idle(self) -> None:
        if not self.paused and not any(worker.is_running for worker in self.workers):
            self._poll_once()

    @work(thread=True)
    def _poll_once(self) -> None:
        snapshot = self._poll()
        if self.is_running:
            self.call_from_thread(self.show, snapshot)

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        if snapshot.time_ns != self._snapshot.time_ns:
            self._before = self._snapshot
        self._snapshot = snapshot
        self._make_rows()

    def _make_rows(self) -> None:
        before = self._before if self._before.time_ns else None
        self._topics = make_rows(self._snapshot, before, segments=self._segments)
        self._draw()

    def _draw(self) -> None:
        rows = list(ordered(self._topics, self.sorted_by, self.words))
        self._fill(rows[:MAX_ROWS])
        self._bar.update(self._status(len(rows)))
        self._findings.update(_findings_text(self._snapshot))
        self._findings.display = bool(self._snapshot.findings or self._snapshot.broker)

    def _status(self, rows: int) -> Text:
        words = [self._snapshot.note, f"by {SORTS[self.sorted_by]}"]
        words += [f"filter: {self.words}"] if self.words else []
        words += [f"{rows - MAX_ROWS} more rows: filter with /"] if rows > MAX_ROWS else []
        words += ["PAUSED"] if self.paused else []
        right = "  │  ".join(printable(one) for one in (*words, "? help") if one)
        title = printable(self._title)
        width_left = max(0, self.size.width - len(right) - len("  │  "))
        if len(title) > width_left:  # the end of a path is more specific than its beginning
            title = f"…{title[len(title) - width_left + 1 :]}" if width_left > 1 else ""
        return Text("  │  ".join(filter(None, (title, right))), no_wrap=True)

    def _fill(self, rows: list[Row]) -> None:
        """Fill the table. The cursor remains on its row."""
        table = self._table
        key, at = self._key_under_cursor(), table.scroll_y
        texts = [_styled(row) for row in rows]
        columns, width_left = _fitting(texts, self.size.width)
        table.clear(columns=True)
        for column in columns:
            table.add_column(COLUMNS[column], key=COLUMNS[column])
        # Several consumers may have the same name. Row numbers make the keys unique.
        self._shown = {f"{number} {row.path}": row for number, row in enumerate(rows)}
        places: dict[Path, int] = {}
        for number, (name, row) in enumerate(self._shown.items()):
            cells_of = texts[number]
            _shorten(cells_of[0], width_left)
            table.add_row(*(cells_of[column] for column in columns), key=name)
            places.setdefault(row.path, number)
        if key is not None and key in places:
            table.move_cursor(row=places[key], scroll=False)
        table.scroll_y = at

    def _key_under_cursor(self) -> Path | None:
        rows = list(self._shown.values())
        number = self._table.cursor_row
        return rows[number].path if 0 <= number < len(rows) else None

    # -- keys

    def action_pause(self) -> None:
        """Pause or resume polling."""
        self.paused = not self.paused
        self._draw()

    def action_segments(self) -> None:
        """Show the segments of scalable topics, or their sums."""
        self._segments = not self._segments
        self._make_rows()

    def action_sort(self, key: str) -> None:
        """Sort by the column of the key."""
        self.sorted_by = key
        self._draw()
        self._table.move_cursor(row=self._table.cursor_row, scroll=True)

    def action_help(self) -> None:
        """Show the keys."""
        lines = [f"{key:<16} {what}" for key, what in _KEYS]
        self.push_screen(TextSheet(Text("\n".join(lines))))

    def action_filter(self) -> None:
        """Open the input of the filter."""
        self._filter.value = self.words
        self._filter.display = True
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter while the user types it."""
        self.words = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter and close its input."""
        self._filter.display = False
        self._table.focus()

    def on_key(self, event: Any) -> None:
        """Clear the filter on Escape."""
        if event.key == "escape" and self._filter.display:
            self._filter.value = ""
            self.on_input_submitted()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show all statistics and findings of a row."""
        row = self._shown.get(str(event.row_key.value))
        if row is not None:
            self.push_screen(TextSheet(_detail(row, self._snapshot)))


def _fitting(texts: list[list[Text]], width: int) -> tuple[list[int], int]:
    """Return the columns that fit the width, and the width of the first column, which contains the names.

    If that width is less than `_LEAST_NAME`, the columns of `_OPTIONAL` are omitted, one after another.
    """
    widths = [max(map(len, column)) for column in zip(COLUMNS, *([text.plain for text in row] for row in texts))]
    columns = list(range(len(COLUMNS)))
    for left_out in (None, *_OPTIONAL):
        if left_out is not None:
            columns.remove(COLUMNS.index(left_out))
        width_left = width - sum(widths[column] + _PADDING for column in columns[1:]) - _PADDING - _SCROLL_BAR
        if width_left >= min(widths[0], _LEAST_NAME):
            break
    return columns, max(width_left, _LEAST_NAME)


def _shorten(name: Text, width_left: int) -> None:
    """Shorten a name to its indentation and its end, which is more specific than its beginning."""
    plain = name.plain
    if len(plain) > width_left:
        indent = len(plain) - len(plain.lstrip())
        name.plain = f"{plain[:indent]}…{plain[len(plain) - width_left + indent + 1 :]}"


def _styled(row: Row) -> list[Text]:
    texts = [Text(one, justify="left" if number in (0, 1, 7) else "right") for number, one in enumerate(cells(row))]
    if len(row.path) == 1:
        texts[0].stylize("bold")
    if row.state.startswith(_ALARMS):
        texts[-1].stylize("bold red")
    return texts


def _findings_text(snapshot: Snapshot) -> Text:
    findings = snapshot.findings
    lines = [_finding_line(snapshot, one) for one in findings[:_FINDINGS]]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    if len(findings) > _FINDINGS:
        lines.append(Text(f"{len(findings) - _FINDINGS} more: pcli diagnose"))
    lines += [Text(printable(line), no_wrap=True, overflow="ellipsis") for line in snapshot.broker]
    return Text("\n").join(lines)


def _finding_line(snapshot: Snapshot, finding: Any) -> Text:
    line = Text(f"{finding.severity:<8}", style=_COLOURS.get(finding.severity, ""))
    line.append(snapshot.finding_text(finding), style="none")
    return line


def _detail(row: Row, snapshot: Snapshot) -> Text:
    """Return all statistics and findings of a row."""
    lines = [Text(printable(" / ".join(row.path)), style="bold")]
    lines += [Text(f"{name:<34} {value}") for name, value in statistics_of(row)]
    for finding in snapshot.findings:
        if concerns(finding, row):
            lines += [Text(), _finding_line(snapshot, finding), Text(printable(finding.advice))]
    return Text("\n").join(lines)
