"""The output of `pcli replay`: the plan of a dry run, the table, and the first differences in two columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pcli.cli.common.output import say, write_line
from pcli.cli.common.packet_numbers import PacketIndex
from pcli.cli.common.text_tables import print_rows

if TYPE_CHECKING:
    from pcli.replay.player.comparison.report import Report
    from pcli.replay.player.replay import Replay
    from pcli.replay.player.script.script import Script

_TITLES = {name: name for name in ("command", "equal", "explained", "unexplained", "rules")}
_OF_EACH = ("address", "clock")
"""Rules for values that differ between all brokers."""


def packet_index(script: Script) -> PacketIndex:
    """Return the packet numbers of the frames in a script."""
    index = PacketIndex()
    for step in script.steps:
        if step.frame is not None:
            index.add(step.frame)
    return index


def print_plan(replay: Replay, packets: PacketIndex | None) -> None:
    """Print what would be replayed, and the settings and REST calls that this requires."""
    script, found = replay.script, replay.preparation
    for connection in script.connections.values():
        steps = [step for step in script.steps if step.stream == connection.number]
        sent = sum(step.from_client for step in steps)
        write_line(f"stream {connection.number}: {sent} commands of the client, {len(steps) - sent} of the broker")
    for name, value in found.settings.items():
        write_line(f"setting {name}={value}")
    for call in replay.calls:
        write_line(f"before: {call.method} {call.path}")
    for index, calls in sorted({**found.before, **found.instead}.items()):
        line = script.steps[index]
        number = line.frame.number if line.frame is not None else 0
        for call in calls:
            frame = f"frame {number}" if packets is None else packets.label(f"frame {number}")
            write_line(f"at {frame} ({line.name}): {call.method} {call.path}")
    if found.skipped:
        write_line(f"omitted: {len(found.skipped)} commands that the captured broker refused or lost during an unload")


def print_left_out(reasons: Mapping[str, int], composed: Iterable[str] = ()) -> None:
    """Print what is not replayed, one line per reason, and the commands that were composed."""
    for text in composed:
        say(f"composed: {text}")
    for reason, count in reasons.items():
        say(f"not replayed: {reason}: {count}")


def print_report(name: str, report: Report, count: int, packets: PacketIndex | None) -> None:
    """Print the totals, then the first differences."""
    print_left_out(report.not_played, report.composed)
    for line in report.not_said[:count]:
        say(f"not sent: {line if packets is None else packets.label(line)}")
    if len(report.not_said) > count:
        say(f"not sent: {len(report.not_said) - count} more")
    write_line(f"against {name}")
    print_rows([dict(zip(_TITLES, row, strict=True)) for row in report.rows()], "text", _TITLES)
    first = report.first(count)
    if first:
        write_line("")
        write_line(f"the first {len(first)} of {sum(report.unexplained.values())} differences that no rule explains")
        _print_differences(first, {"captured": "captured", "live": "live"}, packets)


def print_two(one: tuple[str, Report], other: tuple[str, Report], count: int, packets: PacketIndex | None) -> None:
    """Print the differences between two brokers. Each broker was compared with the capture."""
    seen = [{_key(row): row for row in report.differences} for _, report in (one, other)]
    rows: list[dict[str, Any]] = []
    for key in sorted({*seen[0], *seen[1]}, key=str):
        first, second = (side.get(key) for side in seen)
        row = first or second
        live = [_live(side, row) for side in (first, second)]
        if live[0] != live[1] and row is not None and row["rule"] not in _OF_EACH:
            rows.append({**row, "one": live[0], "other": live[1]})
    write_line("")
    if not rows:
        write_line("the responses of the two brokers are equal")
        return
    write_line(f"the two brokers differ in {len(rows)} places; the first {min(count, len(rows))}")
    _print_differences(rows[:count], {"one": one[0], "other": other[0]}, packets)


def _print_differences(rows: list[dict[str, Any]], values: dict[str, str], packets: PacketIndex | None) -> None:
    """Print the position and the values of each difference. ``values`` contains fields and their titles."""
    titles = {"frame": "frame", "packet": "packet", "command": "command", "field": "field", **values}
    if packets is None:
        del titles["packet"]
    else:
        rows = [row | {"packet": packets.packet_of(row["frame"])} for row in rows]
    print_rows(rows, "text", titles)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["stream"], row["frame"], row["command"], row["field"]


def _live(side: dict[str, Any] | None, row: dict[str, Any] | None) -> str:
    """Return a broker's value. It is the captured value if there is no difference."""
    if side is None:
        return str(row["captured"]) if row is not None else ""
    return str(side["live"]) or "nothing"
