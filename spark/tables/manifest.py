"""The manifest: the files of the tables after the last completed run.

Rules of this file
1. The manifest is deterministic: the same run on the same captures writes the same content. The manifest contains no
   timestamps and no random names.
2. If the manifest has a later version, a LocalError that recommends updating pcli is raised.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pcli.codec.errors import LocalError

__all__ = ["MANIFEST", "Manifest", "Stored"]

MANIFEST: Final = "_manifest.json"
"""The name of the manifest in OUT."""

_FORMAT: Final = "pcli tables"
_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of a table."""

    table: str
    folder: str
    """The partition of the file, ``cluster=a/hour=2026-11-21-14``; empty if the table is not partitioned."""
    name: str
    """The file name in the folder of the table or partition."""
    rows: int
    bytes: int

    @property
    def path(self) -> str:
        """The path of the file in OUT."""
        return "/".join(word for word in (self.table, self.folder, self.name) if word)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of tables."""

    generation: int = 0
    """Number of the generation, from 1; 0 if no run has committed yet."""
    files: tuple[Stored, ...] = ()
    tables: tuple[str, ...] = ()
    """The names of the tables that the run wrote, including empty tables."""
    partitioned: tuple[str, ...] = ()
    """The names of the tables that are partitioned by cluster and hour."""
    run: dict[str, Any] = field(default_factory=dict)
    """The request of the run as plain JSON, for readers of the tables."""
    state: tuple[str, ...] = ()
    """Files in OUT that contain the input of the next incremental run."""

    def of(self, table: str) -> list[Stored]:
        """Return the files of a table."""
        return [file for file in self.files if file.table == table]

    def encode(self) -> bytes:
        """Encode the manifest as JSON; equal manifests have the same bytes."""
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """Decode JSON; raise a LocalError that names ``where`` if it is not a manifest of pcli."""
        try:
            content = json.loads(data)
            if content.pop("format") != _FORMAT:
                raise ValueError
            version = content.pop("version")
            if version == _VERSION:
                return cls(
                    generation=int(content["generation"]),
                    files=tuple(Stored(**file) for file in content["files"]),
                    tables=tuple(content["tables"]),
                    partitioned=tuple(content["partitioned"]),
                    run=dict(content["run"]),
                    state=tuple(content["state"]),
                )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LocalError(f"{where}: not a manifest of pcli, or damaged") from None
        if isinstance(version, int) and version < _VERSION:
            raise LocalError(
                f"{where}: written by an older pcli (version {version} of the tables): "
                "analyze the captures again into a new directory"
            )
        raise LocalError(f"{where}: written by a newer pcli (version {version} of the tables): update pcli")
