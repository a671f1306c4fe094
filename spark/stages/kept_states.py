"""The states of the tables `permits` and `frames` that an incremental run keeps: the next run adds only new rows.

A state belongs to a number of captures, and lists the files that were written since the previous state. If an earlier
file is new or has changed, the run continues from an older state, and replaces the files of later states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pcli.spark.stages.split_tables import Part
from pcli.spark.tables.data_files import DataFile

__all__ = ["KeptStates", "PermitState", "State", "TableState"]


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table before the end of the recording after one run."""

    parts: int = 0
    """Number of captures that the state includes."""
    files: list[DataFile] = field(default_factory=list)
    """The files that were written since the previous state."""

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files that contain kept data."""
        yield from ()

    def moved(self: State, _moved: Callable[[str], str]) -> State:
        """Return the state with the paths that ``_moved`` returns."""
        return self


State = TypeVar("State", bound=TableState)


@dataclass(frozen=True, slots=True)
class PermitState(TableState):
    """A state of the table `permits`; ``files`` contain closed rows."""

    connections: int = 0
    """Number of connections that the state includes."""
    duplicate_connections: frozenset[int] = frozenset()
    """Those of them whose frames are not counted."""
    sessions: str = ""
    """Name of the file with the balances (permit_sessions.PermitSessions); empty at the beginning."""
    open: list[Part] = field(default_factory=list)
    """Rows of PERMITS that later frames may change."""
    closed_ns: int = -1
    """The last second of the closed rows."""

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files that contain kept data."""
        yield self.sessions
        yield from (part.path for part in self.open)

    def moved(self, moved: Callable[[str], str]) -> PermitState:
        """Return the state with the paths that ``moved`` returns."""
        parts = [replace(part, path=moved(part.path)) for part in self.open]
        return replace(self, sessions=moved(self.sessions), open=parts)


@dataclass(frozen=True, slots=True)
class KeptStates(Generic[State]):
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

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files that contain kept data."""
        for one in self.states:
            yield from one.paths()

    def moved(self, moved: Callable[[str], str]) -> KeptStates[State]:
        """Return the states with the paths that ``moved`` returns."""
        return replace(self, states=[one.moved(moved) for one in self.states])
