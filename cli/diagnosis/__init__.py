"""Commands that diagnose a capture: diagnose, why, trace, bundle."""

__all__: list[str] = []
