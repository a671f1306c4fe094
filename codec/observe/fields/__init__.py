"""The fields of frames: the table of names, kinds and sources for filters (`-Y`), columns (`-e`) and JSON."""

__all__: list[str] = []
