"""Scalable topics of Pulsar 5: names of segments, layouts and their changes, and the route of a key.

- segment_name.py: names of segments
- layout.py: the graph of segments in an epoch, what changed between two epochs, and contradictions in a graph
- routing.py: hash of a key, segment and entry bucket
"""

from typing import TYPE_CHECKING

from pcli.codec.lazy_names import lazy_names

if TYPE_CHECKING:
    from pcli.codec.scalable.layout import Change, Layout, Segment, changes, contradictions
    from pcli.codec.scalable.routing import bucket_of, key_hashes
    from pcli.codec.scalable.segment_name import (
        SegmentName,
        name_on_segment,
        name_without_segment,
        scalable_topic,
        selected_topic,
    )

__all__ = [
    "Change",
    "Layout",
    "Segment",
    "SegmentName",
    "bucket_of",
    "changes",
    "contradictions",
    "key_hashes",
    "name_on_segment",
    "name_without_segment",
    "scalable_topic",
    "selected_topic",
]

__getattr__ = lazy_names(
    __name__,
    {
        "layout": "Change Layout Segment changes contradictions",
        "routing": "bucket_of key_hashes",
        "segment_name": "SegmentName name_on_segment name_without_segment scalable_topic selected_topic",
    },
)
