"""`pcli stats permits`: what FLOWs gave to consumers and what messages took, as a table and drawn over time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pcli.cli.common.options import DecodeAs, Files, MoreFiles, Output, System, TextOrJson, decode_as_ports, named_files
from pcli.cli.common.output import json_text, say, write_line
from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.capture_state import take

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
    from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
    from pcli.codec.observe.tracking.tracker import Tracker

__all__ = ["permits"]

_Row = dict[str, Any]

_COLUMNS: Final = {
    "queue": "queue", "flowed": "flowed", "delivered": "delivered", "balance": "balance", "parked": "parked",
    "lowest": "lowest", "lowest_frame": "frame", "overshoot": "overshoot", "exhausted": "exhausted",
    "exhausted_seconds": "seconds", "doubled": "doubled", "corrupt": "corrupt",
}  # fmt: skip
"""Figures to their titles."""

_MOST_DRAWN: Final = 20
"""Consumers that are drawn: more are more than anybody looks at."""

_WIDTH: Final = 80
"""Columns where nobody looks at a terminal."""


def permits(
    read: Files = None,
    more: MoreFiles = None,
    consumer: Annotated[str, typer.Option("--consumer", metavar="NAME", help="Only consumers of this name.")] = "",
    output: Output = TextOrJson.text,
    decode_as: DecodeAs = None,
    system: System = False,
) -> None:
    """What FLOWs gave to each consumer and messages took, over time.

    pcli stats permits -r capture.pcap

    pcli stats permits -r capture.pcap --consumer worker-1 -T json
    """
    taken = take(named_files(read, more), decode_as_ports(decode_as))
    records = [one for one in _consumers(taken.tracker, system=system) if consumer in ("", one.name)]
    rows = list(_figures(records, taken.tracker.capture.last_ns))
    if output == TextOrJson.json:
        write_line(json_text(rows, indent=1))
    elif rows:
        print_tree(("", *_COLUMNS.values()), _lines(rows))
        print_reasons((_name(row), row) for row in rows)
        _draw(records, rows, taken.tracker.capture)
    nothing = f"--consumer {consumer}: no consumer of that name is seen" if consumer else "no consumer is seen"
    raise typer.Exit(taken.finish("" if rows else nothing))


def _consumers(tracker: Tracker, *, system: bool) -> Iterator[ConsumerRecord]:
    for group, record in tracker.lives.records():
        if group == "consumer" and (system or not record.system):
            yield record


def _figures(records: Sequence[ConsumerRecord], now_ns: int) -> Iterator[_Row]:
    from pcli.codec.observe.rules.finding_text import consumer_subject
    from pcli.codec.observe.tracking.statistics.permit_statistics import permit_figures

    for record in records:
        yield consumer_subject(record) | permit_figures(record, now_ns)


def _lines(rows: Sequence[_Row]) -> Iterator[str | list[Any]]:
    topic = None
    for row in rows:
        if row["topic"] != topic:
            topic = row["topic"]
            yield topic or "(topic not seen)"
        frame = "" if row["lowest"] == 0 else row["lowest_frame"]
        yield [f"  {_name(row)}", *((row | {"lowest_frame": frame})[name] for name in _COLUMNS)]


def _name(row: _Row) -> str:
    """Without a SUBSCRIBE there is only its number."""
    if row["subscription"]:
        return f"{row['subscription']}/{row['consumer']}"
    return f"consumer #{row['consumer_id']} of stream {row['stream']}"


def _draw(records: Sequence[ConsumerRecord], rows: Sequence[_Row], capture: CaptureRecord) -> None:
    from pcli.codec.observe.output.step_chart import step_chart
    from pcli.codec.observe.text_format import printable, short_topic

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    drawn = [(record, row) for record, row in zip(records, rows) if record.permits.points]
    for record, row in drawn[:_MOST_DRAWN]:
        session, points = record.session, [(time_ns, balance) for time_ns, _, balance in record.permits.points]
        ended_ns = session.ended_ns if session is not None else -1
        if record.permits.known and session is not None:
            points.insert(0, (session.began_ns, 0))
        write_line("")
        write_line(f"{printable(_name(row))} on {short_topic(row['topic']) or '(topic not seen)'}: {_title(row)}")
        end_ns = ended_ns if ended_ns >= 0 else capture.last_ns
        for line in step_chart(points, end_ns, zero_ns=capture.first_ns, width=width):
            write_line(line)
    if len(drawn) > _MOST_DRAWN:
        say(f"{_MOST_DRAWN} of {len(drawn)} consumers are drawn: ask for one with --consumer")


def _title(row: _Row) -> str:
    every = "" if row["stride"] == 1 else f", every {row['stride']}th change"
    return ("permits over time" if row["balance"] is not None else "how permits have changed, as far as seen") + every
