"""Comparison of live responses with captured ones, the rules for allowed differences, and the report."""

__all__: list[str] = []
