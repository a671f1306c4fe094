"""The script of a replay: the commands that a capture's clients sent, and what the broker must have first."""

__all__: list[str] = []
