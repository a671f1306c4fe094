"""One fault: which frames, what happens to them, from which match on and how often.

Rules of this file
1. A frame has at most one fault: the first, in the order in which they were given, that matches and still acts.
2. Every match counts, also those that ``after`` lets pass. A fault that can do nothing with a frame (``error`` on one
   that has no answer) has not matched.
3. Whatever is wrong with a fault is said when it is made.
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

__all__ = ["ACTIONS", "Fault", "Faults"]

ACTIONS: Final[dict[str, str]] = {
    "drop": "the frame never arrives",
    "delay": "the frame and all later frames in its direction arrive ms milliseconds later",
    "duplicate": "the frame arrives twice",
    "corrupt": "the frame arrives with one inverted bit, in the payload if it has one, otherwise in the command",
    "error": "a client's request is refused with the error; the broker does not receive it",
    "close": "the connection is closed, and the frame is lost",
}
"""What a fault can do."""

_ERROR: Final = "UnknownError"


class Fault:
    """One fault and what it has done so far."""

    __slots__ = ("_match", "after", "do", "error", "error_text", "fired", "ms", "on", "seen", "times")

    def __init__(
        self, on: str = "", do: str = "drop", *, after: int = 0, times: int | None = None, ms: int = 0, error: str = ""
    ) -> None:
        """LocalError for what makes no sense. The arguments are the attributes below.

        ``error`` is the name of a ServerError, or name and text: ``ServiceNotReady: later``.
        """
        if do not in ACTIONS:
            raise LocalError(f"a fault can't {do!r}; it can {', '.join(ACTIONS)}{near(do, ACTIONS)}")
        if after < 0 or (times is not None and times < 1):
            raise LocalError("after must be 0 or more, times must be 1 or more")
        if (do == "delay") != (ms > 0):
            raise LocalError("do=delay requires ms above 0, and ms requires do=delay")
        if error and do != "error":
            raise LocalError("error requires do=error")
        name, _, text = error.partition(":")
        self.error = error_code(name.strip() or _ERROR)
        """Number of the ServerError that a request is refused with."""
        self.error_text = text.strip() or "refused by a fault"
        self.on = on
        """The filter; empty: every frame."""
        self.do = do
        """One of ACTIONS."""
        self.after = after
        """How many matches pass before it acts."""
        self.times = times
        """How often it acts; None: always."""
        self.ms = ms
        """Milliseconds of a delay."""
        self.seen = 0
        """Frames that matched so far."""
        self.fired = 0
        """How often it has acted."""
        self._match = compile_filter(on).match if on else None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From words: ``drop after=2 times=1 on pulsar.type == 'FLOW'``; LocalError for anything else."""
        words, on = _words(text)
        if not words or not on:
            raise LocalError(
                "a fault: write ACTION [after=N] [times=N] [ms=N] [error=NAME] on FILTER (all frames: on pulsar.type)"
            )
        values: dict[str, str] = {}
        for word in words[1:]:
            name, sign, value = word.partition("=")
            if not sign or name not in ("after", "times", "ms", "error"):
                raise LocalError(f"fault {text!r}: {word!r} is none of after=N, times=N, ms=N, error=NAME")
            values[name] = value.strip("'\"")
        numbers = {name: _number(text, name, values[name]) for name in ("after", "times", "ms") if name in values}
        return cls(on, words[0], error=values.get("error", ""), **numbers)

    @property
    def spent(self) -> bool:
        """Whether it will never act again."""
        return self.times is not None and self.fired >= self.times

    def admit(self, facts: Facts) -> bool:
        """Whether it acts on this frame; counts the match, and the act."""
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
        """The frame that refuses the request; None: it is none that a client gets an answer to."""
        frame = facts.frame
        if not frame.from_client:
            return None
        return error_answer(Frame(frame.data, frame.type), self.error, self.error_text)

    def __repr__(self) -> str:
        times = "" if self.times is None else f" of {self.times}"
        return f"Fault({self.do} on {self.on or 'every frame'}; {self.seen} seen, fired {self.fired}{times})"


class Faults:
    """All faults of a broker or a proxy, in the order in which they are asked."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def add(self, fault: Fault) -> Fault:
        """One more."""
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """One less; harmless when it is gone already."""
        if fault in self._faults:
            self._faults.remove(fault)

    def clear(self) -> None:
        """None any more."""
        self._faults.clear()

    def pick(self, facts: Facts) -> Fault | None:
        """The fault that befalls this frame."""
        for fault in self._faults:
            if fault.admit(facts):
                return fault
        return None


def _words(text: str) -> tuple[list[str], str]:
    """The words before ``on``, blanks in quotes kept, and the filter behind it."""
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
