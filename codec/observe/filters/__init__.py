"""The filter language of `-Y`: parser, syntax tree, and the compiler to functions on frames."""

__all__: list[str] = []
