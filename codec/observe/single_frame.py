"""A frame without a capture around it, observed all the same: what `decode` prints."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.observer_state import Facts, Opener, open_frame
from pcli.codec.observe.output.frame_json import flatten
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

__all__ = ["LooseFrame", "flatten_loose", "loose_facts"]


class _Nowhere:
    """The connection of a frame that has none."""

    number = -1
    client = ("", 0)
    server = ("", 0)


_NOWHERE: Final = _Nowhere()


class LooseFrame(Frame):
    """A frame that was handed over by itself; ``number`` is its place among those handed over together."""

    __slots__ = ("from_client", "number")

    packet = 0
    time_ns = 0
    stream = _NOWHERE
    sync = "start"
    capture_problems: tuple[Problem, ...] = ()

    def __init__(self, frame: Frame, number: int, *, from_client: bool) -> None:
        super().__init__(frame.data, frame.type)
        self.number = number
        self.from_client = from_client


def loose_facts(frame: Frame, number: int, opener: Opener = open_frame, *, from_client: bool) -> Facts:
    """Facts of a frame by itself: no names, no answers. ``opener`` opens its payload."""
    return Facts(LooseFrame(frame, number, from_client=from_client), opener)


def flatten_loose(facts: Facts, *, secrets: bool = False, payload: bool = False) -> dict[str, Any]:
    """The object of `flatten` without what only a capture knows: packets, addresses, times."""
    flat = flatten(facts, secrets=secrets, payload=payload)
    return {name: value for name, value in flat.items() if name.startswith("pulsar.") and name != "pulsar.sync"}
