"""Facts about a single frame without a capture, which `decode` prints."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.observer_state import Facts, Opener, open_frame
from pcli.codec.observe.output.frame_json import flatten
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem


class _Nowhere:
    """The connection of a frame without a capture."""

    number = -1
    client = ("", 0)
    server = ("", 0)


_NOWHERE: Final = _Nowhere()


class LooseFrame(Frame):
    """A frame without a capture; ``number`` is its position in the input."""

    __slots__ = ("from_client", "number")

    packet = 0
    offset = 0
    time_ns = 0
    stream = _NOWHERE
    sync = "start"
    capture_problems: tuple[Problem, ...] = ()

    def __init__(self, frame: Frame, number: int, *, from_client: bool) -> None:
        super().__init__(frame.data, frame.type)
        self.number = number
        self.from_client = from_client


def loose_facts(frame: Frame, number: int, opener: Opener = open_frame, *, from_client: bool) -> Facts:
    """Return the facts about a frame without a capture. They lack names and responses. ``opener`` opens the payload."""
    return Facts(LooseFrame(frame, number, from_client=from_client), opener)


def flatten_loose(facts: Facts, *, secrets: bool = False, payload: bool = False) -> dict[str, Any]:
    """Return the object of `flatten` without the fields that require a capture: packets, addresses, times."""
    flat = flatten(facts, secrets=secrets, payload=payload)
    return {name: value for name, value in flat.items() if name.startswith("pulsar.") and name != "pulsar.sync"}
