"""The application of `pcli browse`: the actions of its keys (key_table.py) on the panes of frame_views.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from rich.text import Text

from pcli.cli.browse.frame_list import COLUMNS, DEFAULT_COLUMNS, line_of
from pcli.cli.browse.frame_views import FrameViews
from pcli.cli.browse.key_table import KEYS
from pcli.cli.browse.marked_capture import MarkedCapture, output_error
from pcli.cli.browse.prompt import Prompt
from pcli.cli.browse.related_frames import (
    acks_of,
    cause_of_redelivery,
    counterpart,
    message_frames,
    message_of,
    peer_frames,
)
from pcli.cli.browse.row_jobs import FilteredRows, FixedRows, FrameSearch, VisibleRows
from pcli.cli.common.text_sheet import TextSheet
from pcli.cli.diagnosis.finding_output import wrapped
from pcli.codec.errors import LocalError
from pcli.codec.observe import Facts, compile_filter
from pcli.codec.observe.fields.field_table import lookup_field
from pcli.codec.observe.text_format import printable
from pcli.replay.proxy import ByteFault, Proxy

_FOLLOWED: Final = ("c", "m", "p")


class BrowseApp(FrameViews):
    """The application."""

    # -- jumps

    def action_counterpart(self) -> None:
        """Jump between request and response."""
        facts = self.selected
        if facts is not None:
            number = counterpart(facts)
            self.jump(number, "" if number else "the frame has no request or response in the capture")

    def action_acks(self) -> None:
        """Jump between a message and its acknowledgements; with several, to the next one."""
        facts = self.selected
        found = [] if facts is None else acks_of(self.frames, facts)
        if facts is None or not found:
            self.say("the capture contains no acknowledgement or delivery of a message of this frame")
            return
        number = next((one for one in found if one > facts.frame.number), found[-1])
        self.jump(number, f"1 of {len(found)}" if len(found) > 1 else "")

    def action_cause(self) -> None:
        """Jump from a redelivery to its cause."""
        facts = self.selected
        if facts is not None:
            number, text = cause_of_redelivery(self.frames, facts)
            self.jump(number, text)

    def action_jump_back(self) -> None:
        """Return to the frame before the last jump."""
        if self._back:
            number = self._back.pop()
            self.jump(number)
            self._back.pop()

    def action_go_to(self) -> None:
        """Ask for the number of a frame or packet."""
        self.push_screen(Prompt("frame number, or p and a packet number:", check=self._number_error), self._go_to)

    def _number_error(self, text: str) -> str:
        return "" if self._number(text) else f"no such frame: {printable(text)}"

    def _number(self, text: str) -> int:
        """Return the number of a frame from its number, or from ``p`` and the number of a packet; 0 if none."""
        word = text.strip()
        digits = word.removeprefix("p")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 18):
            return 0
        number = int(digits)
        if word.startswith("p"):
            packets = self.frames.index.columns["packet"]
            later = np.flatnonzero(packets >= number)
            return int(later[0]) + 1 if len(later) else 0
        return number if number <= self.frames.index.count else 0

    def _go_to(self, text: str | None) -> None:
        if text is not None:
            self.jump(self._number(text))

    # -- search

    def action_search(self) -> None:
        """Ask for a text and search for it."""
        self.push_screen(Prompt("search for a text in lines and bytes; 0x… for bytes:", self._words), self._search_for)

    def _search_for(self, text: str | None) -> None:
        if text:
            self._words = text
            self.action_search_again(1)

    def action_search_again(self, step: int) -> None:
        """Search for the last text after or before the selected frame."""
        if not self._words:
            self.action_search()
            return
        if self._search is not None:
            self._search.stop()
        rows, at = self.list.view, self.list.cursor
        order = [rows[at + 1 :], rows[: at + 1]] if step > 0 else [rows[:at][::-1], rows[at:][::-1]]
        self._search = FrameSearch(self.frames, contains(self._words), np.concatenate(order), self._found)

    def _found(self, number: int) -> None:
        """Show the result of a search; called in its thread."""
        text = f"found: {printable(self._words)}" if number else f"not found: {printable(self._words)}"
        self.from_thread(self.jump, number, text)

    def action_stop_work(self) -> None:
        """Stop the filter, the search and the report; if nothing runs, close the side pane."""
        running = [one for one in self.jobs().values() if one.running]
        for one in running:
            one.stop()
        if running:
            self._report = None if self._report in running else self._report
            self._side_kind = ""
            self.say("stopped")
        elif self.side.kind:
            self.close_side()

    def action_side(self, kind: str) -> None:
        """Open a side pane, or close it if it is open."""
        if self.build is not None and not self.build.over:
            self._report = None  # the frames since the last report are included
        if self.side.kind == kind:
            self.close_side()
        else:
            self.open_side(kind)

    # -- the proxy

    def action_byte_faults(self) -> None:
        """Ask for a change of the network faults of the proxy."""
        proxy = self.options.proxy
        if proxy is None:
            self.say("network faults: only with --broker and in pcli proxy --browse")
            return
        now = "down" if not proxy.enabled else " + ".join(map(str, proxy.byte_faults)) or "none"
        title = f"network faults now: {now}; write words such as latency=50ms from=broker to add, or none, down, up:"
        self.push_screen(Prompt(title, check=self._fault_error), self._say_fault)

    def _fault_error(self, text: str) -> str:
        """Change the network faults; return why this is impossible, or an empty string."""
        proxy = self.options.proxy
        try:
            if proxy is not None and text.strip():
                change_faults(proxy, text.strip())
        except LocalError as error:
            return printable(error.text)
        return ""

    def _say_fault(self, text: str | None) -> None:
        if text:
            self.say(f"network faults: {printable(text)}")

    # -- views

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a slash to the line of input or the sheet that has the focus."""
        return action != "edit_filter" or (len(self.screen_stack) == 1 and self.focused is not self.filter_line)

    def action_edit_filter(self) -> None:
        """Edit the filter. The focus moves at once, so that the keys behind it are the filter's."""
        self.screen.set_focus(self.filter_line)
        self.filter_line.cursor_position = len(self.filter_line.value)

    def action_next_pane(self, step: int) -> None:
        """Move the focus to another pane."""
        panes = [one for one in (self.list, self.tree_pane, self.bytes_pane, self.side) if one.region.height]
        place = next((place for place, one in enumerate(panes) if one.has_focus), -step)
        panes[(place + step) % len(panes)].focus()

    def action_zoom(self) -> None:
        """Maximize the pane with the focus, or restore the layout."""
        panes = self.panes
        names = ("-only-frames", "-only-tree", "-only-bytes")
        if any(panes.has_class(name) for name in names):
            panes.remove_class(*names)
        elif self.focused is not None and self.focused.id in ("frames", "tree", "bytes"):
            panes.add_class(f"-only-{self.focused.id}")

    def action_layout(self) -> None:
        """Move the bytes beside the tree, or below it."""
        self.details.toggle_class("-beside")

    def action_resize(self, step: int) -> None:
        """Change the share of the list in the height of the panes."""
        self._resized = min(max(self._resized + step, -7), 9)
        self.list.styles.height = f"{9 + self._resized}fr"
        self.details.styles.height = f"{11 - self._resized}fr"

    def action_time(self) -> None:
        """Change the format of times: since the start, since the previous frame, UTC."""
        if self.list.utc:
            self.list.utc, self.list.time = False, "r"
        elif self.list.time == "r":
            self.list.time = "dd"
        else:
            self.list.utc = True
        self.list.refresh()
        what = {"r": "since the first frame", "dd": "since the previous frame shown"}
        self.say(f"time: {'UTC' if self.list.utc else what.get(self.list.time, '')}")

    def action_columns(self) -> None:
        """Ask for the columns."""
        words = ", ".join(COLUMNS)
        prompt = Prompt(f"columns: {words}, or fields:", " ".join(self.list.columns), columns_error)
        self.push_screen(prompt, self._set_columns)

    def _set_columns(self, text: str | None) -> None:
        if text is not None:
            self.list.columns = column_names(text) or list(DEFAULT_COLUMNS)
            self.list.refresh()

    def action_payload(self) -> None:
        """Show or hide payloads."""
        self.options.payload = not self.options.payload
        self._show_frame()
        self.say(f"payloads are {'shown' if self.options.payload else 'hidden'}")

    def action_system(self) -> None:
        """Show or hide the traffic of the broker's internal client."""
        self._visible = VisibleRows(self.frames, system=not self._visible.system)
        self._apply(self.filter_line.applied)
        self.say(f"traffic of the broker's internal client: {'shown' if self._visible.system else 'hidden'}")

    def action_help(self) -> None:
        """Show the keys."""
        width = max(40, self.size.width * 9 // 10 - 8)
        lines = [line for key in KEYS for line in wrapped(f"{key.shown:<17} ", key.help, width)]
        self.push_screen(TextSheet(Text("\n".join(lines))))

    # -- following

    def action_follow(self) -> None:
        """Ask what to follow, or show all frames again."""
        if self._followed:
            self._apply(self.filter_line.applied)
            return
        check: Callable[[str], str] = lambda text: "" if text in _FOLLOWED else "write c, m or p"  # noqa: E731
        self.push_screen(Prompt("follow: c connection, m message, p producer or consumer:", check=check), self._follow)

    def _follow(self, kind: str | None) -> None:
        facts = self.selected
        if kind is None or facts is None:
            return
        if kind == "c":
            stream = facts.frame.stream.number
            same = FilteredRows(self.frames, compile_filter(f"tcp.stream == {stream}"))
            self._show(same, followed=f"connection {stream}")
            return
        message = message_of(self.frames, facts) if kind == "m" else None
        if kind == "m" and message is None:
            self.say("the frame has no message id")
            return
        rows = peer_frames(self.frames, facts) if message is None else message_frames(self.frames, message)
        if not len(rows):
            self.say("the frame has no producer or consumer" if kind == "p" else "the capture lacks this message")
            return
        peer = facts.peer
        what = f"{type(peer).__name__.lower()} {peer.name or peer.id}" if peer is not None else ""
        self._show(FixedRows(rows), followed=what if message is None else f"message {message}")

    # -- marks

    def action_mark(self) -> None:
        """Mark the frame or remove its mark."""
        if self.list.number:
            self.marks.toggle(self.list.number)
            self.list.refresh()

    def action_comment(self) -> None:
        """Ask for the comment of the frame."""
        number = self.list.number
        if number:

            def set_comment(text: str | None) -> None:
                if text is not None:
                    self.marks.comment(number, text)
                    self.list.refresh()
                    self._show_frame()

            self.push_screen(Prompt(f"comment of frame {number}:", self.marks.comments.get(number, "")), set_comment)

    def action_write(self) -> None:
        """Ask for the file to which the capture is written with its comments."""
        live, inputs = self.options.follow, self.inputs.files
        if self.build is not None and not self.build.over and not live:
            self.say("the capture is still being read")
            return
        first = Path(inputs[0] if inputs and not live else "capture")
        name = str(first.with_name(f"{first.name.split('.')[0]}-marked.pcapng"))
        self.push_screen(Prompt("write all packets with the comments to:", name, self._output_error), self._write)

    def _output_error(self, path: str) -> str:
        return printable(output_error(path, self.inputs.files, self._written_paths))

    def _write(self, path: str | None) -> None:
        if path is None:
            return
        index = self.frames.index
        packets = int(index.columns["packet"][-1]) if index.count else 0

        def written(error: str) -> None:
            self.from_thread(self._written, path, error)

        self._writing = MarkedCapture(path, self.inputs.named_files, self.marks.of_packets(index), packets, written)

    def _written(self, path: str, error: str) -> None:
        self.marks.changed = self.marks.changed and bool(error)
        self._written_paths.add(path)
        self.say(printable(error or f"written: {path}"))

    def action_quit_or_warn(self) -> None:
        """Quit; if there are marks that are not saved, only the second time."""
        if self.marks.changed:
            self.marks.changed = False
            self.say("the marks are not saved: w saves them, q quits")
        else:
            self.exit()

    def action_next_mark(self) -> None:
        """Go to the next mark."""
        self.jump(self.marks.after(self.list.number), "" if self.marks.comments else "no frame is marked: m marks one")


def change_faults(proxy: Proxy, text: str) -> None:
    """Add a network fault, remove all (``none``), or close or open the ports (``down``, ``up``) of a proxy.

    Raises LocalError if the words are invalid or a port is in use.
    """
    if text in ("down", "up"):
        proxy.set_enabled(enabled=text == "up")
    elif text == "none":
        proxy.set_byte_faults([])
    else:
        proxy.set_byte_faults([*proxy.byte_faults, ByteFault(text)])


def contains(words: str) -> Callable[[Facts], bool]:
    """Return a test whether a frame contains a text in its line or bytes; ``0x`` and hex digits are bytes."""
    data = words.encode("utf-8", "surrogateescape")
    if words.lower().startswith("0x"):
        try:
            data = bytes.fromhex(words[2:])
            return lambda facts: data in facts.frame.data
        except ValueError:
            pass
    lower = words.lower()
    return lambda facts: data in facts.frame.data or lower in line_of(facts).lower()


def column_names(text: str) -> list[str]:
    """Return the names in a list of columns."""
    return text.replace(",", " ").split()


def columns_error(text: str) -> str:
    """Return which column does not exist, or an empty string."""
    for name in column_names(text):
        if name not in COLUMNS and lookup_field(name) is None:
            return f"no column {printable(name)}: write {', '.join(COLUMNS)}, or a field of pcli fields"
    return ""
