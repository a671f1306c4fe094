"""Commands that show or make frames: decode, encode, dissect, follow, fields, capture."""

__all__: list[str] = []
