"""`pcli stats balances`: shows what became of the messages of each topic and subscription."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from pcli.cli.common.options import DecodeAs, Files, KeyLogFile, MoreFiles, Output, System, TextOrJson, named_files
from pcli.cli.common.output import json_text, print_json, write_line
from pcli.cli.common.reading_options import read_options
from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.capture_state import At, read_state

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.statistics.message_balance import Balance

__all__ = ["balances"]

_ALWAYS: Final = ("sent", "stored")
"""Values that the text shows even if they are 0."""


def balances(
    read: Files = None,
    more: MoreFiles = None,
    at: At = "",
    output: Output = TextOrJson.text,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    system: System = False,
) -> None:
    """Show what became of the messages: sent, stored, delivered, acknowledged, remaining.

    pcli stats balances -r capture.pcap

    pcli stats balances -r capture.pcap --at 2026-11-20T18:15:11Z -T json
    """
    from pcli.codec.observe.tracking.statistics.message_balance import balance_objects, unknown_balance
    from pcli.codec.observe.tracking.statistics.message_balance import balances as balances_of

    taken = read_state(named_files(read, more), read_options(decode_as, keylog), at)
    found = balances_of(taken.tracker.subscriptions, taken.moment(), system=system)
    if taken.unknown:
        found = [unknown_balance(one, "the capture is truncated before that time") for one in found]
    if output is TextOrJson.json:
        write_line(json_text(balance_objects(found), indent=1))
    elif output is TextOrJson.ndjson:
        print_json([{"topic": topic, **one} for topic, one in balance_objects(found).items()], output.value)
    elif found:
        _print_balances(found)
    raise typer.Exit(taken.finish("" if found else "no topic of an application"))


def _print_balances(found: Sequence[Balance]) -> None:
    """Print balances as a table, and the reasons for values that are not known."""
    from pcli.codec.observe.text_format import short_topic
    from pcli.codec.observe.tracking.statistics.message_balance import SUBSCRIPTION_VALUES

    print_tree(("", *SUBSCRIPTION_VALUES), _rows(found))
    places = ("/".join(filter(None, (short_topic(one.topic), one.subscription))) for one in found)
    print_reasons((place, {"unknown": _reasons(one)}) for place, one in zip(places, found, strict=True))


def _reasons(one: Balance) -> dict[str, str]:
    """Return the reasons of a balance by value; one reason if no value is known."""
    return {"all values": one.reasons["stored"]} if one.reasons.keys() == one.values.keys() else one.reasons


def _values(one: Balance) -> str:
    """Return the values that are not 0 as text: ``sent 20, stored 21, stored twice 1``."""
    hidden = (0,) if any(value is not None for value in one.values.values()) else (0, None)
    shown = (
        f"{name.replace('_', ' ')} {'?' if value is None else value}"
        for name, value in one.values.items()
        if value not in hidden or name in _ALWAYS
    )
    return ", ".join(shown)


def _rows(found: Sequence[Balance]) -> Iterator[str | list[Any]]:
    for one in found:
        yield [f"  {one.subscription}", *one.values.values()] if one.subscription else f"{one.topic}  {_values(one)}"
