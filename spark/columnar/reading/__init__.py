"""Windows of captures to places of frames: `read_capture` by columns, and equal to it.

- sources.py, records.py, blocks.py: packets as columns; segments.py: to their TCP segments
- traffic.py, joined.py, cuts.py, framing.py, doubt.py, runs.py: what is ordinary, of all connections together
- weave.py: between that and the object path, packet by packet; past.py: retransmissions
- found.py: the frames of both in one order; reader.py: one window after the other
"""

from pcli.spark.columnar.reading.capture_reader import Reader, State, read_places

__all__ = ["Reader", "State", "read_places"]
