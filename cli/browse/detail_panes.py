"""The panes of one frame: its tree, and its bytes with the selected field highlighted.

Rules of this file
1. A node that was opened stays open in later frames, by its place in the tree, as in Wireshark.
2. Bytes of credentials and payloads are shown as asterisks unless requested.
"""

from __future__ import annotations

from typing import ClassVar, Final

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from pcli.cli.browse.line_list import LineList
from pcli.codec.observe import Facts
from pcli.codec.observe.output.field_nodes import FieldNode, frame_nodes
from pcli.codec.observe.output.frame_tree import shown_bytes
from pcli.codec.observe.text_format import printable

_HIGHLIGHT: Final = Style(reverse=True)
_MAX_OPEN: Final = 200_000
"""Maximum number of lines in the tree."""

_Path = tuple[str, ...]
_OPEN: Final = frozenset({("command",), ("metadata",), ("payload",), ("payload", "0")})
"""The nodes that are open at first, in addition to the body of the command."""


class TreePane(LineList):
    """The tree of a frame."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "open(1)", show=False),
        Binding("left,h", "open(0)", show=False),
        Binding("space", "toggle_node", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.lines: list[tuple[FieldNode, int, _Path]] = []
        """Node, depth and path of each line."""
        self._opened: dict[_Path, bool] = {}
        """Whether a node is open, by its path, if it was opened or closed."""
        self._roots: list[FieldNode] = []

    def show(self, facts: Facts | None, *, secrets: bool, payload: bool, comment: str = "") -> None:
        """Show a frame and its comment. The cursor stays at the line with the same path if there is one."""
        before = self.lines[self.cursor][2] if self.cursor < len(self.lines) else ()
        self._roots = [] if facts is None else frame_nodes(facts, secrets=secrets, payload=payload)
        self._roots += (FieldNode(f"comment: {printable(line)}") for line in comment.split("\n") if line)
        self._list()
        self.cursor = next((place for place, line in enumerate(self.lines) if line[2] == before), 0)
        self.update_lines()
        self.show_line(self.cursor)

    def _list(self) -> None:
        self.lines = []
        stack: list[tuple[FieldNode, int, _Path]] = []
        for place, node in reversed(list(enumerate(self._roots))):
            stack.append((node, 0, (_root_name(node, place),)))
        while stack and len(self.lines) < _MAX_OPEN:
            node, depth, path = stack.pop()
            self.lines.append((node, depth, path))
            if self._is_open(path):
                below = node.children()
                stack += [(one, depth + 1, (*path, _name(one, at))) for at, one in enumerate(below)][::-1]

    def _is_open(self, path: _Path) -> bool:
        opened = self._opened.get(path)
        return path in _OPEN or (path[0] == "command" and len(path) == 2) if opened is None else opened

    @property
    def node(self) -> FieldNode | None:
        """The node under the cursor."""
        return self.lines[self.cursor][0] if self.cursor < len(self.lines) else None

    def line_count(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def line_text(self, line: int, width: int) -> Text:
        """Return a node, indented."""
        node, depth, path = self.lines[line]
        sign = ("▼ " if self._is_open(path) else "▶ ") if node.has_children else "  "
        return Text(f"{'  ' * depth}{sign}{node.text}"[: max(width * 4, 400)])

    def action_open(self, wanted: int) -> None:
        """Open or close the node under the cursor. Closing a node that is not open moves to the node above it."""
        if self.cursor >= len(self.lines):
            return
        node, depth, path = self.lines[self.cursor]
        if wanted and node.has_children:
            self._opened[path] = True
        elif not wanted and self._is_open(path) and node.has_children:
            self._opened[path] = False
        elif not wanted and depth:
            self.move_to(next(place for place in range(self.cursor, -1, -1) if self.lines[place][1] < depth))
            return
        self._list()
        self.update_lines()

    def action_toggle_node(self) -> None:
        """Open a closed node, or close an open node."""
        if self.cursor < len(self.lines):
            self.action_open(int(not self._is_open(self.lines[self.cursor][2])))

    def action_choose(self) -> None:
        """Open or close a node with nodes below it; report the choice of any other node."""
        node = self.node
        if node is not None and node.has_children:
            self.action_toggle_node()
        else:
            super().action_choose()

    def select_byte(self, offset: int) -> None:
        """Move to the deepest shown node that contains a byte of the frame."""
        found = [
            (node.end - node.start, -depth, place)
            for place, (node, depth, _) in enumerate(self.lines)
            if node.data is None and node.start <= offset < node.end
        ]
        if found:
            self.move_to(min(found)[2])

    def on_click(self, event: events.Click) -> None:
        """Move to the clicked line; a click on the sign of a node opens or closes it."""
        super().on_click(event)
        place = event.get_content_offset(self)
        if place is not None and self.cursor < len(self.lines):
            depth = self.lines[self.cursor][1]
            if 2 * depth <= place.x < 2 * depth + 2:
                self.action_toggle_node()


def _root_name(node: FieldNode, place: int) -> str:
    """Return a name of a part of the frame that does not depend on the command."""
    if place < 2:
        return ("frame", "command")[place]
    return node.text.partition(":")[0].partition(" ")[0]


def _name(node: FieldNode, place: int) -> str:
    return node.name or f"{place}"


class BytesPane(LineList):
    """The bytes of a frame or payload, sixteen in a line."""

    class ByteChosen(Message):
        """A byte was clicked."""

        def __init__(self, offset: int) -> None:
            super().__init__()
            self.offset = offset

    def __init__(self) -> None:
        super().__init__(id="bytes")
        self.data = b""
        self.start = self.end = 0
        """The highlighted bytes."""
        self._row = 16

    def show(self, facts: Facts | None, node: FieldNode | None, *, secrets: bool, payload: bool) -> None:
        """Show the bytes that contain a node, and highlight the bytes of the node."""
        if facts is None:
            self.data = b""
        elif node is not None and node.data is not None:
            self.data = node.data if payload else b"*" * len(node.data)
        else:
            self.data = shown_bytes(facts.frame, secrets=secrets, payload=payload)
        self.start, self.end = (node.start, node.end) if node is not None else (0, 0)
        self.update_lines()
        self.move_to(self.start // self._row)

    def on_resize(self) -> None:
        """Show eight bytes in a line if the terminal is narrow."""
        self._row = 16 if self.size.width >= 74 else 8
        super().on_resize()

    def line_count(self) -> int:
        """Return the number of lines."""
        return -(-len(self.data) // self._row)

    def line_text(self, line: int, width: int) -> Text:
        """Return offset, hex and printable characters of the bytes of a line."""
        first = line * self._row
        row = self.data[first : first + self._row]
        text = Text(f"{first:04x}  ")
        for place, byte in enumerate(row):
            inside = self.start <= first + place < self.end
            text.append(f"{byte:02x}", _HIGHLIGHT if inside else None)
            text.append(" ", _HIGHLIGHT if inside and first + place + 1 < self.end and place + 1 < len(row) else None)
        text.append("   " * (self._row - len(row)) + "  ")
        for place, byte in enumerate(row):
            inside = self.start <= first + place < self.end
            text.append(chr(byte) if 32 <= byte < 127 else ".", _HIGHLIGHT if inside else None)
        return text

    def render_line(self, y: int) -> Strip:
        """Return a line without a cursor: the highlighted bytes are the selection."""
        width, line = self.size.width, y + round(self.scroll_y)
        text = self.line_text(line, width) if line < self.line_count() else Text()
        return self._strip(text, width, Style())

    def action_move(self, lines: int) -> None:
        """Scroll by this number of lines."""
        self.scroll_to(y=self.scroll_y + lines, animate=False, force=True)

    def action_page(self, pages: int) -> None:
        """Scroll by this number of pages."""
        self.action_move(pages * self.page_size)

    def on_click(self, event: events.Click) -> None:
        """Report the byte that was clicked."""
        place = event.get_content_offset(self)
        offset = -1 if place is None else self.offset_at(place.x, place.y)
        if offset >= 0:
            self.post_message(self.ByteChosen(offset))

    def offset_at(self, x: int, y: int) -> int:
        """Return the offset of the byte at a position of the pane, or -1."""
        first = (y + round(self.scroll_y)) * self._row
        hex_end = 6 + 3 * self._row
        place = (x - 6) // 3 if 6 <= x < hex_end else x - hex_end - 2
        offset = first + place
        return offset if 0 <= place < self._row and offset < len(self.data) else -1
