"""Stages of an analysis that an `Engine` runs: read splits, merge lifecycles, count permits, observe connections."""

__all__: list[str] = []
