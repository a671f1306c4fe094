"""Invariant of compacted topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.contents import contents_of_block
from simulation.invariants.subscription_replay import TransactionEnds
from simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from simulation.execution import Run

_MANY = 1 << 30


def compaction_keeps_the_last_value(run: Run) -> Iterator[Violation]:
    """The compacted ledger contains, for each key, the last message up to the compaction horizon, and no other.

    Messages without a key and messages of aborted transactions are not kept (TwoPhaseCompactor).
    """
    ends: TransactionEnds | None = None
    for name, topic in run.network.broker.topics.items():
        compaction = topic.compaction
        if compaction is None or compaction.compacted.ledger is None or name not in run.history.stored:
            continue
        ends = ends or TransactionEnds(run.history)
        last: dict[str, bytes] = {}
        for entry in run.history.stored[name][: compaction.compacted.horizon + 1]:
            txn = entry.contents.transaction
            if txn is None or ends.may_be_committed(txn, _MANY):
                last |= {key: text for key, text in zip(entry.contents.keys, entry.contents.texts) if key}
        run.checks["compaction_keeps_the_last_value"] += len(last)
        kept: dict[str, bytes] = {}
        for entry in compaction.compacted.read(0, _MANY, _MANY):
            contents = contents_of_block(entry.data)
            for key, text in zip(contents.keys, contents.texts):
                if text and key in kept:
                    yield Violation(
                        "compaction_keeps_the_last_value", run.history.step, f"{name}: key {key} is kept twice"
                    )
                if text:
                    kept[key] = text
        if kept != last:
            wrong = sorted(key for key in kept.keys() | last.keys() if kept.get(key) != last.get(key))
            text = f"{name}: key {wrong[0]} has {kept.get(wrong[0])!r}; its last message is {last.get(wrong[0])!r}"
            yield Violation("compaction_keeps_the_last_value", run.history.step, text)
