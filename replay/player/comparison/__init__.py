"""Comparison of live and captured responses, the rules for allowed differences, and the report."""

__all__: list[str] = []
