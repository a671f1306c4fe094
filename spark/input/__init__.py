"""Input of an analysis: capture files on any file system, the plan of what to read, and the splits for tasks."""

__all__: list[str] = []
