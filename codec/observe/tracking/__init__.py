"""Tracking: the state of connections, producers, subscriptions and messages, updated frame by frame in bounded memory.

- tracker.py: `Tracker`, the entry point; it passes frames to connections, producers and subscriptions
- records: what rules and statistics read; statistics: the state under the names of `topics stats`
- message_timeline.py: the lifecycle of a message as steps; lifecycle_filter.py: which lifecycles `trace` prints
"""

from pcli.codec.observe.tracking.tracker import Tracker, process_events, take_in

__all__ = ["Tracker", "process_events", "take_in"]
