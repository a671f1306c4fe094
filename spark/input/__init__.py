"""Input of an analysis: capture files on any file system, the plan for reading them, and the splits for tasks."""

__all__: list[str] = []
