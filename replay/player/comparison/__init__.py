"""Comparison of live responses with captured ones: rules for allowed differences, and the report."""

__all__: list[str] = []
