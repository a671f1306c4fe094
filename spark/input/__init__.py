"""Input of an analysis: capture files on any file system, what to read of them, and the splits that tasks read."""

__all__: list[str] = []
