"""`pcli stats`: statistics of a capture, one per subcommand. A table here lists the subcommands that count frames."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pcli.cli.common.help_pages import PlainCommand
from pcli.cli.common.option_groups import CaptureFiles, ReadAs, flattened
from pcli.cli.common.options import Output, Segments, System, filter_option, option
from pcli.cli.stats import balances, consumers, keys, permits, segments

app = typer.Typer(
    no_args_is_help=True,
    help="Show statistics of a capture: rates, connections, latencies, topics, segments, consumers, balances, permits, "
    "keys.",
)


Interval = Annotated[float, option("-I --interval SECONDS", "Time interval of each row.", min=1e-6)]
CountFilter = Annotated[str, filter_option("Count only frames that match, for example pulsar.type == 'SEND'.")]


def _statistic(name: str, interval: float, *, segments: bool) -> Any:
    from pcli.codec.observe import statistics

    if name == "io":
        return statistics.Rates(interval)
    if name == "topics":
        return statistics.Topics(segments=segments)
    if name == "latency":
        return statistics.Latencies(segments=segments)
    classes = {
        "conv": statistics.Connections,
        "types": statistics.Types,
    }
    return classes[name]()


_SIDES = {"client_frames": "→ frames", "broker_frames": "← frames"}
_SIDES |= {"client_bytes": "→ bytes", "broker_bytes": "← bytes"}
_MESSAGES = {"published": "published", "delivered": "delivered"}

# name, help, columns of the table and their titles
_STATISTICS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "io",
        "Show rates over time: frames, bytes and messages in each direction.",
        {"from": "from s", "to": "to s", **_SIDES, **_MESSAGES},
    ),
    (
        "conv",
        "Show connections: addresses, duration, frames and bytes.",
        {"stream": "stream", "client": "client", "server": "server", "version": "client version"}
        | {"duration": "seconds", **_SIDES, **_MESSAGES},
    ),
    (
        "types",
        "Show the number of frames of each command type and direction.",
        {"from": "from", "type": "type", "frames": "frames", "share": "of its side", "bytes": "bytes"},
    ),
    (
        "latency",
        "Show response times by type of request and scalable topic, with percentiles.",
        {
            "type": "request",
            "topic": "scalable topic",
            "answered": "answered",
            "errors": "errors",
            "unanswered": "unanswered",
        }
        | {name: name for name in ("min", "p50", "p90", "p99", "max")},
    ),
    (
        "topics",
        "Show topics: producers, subscriptions, consumers, messages in and out.",
        {name: name for name in ("topic", "producers", "subscriptions", "consumers")}
        | {**_MESSAGES, "redelivered": "redelivered", "acks": "acks", "permits": "permits"},
    ),
)


def _add(name: str, text: str, titles: dict[str, str]) -> None:
    def command(
        captures: CaptureFiles,
        *,
        filter_: CountFilter = "",
        interval: Interval = 1.0,
        segments: Segments = False,
        output: Output = "text",
        read_as: ReadAs,
        system: System = False,
    ) -> None:
        from pcli.cli.common.capture_reading import CaptureReading
        from pcli.cli.common.text_tables import print_rows

        files = captures.names
        reading = CaptureReading(files=files, filter=filter_, options=read_as.options(), system=system)
        statistic = _statistic(name, interval, segments=segments)
        if name == "topics":
            tracker = statistic.tracker
            reading.on_frame, reading.on_end, reading.on_note = statistic.see, tracker.ended, tracker.note
            reading.connections = tracker.connections
        for facts in reading.facts():
            if name == "conv" or not reading.repeats:
                statistic.add(facts)
        rows = statistic.rows(reading.unanswered())
        print_rows(rows, output, {key: title for key, title in titles.items() if key != "topic" or _named(rows)})
        raise typer.Exit(reading.finish())

    owners = {"interval": ("io",), "segments": ("topics", "latency")}
    omitted = [option for option, names in owners.items() if name not in names]
    app.command(name, help=text, cls=PlainCommand)(flattened(command, omitted))


def _named(rows: list[dict[str, Any]]) -> bool:
    """Return whether a row has a topic: most captures contain no scalable topic."""
    return not rows or any(row["topic"] for row in rows)


for _row in _STATISTICS:
    _add(*_row)
for _view in (consumers.VIEW, balances.VIEW, permits.VIEW, keys.VIEW, segments.VIEW):
    app.command(_view.name, help=_view.help, cls=PlainCommand)(_view.command())
