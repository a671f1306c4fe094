"""A virtual list of lines, the base of all panes: only the lines on the screen are formatted.

Rules of this file
1. The number of lines is unlimited, and moving the cursor takes the same time at any position.
2. A line is a Text object, never markup, and its text has passed through `printable`.
3. The cursor is visible without colours: its line is reversed, and underlined if the pane has the focus.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

_FOCUSED = Style(reverse=True, bold=True)
_UNFOCUSED = Style(reverse=True)


class LineList(ScrollView, can_focus=True):
    """A list of lines with a cursor."""

    DEFAULT_CSS = """
    LineList { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "edge(0)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("enter", "choose", show=False),
    ]
    HEAD = 0
    """Number of fixed lines above the list."""

    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor has moved to another line."""

        def __init__(self, lines: LineList) -> None:
            super().__init__()
            self.lines = lines

    class Chosen(Message):
        """The line under the cursor was chosen with Enter or a double click."""

        def __init__(self, lines: LineList) -> None:
            super().__init__()
            self.lines = lines

    def line_count(self) -> int:
        """Return the number of lines."""
        raise NotImplementedError

    def line_text(self, line: int, width: int) -> Text:
        """Return a line for this width in columns."""
        raise NotImplementedError

    def head_text(self, line: int, width: int) -> Text:
        """Return a fixed line above the list."""
        return Text()

    # -- drawing

    def update_lines(self) -> None:
        """Draw again after lines were added, removed or changed."""
        count = self.line_count()
        self.virtual_size = Size(max(1, self.size.width), count + self.HEAD)
        if self.cursor >= count:
            self.cursor = max(0, count - 1)
        self.refresh()

    def on_resize(self) -> None:
        """Adapt the lines to the new width, and keep the cursor on the screen."""
        self.update_lines()
        self.show_line(self.cursor)

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        width = self.size.width
        if y < self.HEAD:
            return self._strip(self.head_text(y, width), width, Style(bold=True, underline=True))
        line = y - self.HEAD + round(self.scroll_y)
        if line >= self.line_count():
            return Strip.blank(width, self.rich_style)
        style = Style()
        if line == self.cursor:
            style = _FOCUSED if self.has_focus else _UNFOCUSED
        return self._strip(self.line_text(line, width), width, style)

    def _strip(self, text: Text, width: int, style: Style) -> Strip:
        text.no_wrap = True
        base = self.rich_style
        segments = (one for one in text.render(self.app.console) if one.text)
        strip = Strip(Segment(one.text, base + (one.style or Style()), one.control) for one in segments)
        strip = strip.crop_extend(0, width, base)
        return strip.apply_style(style) if style else strip

    # -- the cursor

    @property
    def page_size(self) -> int:
        """The number of lines on the screen."""
        return max(1, self.size.height - self.HEAD)

    def move_to(self, line: int) -> None:
        """Move the cursor, and scroll if necessary."""
        self.cursor = min(max(0, line), max(0, self.line_count() - 1))
        self.show_line(self.cursor)

    def show_line(self, line: int) -> None:
        """Scroll so that the line is on the screen."""
        top, size = round(self.scroll_y), self.page_size
        if line < top:
            self.scroll_to(y=line, animate=False, force=True, immediate=True)
        elif line >= top + size:
            self.scroll_to(y=line - size + 1, animate=False, force=True, immediate=True)

    def watch_cursor(self, before: int, after: int) -> None:
        """Draw both lines and report the movement."""
        if before != after:
            self._draw_line(before)
            self._draw_line(after)
            self.post_message(self.Moved(self))

    def _draw_line(self, line: int) -> None:
        y = line - round(self.scroll_y) + self.HEAD
        if self.HEAD <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def action_move(self, lines: int) -> None:
        """Move the cursor by this number of lines."""
        self.move_to(self.cursor + lines)

    def action_page(self, pages: int) -> None:
        """Move the cursor by this number of pages."""
        self.move_to(self.cursor + pages * self.page_size)

    def action_edge(self, end: int) -> None:
        """Move the cursor to the first or the last line."""
        self.move_to(self.line_count() - 1 if end else 0)

    def action_choose(self) -> None:
        """Report the choice of the line under the cursor."""
        if self.line_count():
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the line that was clicked; a double click chooses it."""
        place = event.get_content_offset(self)
        if place is None or place.y < self.HEAD:
            return
        line = place.y - self.HEAD + round(self.scroll_y)
        if line < self.line_count():
            self.move_to(line)
            if event.chain == 2:
                self.action_choose()

    def on_focus(self) -> None:
        """Draw the cursor of the focus."""
        self._draw_line(self.cursor)

    def on_blur(self) -> None:
        """Draw the cursor without the focus."""
        self._draw_line(self.cursor)
