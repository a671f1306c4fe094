"""The fields of frames: names, kinds and sources for filters (`-Y`), columns (`-e`) and JSON."""

__all__: list[str] = []
