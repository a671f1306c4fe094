"""The state that an incremental run keeps, so that the next run adds only new rows. All tables have states of one form.

Rules of this file
1. A state belongs to a number of captures. If an earlier file is new or has changed, the run continues from an older
   state (`KeptStates`), and replaces the files that were written since that state.
2. Every file of a state is a `StateFile` or a `Part`. `moved` and `paths_of` find the files in any kept value.
3. Lifecycles: the partial rows of open messages are kept, and the names of the files with open rows of `messages` and
   `exchanges`, which the next run replaces. Files with closed rows are not replaced.
4. Lifecycles: the partial tables of the splits are kept up to the horizon. If a fact about closed rows changes, or if a
   closed message has further frames, all rows of these periods are computed again (merge_incrementally.py). A period
   contains consecutive splits and the messages that were closed with them. When it is older than the horizon, the
   tables of its splits and its ``earlier`` rows are removed, and its rows are final.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic, TypeVar

from pcli.spark.columnar.lifecycles.resend_candidates import Suspect
from pcli.spark.columnar.observation.finding_table import FramePlace
from pcli.spark.input.read_plan import Entry
from pcli.spark.stages.split_tables import Part, SplitParts
from pcli.spark.tables.data_files import DataFile

Parts = dict[str, list[Part]]
"""Parts of tables by name."""


class StateFile(str):
    """The path in the store of a file that contains a kept value; empty if there is none."""

    __slots__ = ()


NO_FILE: Final = StateFile()


class Kept:
    """A kept value whose fields may contain files."""

    __slots__ = ()


def moved(value: Any, rename: Callable[[str], str]) -> Any:
    """Return a kept value in which ``rename`` has replaced the path of each file."""
    if isinstance(value, StateFile):
        return StateFile(rename(value)) if value else value
    if isinstance(value, Part):
        return replace(value, path=rename(value.path))
    if isinstance(value, SplitParts):
        return replace(value, tables=moved(value.tables, rename))
    if isinstance(value, Kept):
        return replace(value, **{one.name: moved(getattr(value, one.name), rename) for one in fields(value)})  # type: ignore[type-var,arg-type]
    if isinstance(value, dict):
        return {key: moved(one, rename) for key, one in value.items()}
    return [moved(one, rename) for one in value] if isinstance(value, list) else value


def paths_of(value: Any) -> set[str]:
    """Return the paths of all files of a kept value."""
    found: set[str] = set()

    def noted(path: str) -> str:
        found.add(path)
        return path

    moved(value, noted)
    return found


# -- states of tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableState(Kept):
    """The state of a table before the end of the recording after one run."""

    parts: int = 0
    """Number of captures that the state includes."""
    files: list[DataFile] = field(default_factory=list)
    """The files that were written since the previous state."""


State = TypeVar("State", bound=TableState)


@dataclass(frozen=True, slots=True)
class PermitState(TableState):
    """A state of the table `permits`; ``files`` contain closed rows."""

    connections: int = 0
    """Number of connections that the state includes."""
    duplicate_connections: frozenset[int] = frozenset()
    """Those of them whose frames are not counted."""
    sessions: StateFile = NO_FILE
    """The file with the balances (permit_sessions.PermitSessions); empty at the beginning."""
    open: list[Part] = field(default_factory=list)
    """Rows of PERMITS that later frames may change."""
    closed_ns: int = -1
    """The last second of the closed rows."""


@dataclass(frozen=True, slots=True)
class KeptGroup(Kept):
    """The state of one observed group of connections after the last frame that was read."""

    streams: dict[int, tuple[Any, ...]]
    """The connections of the group by number, each with the values on which the state depends."""
    file: StateFile
    """The file that contains the `observe_group.Group`."""


@dataclass(frozen=True, slots=True)
class ObservationState(TableState):
    """The states of all observed groups. The tables of observation are written anew by each run."""

    groups: list[KeptGroup] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class KeptStates(Kept, Generic[State]):
    """The states after the last runs, and the files that the next run replaces."""

    states: list[State] = field(default_factory=list)
    """The states, oldest first."""
    replaced: list[DataFile] = field(default_factory=list)
    """The files with rows that may change, and the files of states that are no longer valid."""

    def until(self, parts: int) -> KeptStates[State]:
        """Return the states that include only the first ``parts`` captures."""
        kept = self
        while kept.states and kept.states[-1].parts > parts:
            kept = kept.back()
        return kept

    def back(self) -> KeptStates[State]:
        """Return the states without the newest state."""
        return KeptStates(self.states[:-1], [*self.replaced, *self.states[-1].files])

    def followed_by(self, state: State, left: list[DataFile]) -> KeptStates[State]:
        """Return the states with a newer state. ``left`` are the files with rows that may change."""
        if self.states and self.states[-1].parts == state.parts:
            files = [*self.states[-1].files, *state.files]
            return KeptStates([*self.states[:-1], replace(state, files=files)], left)
        return KeptStates([*self.states, state], left)

    def reduced(self, counts: Collection[int]) -> KeptStates[State]:
        """Return the states with these numbers of captures. Their files include those of the omitted states."""
        states: list[State] = []
        files: list[DataFile] = []
        for one in self.states:
            files = [*files, *one.files]
            if one.parts in counts:
                states.append(replace(one, files=files))
                files = []
        return replace(self, states=states)


# -- the state of messages and requests --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClosedPeriod(Kept):
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
class KeptLifecycles(Kept):
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


# -- all states --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class KeptRecording(Kept):
    """The data that is kept for a recording."""

    entries: list[Entry] = field(default_factory=list)
    """The files in order."""
    splits: list[SplitParts] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    checkpoints: dict[int, StateFile] = field(default_factory=dict)
    """The files that contain the reader's state, by the number of captures read before the state was kept."""
    observations: KeptStates[ObservationState] = field(default_factory=KeptStates)
    lifecycles: KeptLifecycles = field(default_factory=KeptLifecycles)
    permits: KeptStates[PermitState] = field(default_factory=KeptStates)
    frames: KeptStates[TableState] = field(default_factory=KeptStates)
    evidence: dict[int, FramePlace] = field(default_factory=dict)
    """The positions of the frames that findings name, by number."""

    def oldest_state(self) -> int:
        """Return the number of captures before the oldest position from which the recording can be read.

        If no split is older than the horizon, it can be read from its beginning.
        """
        removed = self.lifecycles.removed
        if not removed:
            return 0
        last = self.splits[removed - 1].part
        first = max(
            min((one.parts for one in states if one.parts > last), default=0)
            for states in (self.observations.states, self.permits.states, self.frames.states)
        )
        return min(count for count in self.checkpoints if count > last and count >= first)


@dataclass(slots=True)
class IncrementalState(Kept):
    """The data that an incremental run keeps for the next run."""

    options: dict[str, Any]
    recordings: dict[str, KeptRecording] = field(default_factory=dict)
    """The recordings by cluster."""
