"""The panes of `pcli browse`, the rows that the list shows, and the selected frame.

Rules of this file
1. The application never waits: an index is built, filters and searches run in threads, and a timer shows their results.
2. Text from the wire is shown as text, never as markup, and has passed through `printable`.
3. The panes fit 80 columns and 24 rows. Below MIN_WIDTH and MIN_HEIGHT one line states the size that is needed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.widgets import Static

from pcli.cli.browse.capture_report import CaptureReport
from pcli.cli.browse.detail_panes import BytesPane, TreePane
from pcli.cli.browse.filter_line import FilterHints, FilterLine
from pcli.cli.browse.frame_index import SYSTEM
from pcli.cli.browse.frame_list import DEFAULT_COLUMNS, FrameList
from pcli.cli.browse.index_build import IndexBuild
from pcli.cli.browse.inputs import Inputs
from pcli.cli.browse.key_table import KEYS
from pcli.cli.browse.line_list import LineList
from pcli.cli.browse.marked_capture import MarkedCapture
from pcli.cli.browse.marks import Marks
from pcli.cli.browse.row_filter import Rows
from pcli.cli.browse.row_jobs import FilteredRows, FixedRows, FrameSearch, Job, VisibleRows
from pcli.cli.browse.side_pane import AT_FRAME, SidePane, pane_lines
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.common.text_sheet import TextSheet
from pcli.cli.common.times import TimeFormat
from pcli.codec.observe import Facts, compile_filter
from pcli.codec.observe.output.field_nodes import FieldNode
from pcli.codec.observe.text_format import printable, short_topic

if TYPE_CHECKING:
    from pcli.replay.proxy import Proxy

MIN_WIDTH: Final = 40
MIN_HEIGHT: Final = 10

_TICK: Final = 0.2
"""Seconds between two looks at the threads."""
_SHORT: Final = 0.05
"""Seconds to wait for the result of a filter before an incomplete result is shown."""
_MAX_BACK: Final = 1000


@dataclass(slots=True)
class BrowseOptions:
    """The options of the view."""

    title: str
    filter: str = ""
    time: TimeFormat = "r"
    columns: list[str] = field(default_factory=lambda: list(DEFAULT_COLUMNS))
    system: bool = False
    payload: bool = False
    secrets: bool = False
    follow: bool = False
    """Whether the input is live: if the cursor is in the last line, it stays there."""
    proxy: Proxy | None = None
    """The proxy whose traffic is shown."""


def size_error(width: int, height: int) -> str:
    """Return why a terminal is too small, or an empty string."""
    if width >= MIN_WIDTH and height >= MIN_HEIGHT:
        return ""
    return f"the terminal has {width}×{height} characters: browse needs {MIN_WIDTH}×{MIN_HEIGHT}"


class FrameViews(App[None]):
    """The application without the actions of its keys."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #panes { layout: vertical; height: 1fr; }
    #frames { height: 9fr; }
    #details { height: 11fr; layout: vertical; }
    #tree { height: 6fr; border-top: solid $foreground; }
    #bytes { height: 5fr; border-top: solid $foreground; }
    #details.-beside { layout: horizontal; }
    #details.-beside #tree, #details.-beside #bytes { height: 1fr; width: 1fr; }
    #panes.-side #details { display: none; }
    #panes.-only-frames #details, #panes.-only-frames #side { display: none; }
    #panes.-only-tree #frames, #panes.-only-tree #bytes { display: none; }
    #panes.-only-bytes #frames, #panes.-only-bytes #tree { display: none; }
    #status { height: 1; text-style: reverse; }
    #small { display: none; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action, key.help, show=False, priority=key.priority) for key in KEYS if key.keys
    ]

    def __init__(
        self,
        frames: StoredFrames,
        options: BrowseOptions,
        build: IndexBuild | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        """``build`` is the building of the index if it is not complete. ``inputs`` are the captures."""
        super().__init__()
        self.inputs = inputs or Inputs([])
        self.frames = frames
        self.options = options
        self.build = build
        self.marks = Marks()
        self._visible = VisibleRows(frames, system=options.system)
        self._filtered: FilteredRows | FixedRows | None = None
        self._followed = ""
        """What is followed; empty if nothing is."""
        self._search: FrameSearch | None = None
        self._report: CaptureReport | None = None
        self._writing: MarkedCapture | None = None
        self._side_kind = ""
        """The side pane that opens when the report is complete."""
        self._words = ""
        self._written_paths: set[str] = set()
        self._message = ""
        self._back: list[int] = []
        self._resized = 0
        self._selected = 0
        """The number of the frame in the tree."""
        self._reported = False
        """Whether the end of a damaged input was reported."""
        self._wanted = 0
        """The frame at which the cursor stays while a filter finds frames; 0 if the user has moved it."""
        self.hints = FilterHints(id="hints")
        self.filter_line = FilterLine(self.hints, self._topics)
        self.list = FrameList(frames, self.marks, options.time, options.columns)
        self.tree_pane = TreePane()
        self.bytes_pane = BytesPane()
        self.side = SidePane()
        # These widgets are kept, because a query finds only widgets of the top screen, which may be a prompt.
        self.panes = Container(id="panes")
        self.details = Container(id="details")
        self.status = Static(id="status")
        self.small = Static(id="small")

    def compose(self) -> ComposeResult:
        """Compose the panes."""
        yield self.filter_line
        yield self.hints
        with self.panes:
            yield self.list
            with self.details:
                yield self.tree_pane
                yield self.bytes_pane
            yield self.side
        yield self.small
        yield self.status

    def on_mount(self) -> None:
        """Show the first frames."""
        self._check_size(self.size)
        self.list.focus()
        self.list.view = self._visible.refresh()
        if self.options.filter:
            self.filter_line.value = self.filter_line.applied = self.options.filter
            self._apply(self.options.filter)
        self.list.update_lines()
        self._show_frame()
        self.set_interval(_TICK, self.tick)
        with suppress(NotImplementedError, RuntimeError, ValueError):  # outside the main thread there are no signals
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
        if self.build is None or self.build.over:
            self.run_worker(self._load_comments, thread=True)

    def on_resize(self, event: events.Resize) -> None:
        """Check the size of the terminal."""
        self._check_size(event.size)

    def _check_size(self, size: Size) -> None:
        """Show one line if the terminal is too small."""
        error = size_error(size.width, size.height)
        self.small.update(Text(error))
        self.small.display = bool(error)
        for one in (self.panes, self.filter_line, self.status):
            one.display = not error

    def on_unmount(self) -> None:
        """Stop all work in threads."""
        for one in self.jobs().values():
            one.stop()

    def from_thread(self, function: Callable[..., None], *values: object) -> None:
        """Call a function in the application from a thread, unless the application has ended."""
        with suppress(RuntimeError, CancelledError):
            if self.is_running:
                self.call_from_thread(function, *values)

    def _load_comments(self) -> None:
        """Read the comments of the capture; in a thread."""
        comments = list(self.inputs.comments())
        if comments:
            self.from_thread(self._take_comments, comments)

    def _take_comments(self, comments: list[tuple[int, str]]) -> None:
        self.marks.load(comments, self.frames.index)
        self.list.refresh()
        self._show_frame()

    # -- rows

    def tick(self) -> None:
        """Show the rows that were added since the last tick."""
        if self.build is not None:
            self.build.refresh()
            if self.build.over and not self._reported:
                self._reported = True
                self._report_damage()
        base = self._visible.refresh()
        if self._filtered is not None:
            self._filtered.extend(base)
        rows = base if self._filtered is None else self._filtered.rows
        before = self.list.line_count()
        self._show_side()
        if len(rows) != before:
            moved = self.list.number != self._selected and before > 0
            self._wanted = 0 if moved else self._wanted
            last = self.options.follow and before > 0 and self.list.cursor == before - 1
            self._set_view(rows, int(rows[-1]) if last else self._wanted or self.list.number)
        self._draw_status()

    def _report_damage(self) -> None:
        tables = self.frames.index.tables
        if tables.damaged:
            self.say(printable(tables.notes[-1]))

    def _show(self, filtered: FilteredRows | FixedRows | None, *, followed: str = "") -> None:
        """Show other rows. The cursor stays at its frame, or moves to the next frame that is shown."""
        number = self.list.number
        if self._filtered is not None:
            self._filtered.stop()
        self._filtered, self._followed = filtered, followed
        base = self._visible.refresh()
        if filtered is not None:
            filtered.extend(base)
            filtered.join(_SHORT)
        self._wanted = number
        self._set_view(base if filtered is None else filtered.rows, number)

    def _set_view(self, rows: Rows, number: int) -> None:
        self.list.view = rows
        self.list.update_lines()
        self.list.move_to(self.list.line_of_number(number))
        self.list.refresh()
        if self.list.number != self._selected:
            self._show_frame()
        self._draw_status()

    def _apply(self, text: str) -> None:
        self._show(FilteredRows(self.frames, compile_filter(text)) if text.strip() else None)

    def on_filter_line_applied(self, event: FilterLine.Applied) -> None:
        """Apply a filter."""
        self._apply(event.text)
        self.list.focus()

    def on_filter_line_left(self) -> None:
        """Return to the list."""
        self.list.focus()

    def _topics(self, begun: str) -> list[str]:
        names = {peer.topic for peer in self.frames.index.tables.peers if peer is not None and peer.topic}
        names |= {short_topic(name) for name in names}
        return sorted(name for name in names if name.startswith(begun))

    # -- the selected frame

    @property
    def selected(self) -> Facts | None:
        """The facts of the selected frame, or None if the list is empty."""
        number = self.list.number
        return self.frames.facts(number) if number else None

    def on_line_list_moved(self, event: LineList.Moved) -> None:
        """Show the frame or the bytes of the new line."""
        if event.lines is self.list:
            self._show_frame()
        elif event.lines is self.tree_pane:
            self._show_bytes()

    def _show_frame(self) -> None:
        facts = self.selected
        self._selected = self.list.number
        comment = self.marks.comments.get(self._selected, "")
        self.tree_pane.show(facts, secrets=self.options.secrets, payload=self.options.payload, comment=comment)
        self._show_bytes()
        self._message = ""
        self._draw_status()

    def _show_bytes(self) -> None:
        options = self.options
        self.bytes_pane.show(self.selected, self.tree_pane.node, secrets=options.secrets, payload=options.payload)

    def on_line_list_chosen(self, event: LineList.Chosen) -> None:
        """Enter: from the list to the tree; in the tree, to the frame of a reference, or the whole text of a node."""
        node = self.tree_pane.node
        if event.lines is self.list:
            self.tree_pane.focus()
        elif event.lines is self.side:
            number = self.side.next_frame(self.list.number)
            self.jump(number, "" if number else "the line refers to no frame")
        elif event.lines is self.tree_pane and node is not None:
            if node.target:
                self.jump(node.target)
            else:
                self.push_screen(TextSheet(Text(node.text)))

    def on_bytes_pane_byte_chosen(self, event: BytesPane.ByteChosen) -> None:
        """Select the node of a byte."""
        node: FieldNode | None = self.tree_pane.node
        if node is not None and node.data is None:
            self.tree_pane.select_byte(event.offset)

    def jump(self, number: int, message: str = "") -> None:
        """Go to a frame. If the view does not contain it, show all frames."""
        if not 0 < number <= self.frames.index.count:
            self.say(message or "the capture contains no such frame")
            return
        self._back = [*self._back[-_MAX_BACK:], self.list.number]
        if not self.list.shows(number):
            self.filter_line.value = self.filter_line.applied = ""
            if self.frames.index.columns["flags"][number - 1] & SYSTEM and not self._visible.system:
                self._visible = VisibleRows(self.frames, system=True)
            self._show(None)
            message = message or f"all frames are shown, because the view did not contain frame {number}"
        self.list.move_to(self.list.line_of_number(number))
        self._show_frame()
        self.say(message)

    def say(self, text: str) -> None:
        """Show a message in the status line until the cursor moves."""
        self._message = text
        self._draw_status()

    def jobs(self) -> dict[str, Job]:
        """Return the work in threads, by its name."""
        jobs = {"filter": self._filtered, "search": self._search, "report": self._report, "writing": self._writing}
        return {name: job for name, job in jobs.items() if job is not None}

    # -- the side pane

    def open_side(self, kind: str) -> None:
        """Open the side pane. The report of the capture is computed first."""
        until = self.list.number if kind in AT_FRAME else 0
        if self._report is None or self._report.until != until:
            if self._report is not None:
                self._report.stop()
            self._report = CaptureReport(self.inputs.events, self.frames.index.count, until)
        self._side_kind = kind
        self._show_side()

    def _show_side(self) -> None:
        """Show the side pane when the report is complete."""
        if self._side_kind and self._report is not None and not self._report.running:
            kind, self._side_kind = self._side_kind, ""
            width = self.size.width - 2
            lines = pane_lines(kind, self._report, self.frames, self.selected, width)
            self.panes.add_class("-side")
            self.side.show(kind, lines)
            self.side.focus()

    def close_side(self) -> None:
        """Close the side pane."""
        self._side_kind = ""
        self.panes.remove_class("-side")
        self.side.hide()
        self.list.focus()

    # -- the status line

    def _draw_status(self) -> None:
        shown, total = self.list.line_count(), self.frames.index.count
        words = [self._message or printable(self.options.title)]
        if self.build is not None and not self.build.over:
            words.append("live" if self.options.follow else bar("reading", self._read_part()))
        if self.build is not None and self.build.fault is not None:
            words.append(printable(str(self.build.fault)))
        words += [bar(name, job.progress) for name, job in self.jobs().items() if job.running]
        words += [f"follow {printable(self._followed)}"] if self._followed else []
        count = f"{self.list.cursor + 1 if shown else 0:,}/{shown:,}"
        words.append(count if shown == total else f"{count} of {total:,} frames")
        tables = self.frames.index.tables
        words += ["damaged"] if tables.damaged else []
        right = "  ".join([*words[1:], "? help"])
        room = max(2, self.size.width - len(right) - 2)
        left = words[0]
        if len(left) > room:  # the end of a path is more specific than its beginning
            left = f"{left[: room - 1]}…" if self._message else f"…{left[len(left) - room + 1 :]}"
        self.status.update(Text(f"{left:<{room}}  {right}", no_wrap=True, overflow="ellipsis"))

    def _read_part(self) -> float:
        assert self.build is not None
        done, total = self.build.progress
        return done / total if total else 0.0


def bar(name: str, part: float, width: int = 10) -> str:
    """Return a progress bar as text."""
    full = round(part * width)
    return f"{name} {'█' * full}{'░' * (width - full)} {100 * part:.0f} %"
