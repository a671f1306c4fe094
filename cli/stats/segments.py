"""`pcli stats segments`: shows scalable topics of Pulsar 5: segments, changes of the layout, assignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import counted, text_width, write_line
from pcli.cli.common.text_tables import tree_lines
from pcli.cli.stats.state_view import StateView

if TYPE_CHECKING:
    from pcli.cli.stats.capture_state import CaptureState

_Row = dict[str, Any]

_SEGMENTS: Final = ("segment", "state", "hashes", "messages", "msg/s", "subscription", "backlog", "consumers")
_MOST: Final = 20
"""Maximum number of changes and of hand-overs of a topic in the text output."""


def _find(state: CaptureState, until_ns: int, name: str, system: bool) -> list[_Row]:
    from pcli.codec.observe.tracking.statistics.segment_statistics import segment_figures
    from pcli.codec.scalable.segment_name import selected_topic

    wanted = selected_topic(name)
    topics = state.tracker.scalable_topics.topics.values()
    rows = segment_figures(state.tracker.subscriptions, topics, until_ns)
    return [row for row in rows if wanted in ("", row["topic"])]


def _show(rows: list[_Row], state: CaptureState, until_ns: int) -> None:
    for number, row in enumerate(rows):
        if number:
            write_line("")
        for line, _ in topic_lines(row, text_width()):
            write_line(line)


def topic_lines(row: _Row, width: int | None) -> Iterator[tuple[str, int]]:
    """Yield the lines of a row of `segment_figures`, each with the frame that shows it, or 0."""
    from pcli.codec.observe.text_format import printable

    yield printable(_title(row)), 0
    for line in tree_lines(_SEGMENTS, _segments(row), width):
        yield line, 0
    for line, frame in _lines(row):
        yield printable(line), frame


def _title(row: _Row) -> str:
    epoch = "layout unknown" if row["epoch"] is None else f"epoch {row['epoch']}"
    return f"{row['topic']}  {epoch}, controller {row['controller'] or 'none'}, {counted(row['updates'], 'layout')}"


def _segments(row: _Row) -> Iterator[list[Any]]:
    depth: dict[int, int] = {}
    for one in row["segments"]:
        known = [depth[parent] for parent in one["parents"] if parent in depth]
        depth[one["segment"]] = level = min(known) + 1 if known else 0
        also = f" + {', '.join(map(str, one['parents'][1:]))}" if len(one["parents"]) > 1 else ""
        hashes = f"{one['first_hash']:04x}-{one['last_hash']:04x} {one['share']:.0%}"
        rest = [one["state"], hashes, one["messages_in"], one["rate_in"]]
        cells = [
            [name, stats["msgBacklog"], ", ".join(one or "(no name)" for one in stats["consumers"])]
            for name, stats in one["subscriptions"].items()
        ]
        first, *others = cells or [["", "", ""]]
        yield [f"{'  ' * level}{one['segment']}{also}", *rest, *first]
        for more in others:
            yield ["", "", "", "", "", *more]


def _lines(row: _Row) -> Iterator[tuple[str, int]]:
    """Yield the lines below the segments, with their frames: changes, assignments, hand-overs."""
    for one in row["changes"][-_MOST:]:
        parts = " → ".join(", ".join(map(str, one[side])) for side in ("before", "after") if one[side])
        yield f"{one['at']:.3f} s  {one['kind']} {parts}  (epoch {one['epoch']}, frame {one['frame']})", one["frame"]
    for one in row["consumers"]:
        if not one["end"]:
            share = f", shared {', '.join(map(str, one['shared']))}" if one["shared"] else ""
            assigned = "unknown, no assignment in the capture"
            if one["segments"] is not None:
                assigned = ", ".join(map(str, one["segments"])) or "none"
            yield f"{one['type']} {one['subscription']} ({one['consumer']}): segments {assigned}{share}", one["frame"]
    moves = [one for one in row["hand_overs"] if one["ready"] is not None]
    if moves:
        slowest = max(moves, key=lambda one: one["ready"] - one["at"])
        yield (
            (
                f"{counted(len(row['hand_overs']), 'hand-over')} of segments; the slowest took "
                f"{slowest['ready'] - slowest['at']:.3f} s: segment {slowest['segment']}, {slowest['before']} → "
                f"{slowest['after']} (subscription {slowest['subscription']})"
            ),
            slowest["frame"],
        )
    for one in row["unattended"]:
        until = f"to {one['until']:.3f} s" if one["until"] is not None else "until the end"
        yield (
            (
                f"segment {one['segment']} had no consumer of {one['subscription']} from {one['since']:.3f} s {until}, "
                f"because {one['consumer']} was lost"
            ),
            one["frame"],
        )
    for text in row["contradictions"]:
        yield f"layout: {text}", 0


VIEW: Final = StateView(
    "segments",
    "Show scalable topics of Pulsar 5: the graph of segments with rates and backlogs, its changes, and assignments.",
    _find,
    _show,
    noun="scalable topic",
    option="--topic",
    example="orders",
)
