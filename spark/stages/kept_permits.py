"""The state of the table `permits` that an incremental run keeps: the next run merges only new rows and open rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

from pcli.spark.stages.split_tables import Part
from pcli.spark.tables.data_files import DataFile

__all__ = ["KeptPermits", "PermitState"]


@dataclass(frozen=True, slots=True)
class PermitState:
    """The state before the end of the recording after one run."""

    parts: int = 0
    """Number of captures that the state includes."""
    connections: int = 0
    """Number of connections that it includes."""
    duplicate_connections: frozenset[int] = frozenset()
    """Those of them whose frames are not counted."""
    sessions: str = ""
    """Name of the file with the balances (permit_sessions.PermitSessions); empty at the beginning."""
    open: list[Part] = field(default_factory=list)
    """Rows of PERMITS that later frames may change."""
    closed_ns: int = -1
    """The last second of the closed rows."""
    files: list[DataFile] = field(default_factory=list)
    """The files with the rows that were closed since the previous state."""


@dataclass(frozen=True, slots=True)
class KeptPermits:
    """The states after the last runs, and the files that the next run replaces."""

    states: list[PermitState] = field(default_factory=list)
    """The states, oldest first."""
    replaced: list[DataFile] = field(default_factory=list)
    """The files with open rows, and the files of states that are no longer valid."""

    def until(self, parts: int) -> KeptPermits:
        """Return the states that include only the first ``parts`` captures."""
        kept = self
        while kept.states and kept.states[-1].parts > parts:
            kept = kept.back()
        return kept

    def back(self) -> KeptPermits:
        """Return the states without the newest state."""
        return KeptPermits(self.states[:-1], [*self.replaced, *self.states[-1].files])

    def followed_by(self, state: PermitState, left: list[DataFile]) -> KeptPermits:
        """Return the states with a newer state. ``left`` are the files with open rows."""
        if self.states and self.states[-1].parts == state.parts:
            files = [*self.states[-1].files, *state.files]
            return KeptPermits([*self.states[:-1], replace(state, files=files)], left)
        return KeptPermits([*self.states, state], left)

    def reduced(self, counts: Collection[int]) -> KeptPermits:
        """Return the states with these numbers of captures. Their files include those of the omitted states."""
        states: list[PermitState] = []
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
            yield one.sessions
            yield from (part.path for part in one.open)

    def moved(self, moved: Callable[[str], str]) -> KeptPermits:
        """Return the states with the paths that ``moved`` returns."""
        states = [
            replace(
                one,
                sessions=moved(one.sessions),
                open=[replace(part, path=moved(part.path)) for part in one.open],
            )
            for one in self.states
        ]
        return replace(self, states=states)
