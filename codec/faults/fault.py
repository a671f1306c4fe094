"""One fault: a filter, an action, the match at which it starts, and how often it acts.

Rules of this file
1. At most one fault acts on a frame: the first fault, in the given order, that matches and is not used up.
2. Every match counts, including matches skipped by ``after``. If a fault cannot act on a frame (``error`` on a command
   without a response), the frame is not a match.
3. The constructor reports every error in a fault's definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.faults.answers import error_answer, error_code
from pcli.codec.observe.filters.filter import compile_filter
from pcli.codec.observe.observer_state import Facts
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.near import near

ACTIONS: Final[dict[str, str]] = {
    "drop": "the frame never arrives",
    "delay": "the frame and all later frames in its direction arrive later, by the number of milliseconds in `ms`",
    "duplicate": "the frame arrives twice",
    "reorder": "the frame arrives after the next frame of its direction; it is lost if there is none",
    "corrupt": "one bit of the payload is inverted, or one bit of the command if the frame has no payload",
    "error": "a client's request is refused with the error; the broker does not receive the request",
    "close": "the connection is closed, and the frame is lost",
}
"""The actions of a fault, with a description of each."""

_ERROR: Final = "UnknownError"


class Fault:
    """One fault, with counts of its matches and actions."""

    __slots__ = (
        "_match",
        "after",
        "do",
        "error",
        "error_text",
        "fired",
        "is_script",
        "ms",
        "on",
        "replacement",
        "seen",
        "times",
    )

    def __init__(
        self, on: str = "", do: str = "drop", *, after: int = 0, times: int | None = None, ms: int = 0, error: str = ""
    ) -> None:
        """Raise LocalError for invalid arguments. The attributes below describe the arguments.

        ``error`` is the name of a ServerError, or name and text: ``ServiceNotReady: later``.
        """
        if do not in ACTIONS:
            raise LocalError(f"{do!r} is not an action of a fault: write {', '.join(ACTIONS)}{near(do, ACTIONS)}")
        if after < 0 or (times is not None and times < 1):
            raise LocalError("after must be 0 or more, and times must be 1 or more")
        if (do == "delay") != (ms > 0):
            raise LocalError("do=delay requires ms above 0, and ms requires do=delay")
        if error and do != "error":
            raise LocalError("error requires do=error")
        name, _, text = error.partition(":")
        self.error = error_code(name.strip() or _ERROR)
        """Number of the ServerError in the response."""
        self.error_text = text.strip() or "refused by a fault"
        self.on = on
        """The filter; empty for every frame."""
        self.do = do
        """The action, a key of ACTIONS."""
        self.after = after
        """Number of matches to skip before the first action."""
        self.times = times
        """Maximum number of actions; None for no limit."""
        self.ms = ms
        """Delay in milliseconds."""
        self.replacement = b""
        """The frame that is forwarded instead, if an addon has replaced the command (``do`` is replace)."""
        self.is_script = False
        """Whether an addon chooses the action."""
        self.seen = 0
        """Number of frames that matched so far."""
        self.fired = 0
        """Number of actions so far."""
        self._match = compile_filter(on).match if on else None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse ``drop after=2 times=1 on pulsar.type == 'FLOW'``. Raise LocalError if the text is invalid."""
        words, on = _words(text)
        if not words or not on:
            raise LocalError(
                "a fault: write ACTION [after=N] [times=N] [ms=N] [error=NAME] on FILTER (all frames: on pulsar.type)"
            )
        values: dict[str, str] = {}
        for word in words[1:]:
            name, sign, value = word.partition("=")
            if not sign or name not in ("after", "times", "ms", "error"):
                raise LocalError(f"fault {text!r}: {word!r} is not one of after=N, times=N, ms=N, error=NAME")
            values[name] = value.strip("'\"")
        numbers = {name: _number(text, name, values[name]) for name in ("after", "times", "ms") if name in values}
        return cls(on, words[0], error=values.get("error", ""), **numbers)

    @property
    def spent(self) -> bool:
        """Whether the fault has reached its maximum number of actions."""
        return self.times is not None and self.fired >= self.times

    def admit(self, facts: Facts) -> bool:
        """Return whether the fault acts on this frame. Count the match and the action."""
        if self._match is not None and not self._match(facts):
            return False
        if self.do == "error" and self.answer(facts) is None:
            return False
        self.seen += 1
        if self.seen <= self.after or self.spent:
            return False
        self.fired += 1
        return True

    def answer(self, facts: Facts) -> bytes | None:
        """Return the frame that refuses the request, or None if the frame is not a request with a response."""
        frame = facts.frame
        if not frame.from_client:
            return None
        return error_answer(Frame(frame.data, frame.type), self.error, self.error_text)

    def __repr__(self) -> str:
        times = "" if self.times is None else f" of {self.times}"
        return f"Fault({self.do} on {self.on or 'every frame'}; {self.seen} seen, fired {self.fired}{times})"


class Faults:
    """All faults of a broker or a proxy, in the order in which they are checked."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def add(self, fault: Fault) -> Fault:
        """Add a fault at the end and return it."""
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove a fault. This has no effect if it was already removed."""
        if fault in self._faults:
            self._faults.remove(fault)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def pick(self, facts: Facts) -> Fault | None:
        """Return the fault that acts on this frame, or None. Matches are counted."""
        for fault in self._faults:
            if fault.admit(facts):
                return fault
        return None


def _words(text: str) -> tuple[list[str], str]:
    """Split the text into the words before ``on``, with quoted spaces preserved, and the filter after it."""
    words: list[str] = []
    for match in re.finditer(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+", text):
        if match[0] == "on":
            return words, text[match.end() :].strip()
        words.append(match[0])
    return words, ""


def _number(text: str, name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value, re.ASCII):
        raise LocalError(f"fault {text!r}: {name}={value} is not an integer")
    return int(value)
