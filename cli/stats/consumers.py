"""`pcli stats consumers`: the state of topics, subscriptions and consumers at a moment, as `topics stats` has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from pcli.cli.common.options import DecodeAs, Files, MoreFiles, Output, System, TextOrJson, decode_as_ports, named_files
from pcli.cli.common.output import json_text, say, write_line
from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.common.times import epoch_ns, moment_text
from pcli.cli.stats.capture_state import Taken, take

__all__ = ["consumers"]

_Stats = dict[str, Any]

_FIGURES: Final = ("type", "msgBacklog", "unackedMessages", "msgOutCounter", "availablePermits", "blocked")

_NO_FIGURES: Final = ("subscriptions", "consumers", "consumerName", "type", "unknown")

_BLOCKED: Final = ("blockedConsumerOnUnackedMsgs", "blockedSubscriptionOnUnackedMsgs")


def consumers(
    read: Files = None,
    more: MoreFiles = None,
    at: Annotated[
        str,
        typer.Option("--at", metavar="EPOCH", help="At this moment: seconds since 1970 or ISO 8601; else the end."),
    ] = "",
    output: Output = TextOrJson.text,
    decode_as: DecodeAs = None,
    system: System = False,
) -> None:
    """The state at a moment, in the shape of `topics stats`.

    pcli stats consumers -r capture.pcap

    pcli stats consumers -r capture.pcap --at 2026-11-20T18:15:11Z -T json
    """
    from pcli.codec.observe.tracking.statistics.topic_statistics import figures

    until_ns = epoch_ns("--at", at) if at else None
    taken = take(named_files(read, more), decode_as_ports(decode_as), until_ns)
    found = figures(taken.tracker.lives, _moment(taken, at, until_ns), system=system)
    if until_ns is not None and taken.broke_off and not taken.went_on:
        for stats in found.values():
            _forget(stats)
    if output == TextOrJson.json:
        write_line(json_text(found, indent=1))
    elif found:
        print_tree(("", *_FIGURES), _rows(found))
        print_reasons(_places(found))
    raise typer.Exit(taken.finish("" if found else "no topic of an application is seen"))


def _moment(taken: Taken, at: str, until_ns: int | None) -> int:
    """The moment of the state, which is said; LocalError when the capture begins later."""
    from pcli.codec.errors import LocalError

    first_ns, capture = taken.reading.first_ns, taken.tracker.capture
    if until_ns is not None and until_ns < first_ns:
        raise LocalError(f"--at {at}: the capture begins later, at {moment_text(first_ns)}")
    if until_ns is None or not taken.went_on:
        if until_ns is not None and capture.frames and not taken.broke_off:
            say(f"--at {at}: no frame comes later, this is the last state")
        until_ns = capture.last_ns
    if until_ns:
        say(f"state at {moment_text(until_ns)}, {(until_ns - first_ns) / 1e9:.3f} s after the first frame")
    return until_ns


def _forget(stats: _Stats) -> None:
    """Make unknown what is counted: the capture breaks off before the moment that is asked for."""
    names = [name for name in stats if name not in _NO_FIGURES]
    stats.update(dict.fromkeys(names), unknown=dict.fromkeys(names, "the capture breaks off before that moment"))
    for one in (*stats.get("subscriptions", {}).values(), *stats.get("consumers", ())):
        _forget(one)


def _rows(found: _Stats) -> Iterator[str | list[Any]]:
    for topic, stats in found.items():
        count = stats["msgInCounter"]
        yield f"{topic}  msgInCounter {'?' if count is None else count}"
        for name, subscription in stats["subscriptions"].items():
            yield [f"  {name}", *_values(subscription)]
            for one in subscription["consumers"]:
                yield [f"    {_name(one)}", *_values(one)]


def _values(stats: _Stats) -> Iterator[Any]:
    """By _FIGURES; what a consumer or a subscription has not is empty."""
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
