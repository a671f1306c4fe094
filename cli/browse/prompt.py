"""A line of input above the status line, for searches, numbers, comments and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Prompt(ModalScreen[str | None]):
    """A prompt. Its result is the text, or None if it was left with Escape."""

    CSS = """
    Prompt { align: left bottom; background: transparent; }
    Prompt Vertical { height: auto; }
    Prompt Static { height: auto; text-style: bold; }
    Prompt Input { height: 1; border: none; padding: 0 1; }
    Prompt Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self, title: str, value: str = "", check: Callable[[str], str] = lambda text: "") -> None:
        """``check`` returns why a text is not accepted, or an empty string."""
        super().__init__()
        self._title = title
        self._value = value
        self._check = check
        self._line = Static(Text(title))

    def compose(self) -> ComposeResult:
        """Compose the title and the input."""
        with Vertical():
            yield self._line
            yield Input(self._value, select_on_focus=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Accept the text, or show why it is not accepted."""
        error = self._check(event.value)
        if error:
            self._line.update(Text(error))
        else:
            self.dismiss(event.value)

    def action_leave(self) -> None:
        """Leave the prompt without a result."""
        self.dismiss(None)
