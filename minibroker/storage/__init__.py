"""What a persistent topic stores: entries, the managed ledger that holds them, and the cursors that read it."""

__all__: list[str] = []
