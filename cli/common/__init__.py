"""Options, output, capture reading and time formats that commands of several groups use."""

__all__: list[str] = []
