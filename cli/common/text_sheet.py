"""A sheet of text above a full-screen application. It requires the extra ``pulsar-pcli[tui]``."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class TextSheet(ModalScreen[None]):
    """A sheet of text. A key closes it."""

    CSS = """
    TextSheet { align: center middle; }
    #sheet { width: 90%; max-height: 90%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "dismiss", "close")]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """Compose one scrollable block of text."""
        with VerticalScroll(id="sheet"):
            yield Static(self.text)
