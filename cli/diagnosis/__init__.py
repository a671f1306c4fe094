"""Commands that diagnose a capture: diagnose, trace, bundle."""

__all__: list[str] = []
