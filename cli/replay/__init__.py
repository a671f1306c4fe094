"""Commands that play the conversation of a capture again: replay and reproduce."""

__all__: list[str] = []
