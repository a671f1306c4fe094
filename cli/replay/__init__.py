"""Commands that replay the connections of a capture: replay and reproduce."""

__all__: list[str] = []
