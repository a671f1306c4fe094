"""Splits that were read apart, put together: every size of split gives what reading in order gives.

- edges.py, hold.py, marks.py: a split that begins in the middle: what it holds back, guesses, and tells at its end
- stitch.py: the door to chains.py (key by key, by carry.py, replay.py, patient.py) and join.py (all keys)
- repair.py: a split read again where its guess was wrong; results.py: what comes out
"""

from pcli.codec.bulk.seams.edges import EdgeReader, Edges
from pcli.codec.bulk.seams.repair import repair
from pcli.codec.bulk.seams.stitch import chain, context_of, join

__all__ = ["EdgeReader", "Edges", "chain", "context_of", "join", "repair"]
