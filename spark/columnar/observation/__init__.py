"""Consumers, producers, connections, keys and findings of recordings of any size: the object path, group by group.

- heads.py, asides.py: frames, notes, ends and connections as rows that can be shuffled; headframe.py makes them again
- ties.py, groups.py: which connections must be observed together
- dividing.py, routing.py, played.py: a large group as parts, its connections apart from its topics; sets.py
- recording.py: what all groups share; hosting.py: what happens to hosts, whose connections are in many groups
- observe.py: one group (`observe`), and the findings of all (`conclude`); standing.py: figures at the end
- tables.py: the tables; cells.py, consumers.py, producers.py, connections.py, topics.py, findings.py: their columns
"""

from pcli.spark.columnar.observation.capture_event_rows import Aside, aside_rows, stream_rows
from pcli.spark.columnar.observation.connection_groups import groups_of
from pcli.spark.columnar.observation.connection_ties import TIES, merge_ties, ties_of
from pcli.spark.columnar.observation.frame_header_rows import HEADS, to_heads
from pcli.spark.columnar.observation.observe_group import conclude, observe
from pcli.spark.columnar.observation.recording_context import Recording, recording_of

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
