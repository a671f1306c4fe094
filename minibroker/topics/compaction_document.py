"""The document of the compacted ledger of a topic.

Rules of this file
1. The entries of a compacted ledger are in one storage, and their positions in another one. The document contains the
   ids of both.
2. The document also contains the storages of a compaction that is running. If the broker ends before the compaction,
   they are deleted when the topic is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.compaction.compacted_topic import CompactedLedger
from pcli.minibroker.errors import decoding
from pcli.minibroker.storage.broker_storage import Document

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

__all__ = ["CompactionDocument"]

_COMPACTED: Final = "/compacted-ledgers/"


class CompactionDocument:
    """The document of one topic."""

    __slots__ = ("_document", "_ledgers", "_path", "_topic", "deleted")

    def __init__(self, topic: Topic, path: str) -> None:
        """``path`` is the end of the paths of the topic."""
        self._topic = topic
        self._path = f"{_COMPACTED}{path}"
        self._document = Document(topic.broker.storage, self._path, self._encode)
        self._ledgers: dict[CompactedLedger, tuple[int, int]] = {}
        """The storages of the compacted ledgers: those of their entries and of their positions."""
        self.deleted = False
        """Whether the topic is deleted."""

    def changed(self) -> None:
        """Record that there is another compacted ledger, or that a ledger was deleted."""
        if self._ledgers:
            self._document.changed()

    def new_ledger(self) -> CompactedLedger:
        """Return the ledger of a new compaction."""
        broker = self._topic.broker
        ledger = self._open(broker.next_ledger_id(), broker.storage.new_storage_id(), broker.storage.new_storage_id())
        self._document.changed()
        return ledger

    def _open(self, ledger_id: int, entries: int, index: int) -> CompactedLedger:
        storage = self._topic.broker.storage
        ledger = CompactedLedger(ledger_id, self._topic.partition, storage.open(entries), storage.open(index))
        self._ledgers[ledger] = entries, index
        return ledger

    def _encode(self) -> Any:
        compaction = self._topic.compaction
        assert compaction is not None
        self._ledgers = {ledger: ids for ledger, ids in self._ledgers.items() if not ledger.deleted}
        if self.deleted or not self._ledgers:
            return None
        kept = compaction.compacted.ledger
        running = [ids for ledger, ids in self._ledgers.items() if ledger is not kept]
        value: dict[str, Any] = {"running": running, "horizon": compaction.compacted.horizon}
        return value if kept is None else {**value, "id": kept.id, "size": kept.size, "storages": self._ledgers[kept]}

    def restore(self) -> None:
        """Restore the compacted ledger of a topic that is loaded, and delete those of interrupted compactions."""
        storage, compaction = self._topic.broker.storage, self._topic.compaction
        assert compaction is not None
        value = storage.document(self._path)
        if value is None:
            return
        with decoding(self._path):
            if "storages" in value:
                ledger = self._open(value["id"], *value["storages"])
                ledger.restore(value["size"])
                compaction.compacted.new_compacted_ledger(value["horizon"], ledger)
            for ids in value["running"]:
                for entries in map(storage.open, ids):
                    entries.trim(entries.end)
        compaction.check_ledger()
        self._document.changed()
