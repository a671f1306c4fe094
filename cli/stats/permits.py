"""`pcli stats permits`: shows permits granted by FLOWs and used by messages, in a table and in charts over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import say, text_width, write_line
from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.state_view import StateView

if TYPE_CHECKING:
    from pcli.cli.stats.capture_state import CaptureState
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

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


def _find(state: CaptureState, until_ns: int, name: str, system: bool) -> list[tuple[ConsumerRecord, _Row]]:
    from pcli.codec.observe.rules.finding_text import consumer_subject
    from pcli.codec.observe.tracking.statistics.permit_statistics import permit_figures

    found = []
    for group, record in state.tracker.subscriptions.records():
        if group == "consumer" and (system or not record.system) and name in ("", record.name):
            row = consumer_subject(record) | permit_figures(record, until_ns)
            if state.packets is not None:
                row["lowest_packet"] = row["lowest_frame"] and state.packets.packet_of(row["lowest_frame"])
            found.append((record, row))
    return found


def _show(found: Sequence[tuple[ConsumerRecord, _Row]], state: CaptureState, until_ns: int) -> None:
    rows = [row for _, row in found]
    columns = {name: title for name, title in _COLUMNS.items() if state.packets is not None or name != "lowest_packet"}
    print_tree(("", *columns.values()), _lines(rows, columns))
    print_reasons((_name(row), row) for row in rows)
    _draw(found, state.tracker.capture.first_ns, until_ns)


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


def _draw(found: Sequence[tuple[ConsumerRecord, _Row]], first_ns: int, last_ns: int) -> None:
    from pcli.codec.observe.output.step_chart import step_chart
    from pcli.codec.observe.text_format import printable, short_topic

    width = text_width() or _WIDTH
    drawn = [(record, row) for record, row in found if record.permits.points]
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


VIEW: Final = StateView(
    "permits",
    "Show the permits of each consumer over time: granted by FLOWs, used by messages.",
    _find,
    _show,
    noun="consumer",
    objects=lambda found: [row for _, row in found],
    option="--consumer",
    example="worker-1",
)
