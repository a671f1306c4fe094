"""The filter language of `-Y`: parser, syntax tree, and compiler to functions of a frame."""

__all__: list[str] = []
