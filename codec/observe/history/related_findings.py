"""The findings of a diagnosis that concern one object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pcli.codec.observe.diagnosis import by_weight
from pcli.codec.observe.history.object_history import ObjectHistory
from pcli.codec.observe.rules.finding import SEVERITIES, Finding


class RecordedFindings:
    """The records of a diagnosis that have findings."""

    def __init__(self) -> None:
        self._records: list[tuple[str, Any, list[Finding]]] = []

    def add(self, group: str, record: Any, findings: list[Finding]) -> None:
        """Add a record with its findings, for `Diagnosis(on_record=…)`."""
        if findings:
            self._records.append((group, record, findings))

    def of(self, history: ObjectHistory, found: Iterable[Finding]) -> list[tuple[str, Finding]]:
        """Return those of ``found`` that concern an object, each with its relation to the object (empty if none).

        The most severe findings are first; of the same severity, those about the object itself.
        """
        valid = {one.identity: one for one in found}
        related: dict[tuple[Any, ...], tuple[str, Finding]] = {}
        for group, record, findings in self._records:
            for one in findings:
                relation = history.relation(group, record, one)
                if relation is not None and one.identity in valid:
                    related[one.identity] = (relation, valid[one.identity])
        return sorted(related.values(), key=_order)


def _order(related: tuple[str, Finding]) -> tuple[Any, ...]:
    relation, finding = related
    return SEVERITIES.index(finding.severity), bool(relation), by_weight(finding)
