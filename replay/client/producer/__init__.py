"""Producers: registration, batches, chunks, routing, and the queue of SENDs that wait for receipts."""

__all__: list[str] = []
