"""The line of the display filter, with completion and errors.

Rules of this file
1. The filter is compiled at every change. An invalid filter is reported below the line and cannot be applied.
2. Tab inserts a completion; the next Tab inserts the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, Static

from pcli.cli.common.completion import filter_completions
from pcli.codec.errors import LocalError
from pcli.codec.observe import compile_filter
from pcli.codec.observe.text_format import printable

_SHOWN: Final = 6
"""Maximum number of completions that are shown."""


class FilterHints(Static):
    """The error of the filter, or its completions."""

    DEFAULT_CSS = "FilterHints { height: auto; display: none; }"

    def show(self, lines: list[str]) -> None:
        """Show lines of text; nothing if there are none."""
        self.update(Text("\n".join(map(printable, lines)), no_wrap=True, overflow="ellipsis"))
        self.display = bool(lines)


class FilterLine(Input):
    """The input of the filter."""

    DEFAULT_CSS = """
    FilterLine { height: 1; border: none; padding: 0 1; }
    FilterLine:focus { border: none; }
    FilterLine.-wrong { color: red; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", show=False, priority=True),
        Binding("escape", "leave", show=False),
    ]

    class Applied(Message):
        """A valid filter was confirmed with Enter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The line was left without a new filter."""

    def __init__(self, hints: FilterHints, topics: Callable[[str], list[str]]) -> None:
        super().__init__(id="filter", placeholder="display filter: / to edit, ? for the keys", select_on_focus=False)
        self._hints = hints
        self._topics = topics
        self._offered: list[str] = []
        self._turn = 0
        self._completing = False
        self.applied = ""
        """The filter that is in effect."""

    def on_input_changed(self) -> None:
        """Check the filter, and offer completions."""
        if self._completing:
            self._completing = False
        else:
            found = filter_completions(self.value, self._topics) if self.has_focus else []
            self._offered, self._turn = [text for text, _ in found], 0
            self._helps = [help_ for _, help_ in found]
        self._report()

    def _report(self) -> None:
        error = filter_error(self.value)
        self.set_class(bool(error), "-wrong")
        if not self.has_focus:
            self._hints.show([])
            return
        offered = [
            f"{'>' if place == self._turn - 1 else ' '} {text[-60:]:<40} {self._helps[place]}"
            for place, text in enumerate(self._offered[:_SHOWN])
        ]
        if len(self._offered) > _SHOWN:
            offered.append(f"  {len(self._offered) - _SHOWN} more")
        self._hints.show(offered or ([error] if error else []))

    def action_complete(self) -> None:
        """Insert the next completion."""
        if self._offered:
            text = self._offered[self._turn % len(self._offered)]
            self._turn = self._turn % len(self._offered) + 1
            self._completing = self.value != text
            self.value = text
            self.cursor_position = len(text)
            self._report()

    def on_input_submitted(self) -> None:
        """Apply the filter, or report its error."""
        error = filter_error(self.value)
        if error:
            self._hints.show([error])
        else:
            self.applied = self.value
            self._hints.show([])
            self.post_message(self.Applied(self.value))

    def action_leave(self) -> None:
        """Restore the filter that is in effect."""
        self.value = self.applied
        self._hints.show([])
        self.post_message(self.Left())

    def on_focus(self) -> None:
        """Check the filter again, because errors are only shown while the line has the focus."""
        self._report()

    def on_blur(self) -> None:
        """Hide the errors and completions."""
        self._hints.show([])


def filter_error(text: str) -> str:
    """Return why a filter is invalid in one line, or an empty string."""
    if not text.strip():
        return ""
    try:
        compile_filter(text)
    except LocalError as error:
        lines = str(error).split("\n")
        position = lines[-1].strip().lstrip("^ ") if len(lines) > 2 else ""
        return f"{lines[0]} {position}".strip()
    return ""
