"""The live page of `pcli top`: a table, findings below it, and keys. Needs textual, the extra ``pulsar-pcli[tui]``.

Rules of this file
1. All can be done by keys: the page works over ssh and without a mouse.
2. The source is asked in a thread, one question at a time: a broker that is slow makes no key slow.
3. Names come from the wire: they are shown as text, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Static

from pcli.cli.top.rows import COLUMNS, SORTS, Path, Row, Snapshot, cells, make_rows, ordered, show_figures
from pcli.codec.observe.text_format import printable

__all__ = ["MAX_ROWS", "TopPage"]

MAX_ROWS: Final = 500
"""Rows of the table; what is more is counted, and found by the filter."""

_FINDINGS: Final = 6
"""Findings that are shown, a line each."""

_COLOURS: Final = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_ALARMS: Final = ("blocked", "no permits")

_KEYS: Final = (
    ("↑ ↓ PgUp PgDn", "go through the rows"),
    ("Enter", "all figures of a row, and what was found about it"),
    *((key, f"sort by {what}") for key, what in SORTS.items()),
    ("/", "filter by names; Enter keeps it, Escape clears it"),
    ("Space", "pause, go on"),
    ("?", "this help"),
    ("q", "quit"),
)


class _Sheet(ModalScreen[None]):
    """A page of text over the table, until a key closes it."""

    CSS = (
        "_Sheet { align: center middle; } #sheet { width: 90%; max-height: 90%; border: round $accent; padding: 0 1; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "dismiss", "close")]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """One text, that scrolls."""
        with VerticalScroll(id="sheet"):
            yield Static(self.text)


class TopPage(App[None]):
    """The page; it asks ``poll`` for a snapshot every so many seconds."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #status { height: 1; background: $accent; color: $text; }
    #table { height: 1fr; }
    #filter { display: none; }
    #findings { height: auto; max-height: 8; border-top: solid $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("space", "pause", "pause"),
        Binding("slash", "filter", "filter"),
        Binding("question_mark", "help", "help"),
        *(Binding(key, f"sort('{key}')", what) for key, what in SORTS.items()),
    ]

    def __init__(self, poll: Callable[[], Snapshot], interval: float, title: str, first: Snapshot) -> None:
        """``first``: what is shown until ``poll`` has answered, which is asked every ``interval`` seconds."""
        super().__init__()
        self.paused = False
        self.sorted_by = "n"
        self.words = ""
        """The filter."""
        self._poll = poll
        self._interval = interval
        self._title = title
        self._snapshot = first
        self._topics = make_rows(first, None)
        self._shown: dict[str, Row] = {}
        """The rows of the table by their keys there."""
        # Kept, not looked up: a sheet may be over them.
        self._bar = Static(id="status")
        self._table: DataTable[Text] = DataTable(id="table", cursor_type="row")
        self._filter = Input(id="filter", placeholder="part of a name")
        self._findings = Static(id="findings")

    def compose(self) -> ComposeResult:
        """Status, table, filter, findings."""
        yield self._bar
        yield self._table
        yield self._filter
        yield self._findings

    def on_mount(self) -> None:
        """Begin to ask."""
        for title in COLUMNS:
            self._table.add_column(title, key=title)
        self._table.focus()
        self._draw()
        self.set_interval(self._interval, self._ask)

    # -- figures

    def _ask(self) -> None:
        if not self.paused and not any(worker.is_running for worker in self.workers):
            self._poll_once()

    @work(thread=True)
    def _poll_once(self) -> None:
        snapshot = self._poll()
        if self.is_running:
            self.call_from_thread(self.show, snapshot)

    def show(self, snapshot: Snapshot) -> None:
        """Show the next page."""
        before = self._snapshot if self._snapshot.time_ns else None
        if before is None or snapshot.time_ns != before.time_ns:
            self._topics = make_rows(snapshot, before)
        self._snapshot = snapshot
        self._draw()

    def _draw(self) -> None:
        rows = list(ordered(self._topics, self.sorted_by, self.words))
        self._fill(rows[:MAX_ROWS])
        self._bar.update(self._status(len(rows)))
        self._findings.update(_findings_text(self._snapshot.findings))
        self._findings.display = bool(self._snapshot.findings)

    def _status(self, rows: int) -> Text:
        words = [self._title, self._snapshot.note, f"by {SORTS[self.sorted_by]}"]
        words += [f"filter: {self.words}"] if self.words else []
        words += [f"{rows - MAX_ROWS} rows more: filter with /"] if rows > MAX_ROWS else []
        words += ["PAUSED"] if self.paused else []
        return Text("  │  ".join(printable(one) for one in (*words, "? help") if one), no_wrap=True)

    def _fill(self, rows: list[Row]) -> None:
        """New rows; the cursor stays on the row that it was on."""
        table = self._table
        key, at = self._key_under_cursor(), table.scroll_y
        table.clear()
        # Consumers of one name may be several: they are told apart by their place.
        self._shown = {f"{number} {row.path}": row for number, row in enumerate(rows)}
        places: dict[Path, int] = {}
        for number, (name, row) in enumerate(self._shown.items()):
            table.add_row(*_styled(row), key=name)
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
        """Stop or go on."""
        self.paused = not self.paused
        self._draw()

    def action_sort(self, key: str) -> None:
        """Sort by another figure."""
        self.sorted_by = key
        self._draw()
        self._table.move_cursor(row=self._table.cursor_row, scroll=True)

    def action_help(self) -> None:
        """Show the keys."""
        lines = [f"{key:<16} {what}" for key, what in _KEYS]
        self.push_screen(_Sheet(Text("\n".join(lines))))

    def action_filter(self) -> None:
        """Let a filter be written."""
        self._filter.value = self.words
        self._filter.display = True
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is written."""
        self.words = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep it."""
        self._filter.display = False
        self._table.focus()

    def on_key(self, event: Any) -> None:
        """Escape in the filter clears it."""
        if event.key == "escape" and self._filter.display:
            self._filter.value = ""
            self.on_input_submitted()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show all that is known of a row."""
        row = self._shown.get(str(event.row_key.value))
        if row is not None:
            self.push_screen(_Sheet(_detail(row, self._snapshot.findings)))


def _styled(row: Row) -> list[Text]:
    texts = [Text(one, justify="left" if number in (0, 1, 7) else "right") for number, one in enumerate(cells(row))]
    if len(row.path) == 1:
        texts[0].stylize("bold")
    if row.state.startswith(_ALARMS):
        texts[-1].stylize("bold red")
    return texts


def _findings_text(findings: list[Any]) -> Text:
    lines = [_finding_line(one) for one in findings[:_FINDINGS]]
    if len(findings) > _FINDINGS:
        lines.append(Text(f"{len(findings) - _FINDINGS} more: pcli diagnose"))
    return Text("\n").join(lines)


def _finding_line(finding: Any) -> Text:
    line = Text(f"{finding.severity:<8}", style=_COLOURS.get(finding.severity, ""))
    frames = ", ".join(map(str, finding.frames[:3]))
    line.append(f"{finding.rule}: {printable(finding.what)}" + (f"  [frames {frames}]" if frames else ""), style="none")
    return line


def _detail(row: Row, findings: list[Any]) -> Text:
    """All figures of a row, and what was found about it."""
    lines = [Text(printable(" / ".join(row.path)), style="bold")]
    lines += [Text(f"{name:<34} {value}") for name, value in show_figures(row)]
    about = dict(zip(("topic", "subscription", "consumer"), row.path))
    for finding in findings:
        if all(finding.subject.get(name) == value for name, value in about.items()):
            lines += [Text(), _finding_line(finding), Text(printable(finding.advice))]
    return Text("\n").join(lines)
