"""The request for an analysis. A command or a Python caller creates it, and it is sent to all tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pcli.codec.capture.reading import ReadOptions
from pcli.spark.columnar.observation.observation_schemas import TABLES as OBSERVED
from pcli.spark.tables.catalog import Table, chosen_tables

SPLIT_BYTES: Final = 128 << 20
"""Size in bytes of a split. One task reads one split. Below 64 MB the cost of merging splits becomes noticeable."""

HORIZON_S: Final = 86_400.0
"""The default of `Request.horizon_s`: 24 hours."""


@dataclass(frozen=True, slots=True)
class RequiredData:
    """The data that the requested tables need."""

    lifecycles: bool
    """Whether lifecycle partials are needed: for messages, exchanges and permits (because of the duplicate connections
    of proxies)."""
    observing: bool
    """Whether frame header rows are needed: for the tables of the Observer, the Tracker and the rules."""
    permits: bool
    frames: bool

    @property
    def checksums(self) -> bool:
        """Whether checksums must be verified. Verification takes a tenth of the reading time."""
        return self.observing or self.frames

    @property
    def once(self) -> bool:
        """Whether all data can be computed in the first reading of a split and renumbered after the merge."""
        return not (self.observing or self.permits or self.frames)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: the captures, the output folder and the options."""

    paths: tuple[str, ...]
    """The captures: files, folders, patterns, URIs."""
    out: str
    """The folder of the tables, as a path or a URI."""
    cluster: str = ""
    """Label or pattern of the clusters (`pcli.spark.input.read_plan`); empty if there is only one cluster."""
    only: tuple[str, ...] = ()
    """Names of tables; empty for all tables except the tables that are written only on request."""
    frames: bool = False
    """Whether to write the table `frames` in addition to the other tables."""
    since_ns: int | None = None
    """Packets before this time (ns since 1970) are omitted."""
    until_ns: int | None = None
    """Packets at or after this time (ns since 1970) are omitted."""
    incremental: bool = False
    """Whether to read only files that are new since the last run, and to keep the data that the next run needs."""
    horizon_s: float = HORIZON_S
    """Seconds of capture time after which the rows of an incremental run are final."""
    strict: bool = False
    """Whether to fail if a file cannot be read to its end."""
    keep_days: float | None = None
    """Days for which earlier runs remain readable; None for 7 days, or 0 if the run is incremental."""
    decode_as: dict[int, str] = field(default_factory=dict)
    """The protocol on a TCP port: pulsar or other."""
    key_log: bytes = field(default=b"", repr=False)
    """TLS secrets in the format of SSLKEYLOGFILE, in addition to those in pcapng files."""
    split_bytes: int = SPLIT_BYTES

    @property
    def reading(self) -> ReadOptions:
        """The options for reading packets."""
        return ReadOptions(decode_as=self.decode_as, key_log=self.key_log, ends=True)

    @property
    def tables(self) -> list[Table]:
        """Return the requested tables; raise LocalError for a name that is not a table."""
        return chosen_tables(self.only, frames=self.frames)

    @property
    def required(self) -> RequiredData:
        """The data that the requested tables need."""
        names = {table.name for table in self.tables}
        return RequiredData(
            lifecycles=not names.isdisjoint({"messages", "exchanges", "permits"}),
            observing=not names.isdisjoint(OBSERVED),
            permits="permits" in names,
            frames="frames" in names,
        )
