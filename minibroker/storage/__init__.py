"""The storage of a persistent topic: entries, the managed ledger that contains them, and the cursors of the ledger."""

__all__: list[str] = []
