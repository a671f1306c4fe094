"""The record that a stream keeps in its checkpoint: the tables that belong to it, and the findings that it reported.

The record is written when a batch is committed and its findings are reported. If the process is killed before, its
findings are reported again; none is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.spark.tables.runs import tables_id
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store

_NAME: Final = "pcli-stream.json"

OnFinding = Callable[[dict[str, Any]], None]
"""A function that is called with each new row of the table `findings`, to which `run`, the number of the run, is added.
If it raises LocalError, this finding and the following ones are reported again later."""


@dataclass(slots=True)
class StreamRecord:
    """The record of a stream."""

    checkpoint: Store
    tables: str = ""
    """Id of the table `runs` (`pcli.spark.tables.runs.tables_id`); empty before the first batch."""
    reported: set[str] = field(default_factory=set)
    """Identities of the findings in the tables that were reported."""

    @classmethod
    def read(cls, checkpoint: Store) -> StreamRecord:
        """Return the record in a checkpoint, which is empty before the first batch; raise LocalError if damaged."""
        data = checkpoint.read(_NAME)
        if data is None:
            return cls(checkpoint)
        try:
            fields = json.loads(data)
            return cls(checkpoint, str(fields["tables"]), set(fields["reported"]))
        except (ValueError, TypeError, KeyError):
            raise LocalError(f"{checkpoint.path(_NAME)}: damaged; remove the file") from None

    def report(self, store: Store, on_finding: OnFinding | None) -> tuple[int | None, str]:
        """Report the findings of the last run that were not reported yet, and write the record.

        Return the number of new findings, or None if there is no table of findings, and the reason why some of them
        could not be reported, or an empty text.
        """
        stored = StoredTables(store)
        known = "findings" in stored.names
        found = {identity_of(row): row for row in stored.read("findings").to_pylist()} if known else {}
        new = [name for name in found if name not in self.reported]
        left, reason = set(new), ""
        try:
            for name in new:
                if on_finding is not None:
                    on_finding(found[name] | {"run": stored.run.run})
                left.remove(name)
        except LocalError as error:
            reason = str(error)
        self.tables, self.reported = tables_id(store), found.keys() - left
        self._write()
        return len(new) if known else None, reason

    def _write(self) -> None:
        fields = {"tables": self.tables, "reported": sorted(self.reported)}
        self.checkpoint.write(f"{_NAME}.new", json.dumps(fields).encode())
        self.checkpoint.move(f"{_NAME}.new", _NAME)


def identity_of(finding: Mapping[str, Any]) -> str:
    """Return a short text that identifies a row of the table `findings`: its cluster, rule, subject and variant."""
    words = [finding[name] for name in ("cluster", "rule", "subject", "variant")]
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
