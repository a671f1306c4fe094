"""`pcli stats permits`: shows permits granted by FLOWs and used by messages, in a table and in charts over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pcli.cli.common.options import (
    DecodeAs,
    Files,
    KeyLogFile,
    MoreFiles,
    Output,
    PacketNumbers,
    System,
    TextOrJson,
    named_files,
)
from pcli.cli.common.output import print_json, say, text_width, write_line
from pcli.cli.common.reading_options import read_options
from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.capture_state import At, read_state

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
    from pcli.codec.observe.tracking.tracker import Tracker

__all__ = ["permits"]

_Row = dict[str, Any]

_COLUMNS: Final = {
    "queue": "queue", "flowed": "flowed", "delivered": "delivered", "balance": "balance", "parked": "parked",
    "lowest": "lowest", "lowest_frame": "frame", "lowest_packet": "packet", "overshoot": "overshoot",
    "exhausted": "exhausted", "exhausted_seconds": "seconds", "doubled": "doubled", "corrupt": "corrupt",
}  # fmt: skip
"""Figures, with their titles."""

_MOST_DRAWN: Final = 20
"""Maximum number of charts."""

_WIDTH: Final = 80
"""Width of a chart if stdout is not a terminal."""


def permits(
    read: Files = None,
    more: MoreFiles = None,
    consumer: Annotated[
        str, typer.Option("--consumer", metavar="NAME", help="Show only consumers with this name.")
    ] = "",
    at: At = "",
    packet_numbers: PacketNumbers = False,
    output: Output = TextOrJson.text,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    system: System = False,
) -> None:
    """Show the permits of each consumer over time: granted by FLOWs, used by messages.

    pcli stats permits -r capture.pcap

    pcli stats permits -r capture.pcap --consumer worker-1 --at 2026-11-20T18:15:11Z -T json
    """
    taken = read_state(named_files(read, more), read_options(decode_as, keylog), at, packet_numbers=packet_numbers)
    moment_ns = taken.moment() if at else taken.tracker.capture.last_ns
    records = [one for one in _consumers(taken.tracker, system=system) if consumer in ("", one.name)]
    rows = list(_figures(records, moment_ns))
    columns = {name: title for name, title in _COLUMNS.items() if packet_numbers or name != "lowest_packet"}
    if taken.packets is not None:
        packet_of = taken.packets.packet_of
        rows = [row | {"lowest_packet": (frame := row["lowest_frame"]) and packet_of(frame)} for row in rows]
    if output is not TextOrJson.text:
        print_json(rows, output.value)
    elif rows:
        print_tree(("", *columns.values()), _lines(rows, columns))
        print_reasons((_name(row), row) for row in rows)
        _draw(records, rows, taken.tracker.capture.first_ns, moment_ns)
    nothing = f"--consumer {consumer}: no consumer with this name" if consumer else "no consumer"
    raise typer.Exit(taken.finish("" if rows else nothing))


def _consumers(tracker: Tracker, *, system: bool) -> Iterator[ConsumerRecord]:
    for group, record in tracker.subscriptions.records():
        if group == "consumer" and (system or not record.system):
            yield record


def _figures(records: Sequence[ConsumerRecord], now_ns: int) -> Iterator[_Row]:
    from pcli.codec.observe.rules.finding_text import consumer_subject
    from pcli.codec.observe.tracking.statistics.permit_statistics import permit_figures

    for record in records:
        yield consumer_subject(record) | permit_figures(record, now_ns)


def _lines(rows: Sequence[_Row], columns: Iterable[str]) -> Iterator[str | list[Any]]:
    topic = None
    for row in rows:
        if row["topic"] != topic:
            topic = row["topic"]
            yield topic or "(unknown topic)"
        shown = row if row["lowest"] != 0 else row | {"lowest_frame": "", "lowest_packet": ""}
        yield [f"  {_name(row)}", *(shown[name] for name in columns)]


def _name(row: _Row) -> str:
    """Return the subscription and the consumer's name, or the consumer id if the capture contains no SUBSCRIBE."""
    if row["subscription"]:
        return f"{row['subscription']}/{row['consumer']}"
    return f"consumer #{row['consumer_id']} of stream {row['stream']}"


def _draw(records: Sequence[ConsumerRecord], rows: Sequence[_Row], first_ns: int, last_ns: int) -> None:
    from pcli.codec.observe.output.step_chart import step_chart
    from pcli.codec.observe.text_format import printable, short_topic

    width = text_width() or _WIDTH
    drawn = [(record, row) for record, row in zip(records, rows) if record.permits.points]
    for record, row in drawn[:_MOST_DRAWN]:
        session, points = record.session, [(time_ns, balance) for time_ns, _, balance in record.permits.points]
        ended_ns = session.ended_ns if session is not None else -1
        if record.permits.known and session is not None:
            points.insert(0, (session.began_ns, 0))
        write_line("")
        write_line(f"{printable(_name(row))} on {short_topic(row['topic']) or '(unknown topic)'}: {_title(row)}")
        end_ns = ended_ns if ended_ns >= 0 else last_ns
        for line in step_chart(points, end_ns, zero_ns=first_ns, width=width):
            write_line(line)
    if len(drawn) > _MOST_DRAWN:
        say(f"charts of {_MOST_DRAWN} of {len(drawn)} consumers are shown; select one with --consumer")


def _title(row: _Row) -> str:
    every = "" if row["stride"] == 1 else f", one of every {row['stride']} changes"
    return ("permits over time" if row["balance"] is not None else "changes of permits in the capture") + every
