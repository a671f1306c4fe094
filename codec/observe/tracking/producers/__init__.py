"""Tracking of producers: sessions across reconnects, SENDs, receipts, sequence ids."""

__all__: list[str] = []
