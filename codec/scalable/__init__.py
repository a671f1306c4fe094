"""Scalable topics of Pulsar 5: names of segments, layouts and their changes, and the route of a key.

- segment_name.py: names of segments
- layout.py: the graph of segments in an epoch, what changed between two epochs, and contradictions in a graph
- routing.py: hash of a key, segment and entry bucket
"""
