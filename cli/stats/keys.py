"""`pcli stats keys`: who owns which slots of a Key_Shared subscription, which keys moved, whose order was broken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from pcli.cli.common.options import DecodeAs, Files, MoreFiles, Output, System, TextOrJson, decode_as_ports, named_files
from pcli.cli.common.output import json_text, say, write_line
from pcli.cli.common.text_tables import print_tree
from pcli.cli.stats.capture_state import take

__all__ = ["keys"]

_Row = dict[str, Any]

_OWNERS: Final = ("consumer", "attached", "slots", "slots seen", "keys seen")

_KEYS: Final = {"key": "key", "slot": "slot", "owners": "given to", "held": "held", "moved": "moved"} | {
    "open_at_two": "at two", "backwards": "backwards",
}  # fmt: skip
"""What is shown of a key, with the titles."""

_MOST_KEYS: Final = 100
"""Keys of a subscription that are printed as text."""


def keys(
    read: Files = None,
    more: MoreFiles = None,
    subscription: Annotated[
        str, typer.Option("--subscription", metavar="NAME", help="Only subscriptions of this name.")
    ] = "",
    output: Output = TextOrJson.text,
    decode_as: DecodeAs = None,
    system: System = False,
) -> None:
    """Key_Shared: owners of slots, keys that moved or lost their order.

    pcli stats keys -r capture.pcap

    pcli stats keys -r capture.pcap --subscription work -T json
    """
    from pcli.codec.observe.tracking.statistics.key_statistics import key_figures

    taken = take(named_files(read, more), decode_as_ports(decode_as))
    rows = key_figures(taken.tracker.lives, taken.tracker.capture.last_ns, system=system)
    rows = [row for row in rows if subscription in ("", row["subscription"])]
    if output == TextOrJson.json:
        write_line(json_text(rows, indent=1))
    else:
        for number, row in enumerate(rows):
            if number:
                write_line("")
            _print(row)
    of_name = f"--subscription {subscription}: no Key_Shared subscription of that name is seen"
    nothing = of_name if subscription else "no Key_Shared subscription is seen"
    raise typer.Exit(taken.finish("" if rows else nothing))


def _print(row: _Row) -> None:
    from pcli.codec.observe.text_format import printable

    write_line(printable(f"{row['topic']}  {row['subscription']}  {_mode(row)}"))
    print_tree(_OWNERS, (_owner(one) for one in row["consumers"]))
    telling = [key for key in row["keys"] or () if key["moved"] or key["open_at_two"] or key["backwards"]]
    if telling:
        write_line("")
        print_tree(tuple(_KEYS.values()), (_key(key) for key in telling[:_MOST_KEYS]))
    if len(telling) > _MOST_KEYS:
        say(f"{_MOST_KEYS} of {len(telling)} keys that moved or came out of order are shown: -T json has all")
    for line in _words(row):
        write_line(printable(line))


def _mode(row: _Row) -> str:
    words = f"Key_Shared {row['keySharedMode']}".rstrip()
    return f"{words}, out of order allowed" if row["allowOutOfOrderDelivery"] else words


def _owner(one: _Row) -> list[Any]:
    declared = ", ".join(f"{low}-{high}" for low, high in one["keyHashRanges"] or ())
    name = one["consumer"] or "(no name)"
    return [name, one["attached"], declared, len(one["slots_seen"]), one["keys_seen"]]


def _key(key: _Row) -> list[Any]:
    return [(key | {"owners": " → ".join(key["owners"])})[name] for name in _KEYS]


def _words(row: _Row) -> Iterator[str]:
    """What a table has no place for."""
    waits, broken, known = row["waits"], row["order_broken"], row["keys"]
    if known is not None:
        moved = sum(1 for key in known if key["moved"])
        yield f"{len(known)} keys seen, {moved} moved to another consumer"
    if broken:
        frames = ", ".join(map(str, row["order_broken_frames"]))
        yield f"order broken {broken} times, first in frames {frames}"
    if waits["count"]:
        now = "; one waits now" if waits["waiting"] else ""
        yield f"{waits['count']} waits for a key that another consumer held, {waits['seconds']:.3f} s in all{now}"
        frames = f" (frames {', '.join(map(str, waits['longest_frames']))})" if waits["longest_frames"] else ""
        yield f"longest {waits['longest_seconds']:.3f} s: {waits['holder']}{frames}"
    for name, reason in row.get("unknown", {}).items():
        yield f"? {name}: {reason}"
    for doubt in row["doubts"]:
        yield f"evidence incomplete: {doubt}"
