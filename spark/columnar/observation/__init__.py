"""Tables of clients, topics and findings: groups of connections are observed with the Tracker and rules of pcli.codec.

- frame_header_rows, capture_event_rows: convert frames, notes, ends and connections to rows for a shuffle;
  frames_from_rows: reads the rows
- connection_ties, connection_groups: determine which connections must be observed together
- group_division, topic_routing, partial_trackers: divide a large group into parts of connections and parts of topics
  (with disjoint_sets)
- recording_context: facts that all groups share; host_history: events of hosts, whose connections may be in many groups
- observe_group: observes one group (`observe`) and combines the findings of all groups (`conclude`); final_statistics:
  figures at the end of a recording
- observation_schemas: the tables; record_columns and the modules `*_table`, `topic_tables`: the columns of the tables
"""

from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent, note_and_end_rows, stream_rows
from pcli.spark.columnar.observation.connection_groups import groups_of
from pcli.spark.columnar.observation.connection_ties import TIES, merge_ties, ties_of
from pcli.spark.columnar.observation.frame_header_rows import HEADS, to_heads
from pcli.spark.columnar.observation.observe_group import conclude, observe
from pcli.spark.columnar.observation.recording_context import Recording, recording_of

__all__ = [
    "HEADS",
    "TIES",
    "Recording",
    "RecordingEvent",
    "conclude",
    "groups_of",
    "merge_ties",
    "note_and_end_rows",
    "observe",
    "recording_of",
    "stream_rows",
    "ties_of",
    "to_heads",
]
