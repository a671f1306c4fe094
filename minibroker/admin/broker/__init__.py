"""Endpoints of the broker: settings, statistics, metrics and bookies."""

__all__: list[str] = []
