"""Tables of clients, topics and findings: groups of connections are observed with the Tracker and rules of pcli.codec.

- frame_header_rows, capture_event_rows: convert frames, notes, ends and connections to rows for a shuffle;
  frames_from_rows: reads the rows
- connection_ties, connection_groups: determine which connections must be observed together
- group_division, topic_routing, partial_trackers: divide a large group into parts of connections and parts of topics
- recording_context: facts that all groups share; host_history: events of hosts, whose connections may be in many groups
- observe_group: observes one group (`observe`) and combines the findings of all groups (`conclude`)
- observation_schemas: the tables; client_tables, topic_tables, scalable_tables, finding_table: their columns, with the
  sources of values in record_columns
"""

__all__: list[str] = []
