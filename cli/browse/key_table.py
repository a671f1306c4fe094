"""The keys of the application, for its bindings and its help. They are those of termshark where it has one."""

from __future__ import annotations

from typing import Final, NamedTuple


class Key(NamedTuple):
    """A key with its action."""

    keys: str
    """The names that Textual gives to the keys, separated by commas."""
    action: str
    """The action of the application; empty for keys that a pane handles."""
    shown: str
    help: str
    priority: bool = False
    """Whether the application handles the key before the pane with the focus, in the order of the keys typed."""


KEYS: Final = (
    Key("slash", "edit_filter", "/", "edit the filter; Tab completes, Enter applies, Escape restores", priority=True),
    Key("tab", "next_pane(1)", "Tab", "next pane"),
    Key("shift+tab", "next_pane(-1)", "Shift-Tab", "previous pane"),
    Key("backslash", "zoom", "\\", "maximize the pane, or restore the layout"),
    Key("vertical_line", "layout", "|", "bytes beside the tree or below it"),
    Key("plus", "resize(1)", "+", "enlarge the list"),
    Key("minus", "resize(-1)", "-", "reduce the list"),
    Key("", "", "↑ ↓ j k PgUp PgDn", "move in a pane"),
    Key("", "", "Home End g G", "first and last line"),
    Key("", "", "→ ← l h Space", "open and close a node of the tree"),
    Key("", "", "Enter", "open a node; show a long value; go to the frame of a reference"),
    Key("colon", "go_to", ":", "go to a frame by its number; p and a number for a packet"),
    Key("ctrl+f", "search", "Ctrl-F", "search for a text in the lines and bytes of frames; 0x and hex for bytes"),
    Key("n", "search_again(1)", "n", "next frame with the text"),
    Key("N", "search_again(-1)", "N", "previous frame with the text"),
    Key("r", "counterpart", "r", "jump from a request to its response, and back"),
    Key("a", "acks", "a", "jump from a message to its acknowledgements, and from an ACK to its messages"),
    Key("d", "cause", "d", "jump from a redelivery to its cause"),
    Key("backspace", "jump_back", "Backspace", "go back to the frame before the last jump"),
    Key("f", "follow", "f", "follow: c connection, m message, p producer or consumer; f again shows all frames"),
    Key("t", "time", "t", "time: since the start, since the previous frame, UTC"),
    Key("C", "columns", "C", "choose the columns"),
    Key("p", "payload", "p", "show or hide payloads"),
    Key("s", "system", "s", "show or hide the traffic of the broker's internal client"),
    Key("F", "side('F')", "F", "incidents and findings; Enter goes to their frames"),
    Key("P", "side('P')", "P", "permits of the frame's consumer over time"),
    Key("K", "side('K')", "K", "key ranges of the frame's subscription at this frame"),
    Key("B", "side('B')", "B", "message balance of the frame's topic"),
    Key("S", "side('S')", "S", "graph of the segments of the frame's scalable topic at this frame"),
    Key("T", "byte_faults", "T", "network faults of the proxy: add, remove all, down, up"),
    Key("m", "mark", "m", "mark the frame, or remove its mark"),
    Key("semicolon", "comment", ";", "comment on the frame"),
    Key("w", "write", "w", "write the capture with the comments as a pcapng file"),
    Key("apostrophe", "next_mark", "'", "go to the next mark"),
    Key("escape", "stop_work", "Esc", "stop a filter, a search or a report; close the side pane"),
    Key("question_mark", "help", "?", "show this help"),
    Key("q,ctrl+c", "quit_or_warn", "q", "quit"),
)
"""All keys, in the order of the help."""
