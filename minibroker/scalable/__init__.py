"""Scalable topics of Pulsar 5: their layouts, sessions, controllers and automatic changes.

- layout_changes.py: creation, split, merge, rebucket, prune and migration of a layout
- assignment.py: which consumers of a subscription read which segments
- scalable_topic.py: one topic: its layout, sessions and stored state
- subscription_coordinator.py: the stream and checkpoint consumers of one subscription
- migration.py: the migration of a classic topic
- subscriptions.py: the operations of REST on a subscription
- scalable_topic_stats.py: the statistics of a topic and of a segment
- scalable_topic_service.py: all topics of a broker, and the operations on them
"""

__all__: list[str] = []
