"""Frames and messages as text and JSON: summary lines, trees, flat objects, timelines, diagrams."""

__all__: list[str] = []
