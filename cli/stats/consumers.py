"""`pcli stats consumers`: shows topics, subscriptions and consumers at a given time, as in `topics stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer

from pcli.cli.common.options import DecodeAs, Files, KeyLogFile, MoreFiles, Output, System, TextOrJson, named_files
from pcli.cli.common.output import json_text, print_json, write_line
from pcli.cli.common.reading_options import read_options
from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.capture_state import At, read_state

__all__ = ["consumers"]

_Stats = dict[str, Any]

_FIGURES: Final = ("type", "msgBacklog", "unackedMessages", "msgOutCounter", "availablePermits", "blocked")

_NO_FIGURES: Final = ("subscriptions", "consumers", "consumerName", "type", "unknown")

_BLOCKED: Final = ("blockedConsumerOnUnackedMsgs", "blockedSubscriptionOnUnackedMsgs")


def consumers(
    read: Files = None,
    more: MoreFiles = None,
    at: At = "",
    output: Output = TextOrJson.text,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    system: System = False,
) -> None:
    """Show topics, subscriptions and consumers at a given time, with the field names of `topics stats`.

    pcli stats consumers -r capture.pcap

    pcli stats consumers -r capture.pcap --at 2026-11-20T18:15:11Z -T json
    """
    from pcli.codec.observe.tracking.statistics.broker_statistics import figures

    taken = read_state(named_files(read, more), read_options(decode_as, keylog), at)
    found = figures(taken.tracker.subscriptions, taken.moment(), system=system)
    if taken.unknown:
        for stats in found.values():
            _mark_unknown(stats)
    if output is TextOrJson.json:
        write_line(json_text(found, indent=1))
    elif output is TextOrJson.ndjson:
        print_json([{"topic": topic, **stats} for topic, stats in found.items()], output.value)
    elif found:
        print_tree(("", *_FIGURES), _rows(found))
        print_reasons(_places(found))
    raise typer.Exit(taken.finish("" if found else "no topic of an application"))


def _mark_unknown(stats: _Stats) -> None:
    """Replace all counts with None, because the capture ends within a frame or connection before the given time."""
    names = [name for name in stats if name not in _NO_FIGURES]
    stats.update(
        dict.fromkeys(names),
        unknown=dict.fromkeys(names, "the capture is truncated before that time"),
    )
    for one in (*stats.get("subscriptions", {}).values(), *stats.get("consumers", ())):
        _mark_unknown(one)


def _rows(found: _Stats) -> Iterator[str | list[Any]]:
    for topic, stats in found.items():
        count = stats["msgInCounter"]
        yield f"{topic}  msgInCounter {'?' if count is None else count}"
        for name, subscription in stats["subscriptions"].items():
            yield [f"  {name}", *_values(subscription)]
            for one in subscription["consumers"]:
                yield [f"    {_name(one)}", *_values(one)]


def _values(stats: _Stats) -> Iterator[Any]:
    """Return the values of _FIGURES. Figures that do not exist for a consumer or a subscription are empty."""
    for name in _FIGURES[:-1]:
        yield stats.get(name, "")
    yield next(stats[name] for name in _BLOCKED if name in stats)


def _name(consumer: _Stats) -> str:
    return str(consumer["consumerName"] or "(no name)")


def _places(found: _Stats) -> Iterator[tuple[str, _Stats]]:
    from pcli.codec.observe.text_format import short_topic

    for topic, stats in found.items():
        place = short_topic(topic)
        yield place, stats
        for name, subscription in stats["subscriptions"].items():
            yield f"{place}/{name}", subscription
            for one in subscription["consumers"]:
                yield f"{place}/{name}/{_name(one)}", one
