"""Consumers, producers, connections, keys and findings of recordings of any size: the object path, group by group.

- heads.py, asides.py: frames, notes, ends and connections as rows that can be shuffled; headframe.py makes them again
- ties.py, groups.py: which connections must be observed together
- dividing.py, routing.py, played.py: a large group as parts, its connections apart from its topics; sets.py
- recording.py: what all groups share; hosting.py: what happens to hosts, whose connections are in many groups
- observe.py: one group (`observe`), and the findings of all (`conclude`); standing.py: figures at the end
- tables.py: the tables; cells.py, consumers.py, producers.py, connections.py, topics.py, findings.py: their columns
"""

from pcli.codec.bulk.observing.asides import Aside, aside_rows, stream_rows
from pcli.codec.bulk.observing.groups import groups_of
from pcli.codec.bulk.observing.heads import HEADS, to_heads
from pcli.codec.bulk.observing.observe import conclude, observe
from pcli.codec.bulk.observing.recording import Recording, recording_of
from pcli.codec.bulk.observing.ties import TIES, merge_ties, ties_of

__all__ = [
    "HEADS",
    "TIES",
    "Aside",
    "Recording",
    "aside_rows",
    "conclude",
    "groups_of",
    "merge_ties",
    "observe",
    "recording_of",
    "stream_rows",
    "ties_of",
    "to_heads",
]
