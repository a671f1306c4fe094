"""Scalable topics of Pulsar 5: the layout over time, sessions, and assignments of segments."""

from pcli.codec.observe.tracking.scalable.scalable_topic_tracker import ScalableTopicTracker

__all__ = ["ScalableTopicTracker"]
