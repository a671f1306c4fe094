"""The state of messages and requests that an incremental run keeps: the next run merges only new rows and open rows.

Rules of this file
1. The partial rows of open messages are kept, and the names of the files with open rows of `messages` and `exchanges`,
   which the next run replaces. Files with closed rows are not replaced.
2. The partial tables of the splits are kept up to the horizon. If a fact about closed rows changes, or if a closed
   message has further frames, all rows of these periods are computed again (merge_incrementally.py).
3. A period contains consecutive splits and the messages that were closed with them. When it is older than the horizon,
   the tables of its splits and its ``earlier`` rows are removed, and its rows are final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pcli.spark.columnar.lifecycles.resend_candidates import Suspect
from pcli.spark.stages.split_tables import Part
from pcli.spark.tables.data_files import DataFile

__all__ = ["ClosedPeriod", "KeptLifecycles", "Parts", "moved_parts"]

Parts = dict[str, list[Part]]
"""Parts of tables by name."""


@dataclass(frozen=True, slots=True)
class ClosedPeriod:
    """Consecutive splits, and the messages that were closed with them."""

    splits: int
    """Number of the recording's splits up to the end of the period."""
    newest_ns: int
    """The newest time of the recording at the end of the period."""
    entries: list[Part] = field(default_factory=list)
    """The ids of the messages (closed_messages.ENTRIES)."""
    earlier: Parts = field(default_factory=dict)
    """The partial rows of these messages that are older than the period."""
    sequences: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """The lowest and the highest sequence id of their SENDs, by connection and producer_id."""
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    """The files with the closed rows, by table."""
    sends: frozenset[int] = frozenset()
    """The SENDs in RESOLVED of these messages."""


@dataclass(frozen=True, slots=True)
class KeptLifecycles:
    """The state after the last frame that was read."""

    parts: int = 0
    """Number of captures that the state includes."""
    splits: int = 0
    """Number of splits that it includes."""
    removed: int = 0
    """Number of splits whose tables were removed, because they are older than the horizon."""
    frames: int = 0
    connections: int = 0
    facts: str = ""
    """The settled facts with which the rows were closed (settled_facts.py)."""
    subscriptions: dict[str, frozenset[int]] = field(default_factory=dict)
    """The subscriptions of each topic when its first message was closed."""
    small: Parts = field(default_factory=dict)
    """The small tables of all splits, with a column ``split``."""
    partials: Parts = field(default_factory=dict)
    """The partial rows of open messages."""
    ranges: frozenset[Suspect] = frozenset()
    """`RecordingFacts.resend_candidates` of the last run."""
    sends: frozenset[int] = frozenset()
    """SENDs in RESOLVED of messages of older periods."""
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    """The files with open rows, by table."""
    closed: list[ClosedPeriod] = field(default_factory=list)
    """The periods that are not older than the horizon."""
    final: list[Part] = field(default_factory=list)
    """The ids of the messages of older periods (ENTRIES)."""
    final_files: dict[str, list[DataFile]] = field(default_factory=dict)
    """The files of older periods that are not merged yet, by table."""
    past: list[tuple[int, int]] = field(default_factory=list)
    """The number of splits and the newest time at the end of older periods, up to twice the horizon."""
    forgotten: int = 0
    """Number of splits of which only commands about connections are kept."""

    def closed_sends(self, *, whole: bool) -> frozenset[int]:
        """Return the SENDs in RESOLVED of closed messages; of final messages if all other messages are merged."""
        return self.sends if whole else self.sends.union(*(one.sends for one in self.closed))

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files that contain kept data."""
        tables = [self.small, self.partials, {"final": self.final}]
        for one in self.closed:
            tables += [one.earlier, {"entries": one.entries}]
        yield from (part.path for parts in tables for some in parts.values() for part in some)

    def moved(self, moved: Callable[[str], str]) -> KeptLifecycles:
        """Return the state with the paths that ``moved`` returns."""
        closed = [
            replace(one, earlier=moved_parts(one.earlier, moved), entries=_moved(one.entries, moved))
            for one in self.closed
        ]
        return replace(
            self,
            small=moved_parts(self.small, moved),
            partials=moved_parts(self.partials, moved),
            final=_moved(self.final, moved),
            closed=closed,
        )


def moved_parts(parts: Mapping[str, list[Part]], moved: Callable[[str], str]) -> Parts:
    """Return parts with the paths that ``moved`` returns."""
    return {name: _moved(some, moved) for name, some in parts.items()}


def _moved(parts: list[Part], moved: Callable[[str], str]) -> list[Part]:
    return [replace(part, path=moved(part.path)) for part in parts]
