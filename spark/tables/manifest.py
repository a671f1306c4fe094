"""The manifest: which files make up the tables, as of the last run that ended.

Rules of this file
1. It holds nothing that the same run over the same captures would not say again: no clock, no names made by chance.
2. What a later version writes is not guessed at: LocalError says to update.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pcli.codec.errors import LocalError

__all__ = ["MANIFEST", "Manifest", "Stored"]

MANIFEST: Final = "_manifest.json"
"""Its name in OUT."""

_FORMAT: Final = "pcli tables"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of a table."""

    table: str
    folder: str
    """Partition it is in, ``cluster=a/hour=2026-11-21-14``; empty: none."""
    name: str
    """What it is called in its folder."""
    rows: int
    bytes: int

    @property
    def path(self) -> str:
        """Its path in OUT."""
        return "/".join(word for word in (self.table, self.folder, self.name) if word)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of tables."""

    generation: int = 0
    """Counted from 1; 0: there is none yet."""
    files: tuple[Stored, ...] = ()
    tables: tuple[str, ...] = ()
    """The tables that the run made, rows or not."""
    partitioned: tuple[str, ...] = ()
    """Those of them that are partitioned by cluster and hour."""
    run: dict[str, Any] = field(default_factory=dict)
    """What was asked for and what came out, for those who read the tables: plain JSON."""
    state: tuple[str, ...] = ()
    """Files in OUT that the next incremental run begins with."""

    def of(self, table: str) -> list[Stored]:
        """The files of a table."""
        return [file for file in self.files if file.table == table]

    def encode(self) -> bytes:
        """As JSON, the same bytes for the same manifest."""
        said = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        return (json.dumps(said, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """From JSON; LocalError, which names ``where``, when it is none of ours."""
        try:
            said = json.loads(data)
            if said.pop("format") != _FORMAT:
                raise ValueError
            version = said.pop("version")
            if version == _VERSION:
                return cls(
                    generation=int(said["generation"]),
                    files=tuple(Stored(**file) for file in said["files"]),
                    tables=tuple(said["tables"]),
                    partitioned=tuple(said["partitioned"]),
                    run=dict(said["run"]),
                    state=tuple(said["state"]),
                )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LocalError(f"{where}: this is no manifest of ours, or it is damaged") from None
        raise LocalError(f"{where}: written by a newer pcli (version {version} of the tables): update this one")
