"""`pcli stats keys`: shows owners of hash slots of Key_Shared subscriptions, moved keys, and violations of order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import counted, say, write_line
from pcli.cli.common.text_tables import print_tree
from pcli.cli.stats.state_view import StateView

if TYPE_CHECKING:
    from pcli.cli.stats.capture_state import CaptureState

_Row = dict[str, Any]

_OWNERS: Final = ("consumer", "attached", "slots", "slots seen", "keys seen")

_KEYS: Final = {"key": "key", "slot": "slot", "owners": "given to", "held": "held", "moved": "moved"} | {
    "open_at_two": "at two", "backwards": "backwards",
}  # fmt: skip
"""Fields of a key, with their titles."""

_MOST_KEYS: Final = 100
"""Maximum number of keys per subscription in the text output."""


def _find(state: CaptureState, until_ns: int, name: str, system: bool) -> list[_Row]:
    from pcli.codec.observe.tracking.statistics.key_statistics import key_figures

    rows = key_figures(state.tracker.subscriptions, until_ns, system=system)
    rows = [row | {"owners": owned_ranges(row)} for row in rows if name in ("", row["subscription"])]
    if state.packets is None:
        return rows
    return [_with_packets(row, state.packets.packet_of) for row in rows]


def _show(rows: list[_Row], state: CaptureState, until_ns: int) -> None:
    for number, row in enumerate(rows):
        if number:
            write_line("")
        _print(row, state.packets.label if state.packets is not None else str)


def _with_packets(row: _Row, packet_of: Callable[[int], int]) -> _Row:
    """Return the row with the packet numbers of its frames."""
    return row | {
        "order_broken_packets": [packet_of(frame) for frame in row["order_broken_frames"]],
        "waits": row["waits"] | {"longest_packets": [packet_of(frame) for frame in row["waits"]["longest_frames"]]},
    }


def _print(row: _Row, label: Callable[[str], str]) -> None:
    """Print the tables of a subscription. ``label`` adds packet numbers to the frame numbers in a string."""
    from pcli.codec.observe.text_format import printable

    write_line(printable(f"{row['topic']}  {row['subscription']}  {_mode(row)}"))
    print_tree(_OWNERS, (_owner(one) for one in row["consumers"]))
    if row["owners"]:
        write_line("")
        print_tree(("key range", "owner", "keys seen"), (_range(one) for one in row["owners"]))
    notable = [key for key in row["keys"] or () if key["moved"] or key["open_at_two"] or key["backwards"]]
    if notable:
        write_line("")
        print_tree(tuple(_KEYS.values()), (_key(key) for key in notable[:_MOST_KEYS]))
    if len(notable) > _MOST_KEYS:
        say(f"the table shows {_MOST_KEYS} of {len(notable)} keys that moved or were out of order; -T json shows all")
    for line in _words(row):
        write_line(printable(label(line)))


def _mode(row: _Row) -> str:
    words = f"Key_Shared {row['keySharedMode']}".rstrip()
    return f"{words}, out-of-order delivery allowed" if row["allowOutOfOrderDelivery"] else words


def _owner(one: _Row) -> list[Any]:
    declared = ", ".join(f"{low}-{high}" for low, high in one["keyHashRanges"] or ())
    name = one["consumer"] or "(no name)"
    return [name, one["attached"], declared, len(one["slots_seen"]), one["keys_seen"]]


def owned_ranges(row: _Row) -> list[_Row]:
    """Return the key ranges of the consumers that are attached at the given time, in order of their slots.

    A STICKY consumer owns the ranges that it has requested. In AUTO_SPLIT, neighbouring slots with keys of the same
    owner form one range; the capture does not contain the slots between them.
    """
    attached = [one for one in row["consumers"] if one["attached"]]
    slots = sorted(key["slot"] for key in row["keys"] or ())
    if row["keySharedMode"] == "STICKY":
        owned = [(low, high, one["consumer"]) for one in attached for low, high in one["keyHashRanges"] or ()]
    else:
        owned = []
        for slot, owner in sorted((slot, one["consumer"]) for one in attached for slot in one["slots_seen"]):
            if owned and owned[-1][2] == owner:
                owned[-1] = (owned[-1][0], slot, owner)
            else:
                owned.append((slot, slot, owner))
    return [
        {"first": low, "last": high, "consumer": owner, "keys_seen": sum(low <= slot <= high for slot in slots)}
        for low, high, owner in sorted(owned)
    ]


def _range(one: _Row) -> list[Any]:
    return [f"{one['first']}-{one['last']}", one["consumer"] or "(no name)", one["keys_seen"]]


def _key(key: _Row) -> list[Any]:
    return [(key | {"owners": " → ".join(key["owners"])})[name] for name in _KEYS]


def _words(row: _Row) -> Iterator[str]:
    """Yield the lines that are printed below the tables."""
    waits, broken, known = row["waits"], row["order_broken"], row["keys"]
    if known is not None:
        moved = sum(1 for key in known if key["moved"])
        yield f"{counted(len(known), 'key')} seen, {moved} moved to another consumer"
    if row["mixed_batches"]:
        split = f"; {counted(row['split_keys'], 'delivery', 'deliveries')} of split keys" if row["split_keys"] else ""
        yield f"{row['mixed_batches']} of {counted(row['batches'], 'batch', 'batches')} with several keys{split}"
    if broken:
        frames = ", ".join(map(str, row["order_broken_frames"]))
        yield f"order broken for {counted(broken, 'message')}, first in frames {frames}"
    if waits["count"]:
        now = "; one wait continues" if waits["waiting"] else ""
        held = f"{counted(waits['count'], 'wait')} for a key that another consumer held"
        yield f"{held}, {waits['seconds']:.3f} s in total{now}"
        frames = f" (frames {', '.join(map(str, waits['longest_frames']))})" if waits["longest_frames"] else ""
        yield f"longest {waits['longest_seconds']:.3f} s: {waits['holder']}{frames}"
    for name, reason in row.get("unknown", {}).items():
        yield f"? {name}: {reason}"
    for doubt in row["doubts"]:
        yield f"evidence incomplete: {doubt}"


VIEW: Final = StateView(
    "keys",
    "Show Key_Shared subscriptions: owners of key ranges, keys that moved or were delivered out of order.",
    _find,
    _show,
    noun="Key_Shared subscription",
    option="--subscription",
    example="work",
)
