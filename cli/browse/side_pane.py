"""The side pane: findings, permits of a consumer, key ranges of a subscription, balance or segments of a topic.

Rules of this file
1. Each line may refer to frames. Enter goes to the next of these frames.
2. The pane concerns the consumer, subscription or topic of the selected frame, or all if the frame has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from pcli.cli.browse.capture_report import CaptureReport
from pcli.cli.browse.line_list import LineList
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.diagnosis.evidence_lines import FrameLines
from pcli.cli.diagnosis.finding_output import FindingText, shown_text, wrapped
from pcli.cli.stats.keys import owned_ranges
from pcli.cli.stats.segments import topic_lines
from pcli.codec.observe import Consumer, Facts
from pcli.codec.observe.output.step_chart import step_chart
from pcli.codec.observe.text_format import printable, short_topic
from pcli.codec.scalable.segment_name import scalable_topic

if TYPE_CHECKING:
    from pcli.codec.observe.incidents import Incident

_FRAME: Final = re.compile(r" +frame (\d+)\b")
_MAX_POINTS: Final = 10_000
"""Maximum number of changes of permits that are listed."""


@dataclass(frozen=True, slots=True)
class PaneLine:
    """A line of the side pane."""

    text: str
    frames: tuple[int, ...] = ()


class SidePane(LineList):
    """The side pane."""

    DEFAULT_CSS = "SidePane { display: none; border-top: solid $foreground; height: 11fr; }"
    HEAD = 1

    def __init__(self) -> None:
        super().__init__(id="side")
        self.kind = ""
        """The key of PANES that is shown; empty if the pane is closed."""
        self.lines: list[PaneLine] = []
        self._turn = 0

    def show(self, kind: str, lines: list[PaneLine]) -> None:
        """Show lines, from the first."""
        self.kind, self.lines, self.display = kind, lines, True
        self.cursor = 0
        self.update_lines()
        self.scroll_to(y=0, animate=False, force=True)

    def hide(self) -> None:
        """Close the pane."""
        self.kind, self.display = "", False

    def line_count(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def line_text(self, line: int, width: int) -> Text:
        """Return a line."""
        return Text(printable(self.lines[line].text))

    def head_text(self, line: int, width: int) -> Text:
        """Return the title of the pane."""
        return Text(f"{PANES.get(self.kind, '')}: Enter goes to the frames, Esc closes the pane")

    def next_frame(self, current: int) -> int:
        """Return the next frame of the line under the cursor after the current one, or the first; 0 if none."""
        frames = sorted(self.lines[self.cursor].frames) if self.cursor < len(self.lines) else []
        return next((one for one in frames if one > current), frames[0] if frames else 0)


def pane_lines(
    kind: str, report: CaptureReport, frames: StoredFrames, facts: Facts | None, width: int
) -> list[PaneLine]:
    """Return the lines of a pane."""
    if report.fault:
        return [PaneLine(report.fault)]
    lines = list(_MAKERS[kind](report, frames, facts, width))
    return lines or [PaneLine(_EMPTY[kind])]


def _findings(report: CaptureReport, frames: StoredFrames, facts: Facts | None, width: int) -> Iterator[PaneLine]:
    for incident in report.incidents:
        yield from _incident(incident, report, frames, width)


def _incident(incident: Incident, report: CaptureReport, frames: StoredFrames, width: int) -> Iterator[PaneLine]:
    shown = FrameLines()
    for number in {number for one in incident.findings for number in one.frames}:
        if 0 < number <= frames.index.count:
            shown.keep(frames.facts(number))
    text = FindingText(report.first_ns, shown, lambda packet: ("", packet), width=width)
    if incident.effects:
        every = tuple(sorted({number for one in incident.findings for number in one.frames}))
        yield PaneLine(f"{incident.severity.upper()}  incident with {len(incident.findings)} findings", every)
        for line in wrapped("  ", incident.summary(), width):
            yield PaneLine(line, every)
    for finding in incident.findings:
        for line in shown_text(finding, text).split("\n"):
            match = _FRAME.match(line)
            yield PaneLine(line, (int(match[1]),) if match else tuple(finding.frames))


def _permits(report: CaptureReport, frames: StoredFrames, facts: Facts | None, width: int) -> Iterator[PaneLine]:
    """Yield the chart and the changes of the permits of the frame's consumer, or a line for each consumer."""
    peer = facts.peer if facts is not None else None
    rows = [row for row in report.permits if isinstance(peer, Consumer) and _is_consumer(row, peer)]
    if not rows:
        for row in report.permits:
            yield PaneLine(f"{_consumer_name(row)}: {_permit_text(row)}", _first_frames(row))
        return
    for row in rows:
        yield PaneLine(f"{_consumer_name(row)}: {_permit_text(row)}", _first_frames(row))
        points = [(int(Decimal(point["time"]) * 1_000_000_000), point["balance"]) for point in row["points"]]
        for line in step_chart(points, report.last_ns, zero_ns=report.first_ns, width=max(40, width)):
            yield PaneLine(line)
        for (time_ns, balance), point in zip(points[:_MAX_POINTS], row["points"]):
            seconds = (time_ns - report.first_ns) / 1e9
            yield PaneLine(f"{seconds:12.6f} s  frame {point['frame']:<8} {balance:>8} permits", (point["frame"],))


def _is_consumer(row: dict[str, Any], peer: Consumer) -> bool:
    same = row["topic"] == peer.topic and row["subscription"] == peer.subscription
    return bool(same and (row["consumer"] == peer.name or row["consumer_id"] == peer.id))


def _consumer_name(row: dict[str, Any]) -> str:
    return f"{short_topic(row['topic'])}/{row['subscription']} ({row['consumer']})"


def _permit_text(row: dict[str, Any]) -> str:
    words = [f"{name} {row[name]}" for name in ("queue", "flowed", "delivered", "balance", "lowest") if name in row]
    return ", ".join(word.replace("None", "?") for word in words)


def _first_frames(row: dict[str, Any]) -> tuple[int, ...]:
    frame = row.get("lowest_frame")
    return (frame,) if frame else tuple(point["frame"] for point in row["points"][:1])


def _keys(report: CaptureReport, frames: StoredFrames, facts: Facts | None, width: int) -> Iterator[PaneLine]:
    """Yield the key ranges of the frame's subscription, or of all Key_Shared subscriptions."""
    peer = facts.peer if facts is not None else None
    own = [
        row
        for row in report.keys
        if isinstance(peer, Consumer) and (row["topic"], row["subscription"]) == (peer.topic, peer.subscription)
    ]
    for row in own or report.keys:
        title = f"{short_topic(row['topic'])}/{row['subscription']}  Key_Shared {row['keySharedMode']}"
        title += f" at frame {report.until}"
        yield PaneLine(title, tuple(row["order_broken_frames"]))
        for one in owned_ranges(row):
            name = one["consumer"] or "(no name)"
            yield PaneLine(f"  {one['first']:>5}-{one['last']:<5}  {name}  {one['keys_seen']} keys seen")
        for one in row["consumers"]:
            state = "attached" if one["attached"] else "gone"
            yield PaneLine(f"  {one['consumer'] or '(no name)'}: {state}, {one['keys_seen']} keys seen")
        if row["order_broken"]:
            yield PaneLine(f"  order broken for {row['order_broken']} messages", tuple(row["order_broken_frames"]))


def _balances(report: CaptureReport, frames: StoredFrames, facts: Facts | None, width: int) -> Iterator[PaneLine]:
    """Yield the balance of the frame's topic and its subscriptions, or of all topics."""
    topic = facts.peer.topic if facts is not None and facts.peer is not None else ""
    own = [one for one in report.balances if one.topic == topic]
    for one in own or report.balances:
        name = f"{short_topic(one.topic)}/{one.subscription}" if one.subscription else short_topic(one.topic)
        yield PaneLine(name)
        for value, number in one.values.items():
            if number != 0 or value in ("sent", "stored"):
                reason = f"  ({one.reasons[value]})" if value in one.reasons else ""
                yield PaneLine(f"  {'?' if number is None else number:>10}  {value.replace('_', ' ')}{reason}")


def _segments(report: CaptureReport, frames: StoredFrames, facts: Facts | None, width: int) -> Iterator[PaneLine]:
    """Yield the segments, changes and assignments of the frame's scalable topic, or of all."""
    names = set[str]()
    if facts is not None and facts.peer is not None:
        names.add(scalable_topic(facts.peer.topic))
    if facts is not None and facts.layout is not None:
        names.add(facts.layout.topic)
    own = [row for row in report.segments if row["topic"] in names]
    for row in own or report.segments:
        for line, frame in topic_lines(row, width):
            yield PaneLine(line, (frame,) if frame else ())


PANES: Final = {
    "F": "incidents and findings",
    "P": "permits",
    "K": "key ranges",
    "B": "message balance",
    "S": "segments of scalable topics",
}
"""The titles of the panes, by their keys."""

AT_FRAME: Final = frozenset({"K", "S"})
"""The panes that show the state at the selected frame. At the end of a capture, most consumers have disconnected."""

_Maker = Callable[[CaptureReport, StoredFrames, "Facts | None", int], Iterator[PaneLine]]
_MAKERS: Final[dict[str, _Maker]] = {"F": _findings, "P": _permits, "K": _keys, "B": _balances, "S": _segments}
_EMPTY: Final = {
    "F": "nothing found",
    "P": "the capture contains no consumer",
    "K": "there is no Key_Shared subscription at this frame",
    "B": "the capture contains no topic",
    "S": "there is no scalable topic at this frame",
}
