"""The storage of a persistent topic: entries, the managed ledger that contains them, and the cursors that read it."""

__all__: list[str] = []
