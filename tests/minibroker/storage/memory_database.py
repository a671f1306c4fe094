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
        for storage_id, (first, end) in batch.trimmed.items():
            entries = self.entries.get(storage_id, {})
            for number in [one for one in entries if first <= one < end]:
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

    def size(self, storage_id: int, first: int) -> int:
        """Return the size of the entries from a number on."""
        return sum(len(data) for number, data in self.entries.get(storage_id, {}).items() if number >= first)

    def documents(self, prefix: str) -> Iterable[tuple[str, str]]:
        """Return documents in the order of their paths."""
        return [(path, self.texts[path]) for path in sorted(self.texts) if path.startswith(prefix)]
