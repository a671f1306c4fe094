"""Stages of an analysis over an `Engine`: read splits, merge lifecycles, count permits, observe connections."""

__all__: list[str] = []
