"""Tracking: the state of connections, producers, subscriptions and messages, updated frame by frame in bounded memory.

- tracker.py: `Tracker`, the entry point; it passes frames to connections, producers and subscriptions
- records: the data that rules and statistics read; statistics: the state with the field names of `topics stats`
- message_timeline.py: the lifecycle of a message as steps; lifecycle_filter.py: which lifecycles `trace` prints
"""

__all__: list[str] = []
