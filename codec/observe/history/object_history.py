"""The common part of all histories, and phrases that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pcli.codec.observe.history.event_log import Event, EventLog, Log
from pcli.codec.observe.history.period_reader import Period
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import at, error_message, span
from pcli.codec.observe.tracking.records.client_records import Session
from pcli.codec.observe.tracking.records.connection_records import ENDS

LONG_NS: int = 1_000_000_000
"""Minimum duration in ns of a wait that is reported."""


@dataclass(slots=True)
class State:
    """The state of an object at the end of its history."""

    text: str
    figures: dict[str, Any] = field(default_factory=dict)
    """The values in the text, by name; None if unknown."""


class ObjectHistory:
    """The history of one object. A subclass exists for each kind."""

    kind: ClassVar[str]

    def __init__(self, log: Log) -> None:
        self.log = log

    def events(self, most: int, first_ns: int) -> list[Event]:
        """Return the most important events, at most ``most``; ``first_ns`` is the time of the capture's first frame."""
        return self.log.selected(most, first_ns) if isinstance(self.log, EventLog) else []

    @property
    def name(self) -> str:
        """The name that identifies the object among all objects of its kind."""
        raise NotImplementedError

    @property
    def session(self) -> Session | None:
        """The last session of a producer or consumer; None for other objects."""
        return None

    @property
    def opened(self) -> bool:
        """Whether a client opened the object; False if only requests contain its name."""
        return True

    @property
    def topic(self) -> str:
        """The full name of the object's topic; empty if it has none, or it is unknown."""
        return ""

    @property
    def subscription(self) -> str:
        """The name of the object's subscription; empty if it has none."""
        return ""

    def title(self) -> str:
        """Return the object with its place, as a heading."""
        raise NotImplementedError

    def see(self, facts: Facts) -> None:
        """Process a frame that concerns the object, after the tracker."""
        raise NotImplementedError

    def settle(self, time_ns: int) -> None:
        """Record changes without a frame: the end of a connection or of the capture."""

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state at a time."""
        raise NotImplementedError

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete: keys of DOUBTS, without the end of the capture."""
        return set()

    def complete(self) -> None:
        """Add the events that are known only after the tracker has processed the end of the capture."""

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a finding about a record concerns the object: empty for its own record, None if not at all."""
        raise NotImplementedError


class Counter:
    """A count of a record that is compared with its previous value."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._before = count()

    def added(self) -> int:
        """Return the increase since the last call."""
        now = self._count()
        more, self._before = now - self._before, now
        return max(0, more)


def because(message: str) -> str:
    """Return the message of an error as the end of a sentence, without the period; empty if there is none."""
    text = error_message(message).rstrip(".")
    return f": {text}" if text else ""


def lasted(period: Period) -> str:
    """Return the duration of a period, and the frame that ended it: ``6.8 s, until frame 453``."""
    return f"{span(period.lasted_ns)}{f', until {at(period.until_frame)}' if period.until_frame else ''}"


def period_event(kind: str, period: Period, text: str, variety: str = "") -> Event:
    """Return the event of a period."""
    since, until = (period.since_ns, period.since_frame), (period.until_ns, period.until_frame)
    return Event(kind, *since, text, *until, period.lasted_ns, variety)


def end_kind(end: str) -> str:
    """Return the kind of the event that ends a session in this way, a key of ENDS."""
    return {"closed": "closed", "replaced": "closed", "broker": "closed by broker", "refused": "refused"}.get(
        end, "lost"
    )


def end_text(session: Session) -> str:
    """Return how a session ended, as the beginning of a sentence."""
    return {
        "closed": "The client closed it",
        "replaced": "The client opened the same id again on the connection",
        "broker": "The broker closed it without a request",
    }.get(session.end) or f"Its connection ended: {ENDS.get(session.end, session.end)}"
