"""Commands that show or create frames: decode, encode, dissect, follow, fields, capture."""

__all__: list[str] = []
