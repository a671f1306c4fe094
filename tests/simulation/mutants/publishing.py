"""Defects of publishing: receipts, deduplication, access modes, compaction."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant, nth

from pcli.codec.proto import pb
from pcli.minibroker.compaction.compacted_topic import CompactedLedger
from pcli.minibroker.compaction.compactor import TwoPhaseCompactor
from pcli.minibroker.topics.deduplication import MessageDeduplication
from pcli.minibroker.topics.frame_writers import SendReceiptWriter
from pcli.minibroker.topics.producer import Producer
from pcli.minibroker.topics.producer_access import ProducerAccess
from pcli.minibroker.topics.topic import Topic

_LATE_MS = 5


@mutant(Producer, "publish")
def early_receipt(original: Any) -> Any:
    """Every 10th receipt is sent 5 ms before its entry is stored."""
    is_nth = nth(10)

    def publish(self: Any, sequence: int, highest: int, count: int, data: bytes, start: int, end: int) -> None:
        ledger, block = self.topic.ledger, data[start:end]
        if ledger is None or not self.fast_path or not is_nth():
            original(self, sequence, highest, count, data, start, end)
            return
        ledger_id, entry_id = ledger.position(ledger.next - 1)
        self.send_receipt(sequence, highest, ledger_id, entry_id + 1)
        broker = self.topic.broker
        broker.call_later(_LATE_MS, lambda: (ledger.append(block, broker.now), self.topic.announce_entries()))

    return publish


@mutant(Producer, "publish")
def lost_write(original: Any) -> Any:
    """Every 25th message gets a receipt and is not stored."""
    is_nth = nth(25)

    def publish(self: Any, sequence: int, highest: int, count: int, data: bytes, start: int, end: int) -> None:
        ledger = self.topic.ledger
        if ledger is not None and self.fast_path and is_nth():
            self.send_receipt(sequence, highest, *ledger.position(ledger.next - 1))
        else:
            original(self, sequence, highest, count, data, start, end)

    return publish


@mutant(SendReceiptWriter, "write")
def receipt_of_another_entry(original: Any) -> Any:
    """Every 20th receipt contains the id of the next entry."""
    is_nth = nth(20)

    def write(self: Any, sequence: int, highest: int, ledger: int, entry: int) -> bytes:
        return original(self, sequence, highest, ledger, entry + is_nth())

    return write


@mutant(MessageDeduplication, "check")
def duplicate_stored(original: Any) -> Any:
    """Sequence ids are not recorded, so no message is a duplicate."""

    def check(self: Any, *arguments: Any) -> bool:
        original(self, *arguments)
        return False

    return check


@mutant(MessageDeduplication, "check")
def new_message_dropped_as_duplicate(original: Any) -> Any:
    """Every 15th message is treated as a duplicate."""
    is_nth = nth(15)

    def check(self: Any, *arguments: Any) -> bool:
        return is_nth() or original(self, *arguments)

    return check


@mutant(ProducerAccess, "admit")
def fence_ignored(original: Any) -> Any:
    """A producer with ExclusiveWithFencing does not close the other producers."""

    def admit(self: Any, producer: Any) -> bool:
        if producer.access_mode == pb.ExclusiveWithFencing:
            self._claim(producer)
            return True
        return original(self, producer)

    return admit


@mutant(ProducerAccess, "admit")
def exclusive_access_ignored(original: Any) -> Any:
    """A Shared producer is admitted although another producer has exclusive access."""

    def admit(self: Any, producer: Any) -> bool:
        return producer.access_mode == pb.Shared or original(self, producer)

    return admit


@mutant(TwoPhaseCompactor, "_add")
def compaction_keeps_first(original: Any) -> Any:
    """Compaction keeps the first message of each key."""

    def add(self: Any, entry: Any, message: Any) -> None:
        if message.key not in self._latest:
            original(self, entry, message)

    return add


@mutant(CompactedLedger, "append")
def compaction_loses_a_key(original: Any) -> Any:
    """Every 4th entry is missing from the compacted ledger."""
    is_nth = nth(4)

    def append(self: Any, entry: Any, data: bytes) -> None:
        if not is_nth():
            original(self, entry, data)

    return append


@mutant(Topic, "run")
def new_entries_not_announced(original: Any) -> Any:
    """Every 5th notification of new entries is lost."""
    is_nth = nth(5)

    def run(self: Any) -> None:
        if self.entries_announced and is_nth():
            self.entries_announced = False
        original(self)

    return run
