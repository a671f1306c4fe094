"""Compaction: the latest message of each key, in a compacted ledger (org.apache.pulsar.compaction)."""

__all__: list[str] = []
