"""A database in memory, which survives the brokers of a test."""

from __future__ import annotations

from collections.abc import Iterable

from pcli.minibroker.storage.broker_storage import Batch


class MemoryDatabase:
    """The written entries and documents."""

    def __init__(self) -> None:
        self.entries: dict[int, dict[int, bytes]] = {}
        """Entries by storage id and number."""
        self.texts: dict[str, str] = {}
        """Documents as JSON text by path."""

    def write(self, batch: Batch) -> None:
        """Apply a batch."""
        for storage_id, number, data in batch.entries:
            self.entries.setdefault(storage_id, {})[number] = data
        for storage_id, first in batch.trimmed.items():
            entries = self.entries.get(storage_id, {})
            for number in [one for one in entries if one < first]:
                del entries[number]
            if not entries:
                self.entries.pop(storage_id, None)
        for path, text in batch.documents.items():
            if text is None:
                self.texts.pop(path, None)
            else:
                self.texts[path] = text

    def read(self, storage_id: int, first: int, count: int) -> list[bytes]:
        """Return entries."""
        entries = self.entries.get(storage_id, {})
        return [entries[number] for number in range(first, first + count) if number in entries]

    def bounds(self, storage_id: int) -> tuple[int, int] | None:
        """Return the first number and the end of the numbers."""
        numbers = self.entries.get(storage_id)
        return (min(numbers), max(numbers) + 1) if numbers else None

    def documents(self, prefix: str) -> Iterable[tuple[str, str]]:
        """Return documents in the order of their paths."""
        return [(path, self.texts[path]) for path in sorted(self.texts) if path.startswith(prefix)]

    collectable = False

    def collect(self) -> None:
        """Do nothing, because entries are deleted when they are trimmed."""

    def out_of_space(self) -> str:
        """Return an empty string."""
        return ""
