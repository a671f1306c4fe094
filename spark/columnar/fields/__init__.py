"""`read_fields`, which converts frame positions to columns of fields.

- field_columns: `read_fields`; commands, metadata: each decodes one part of the frame
- message_layouts, command_layouts, metadata_layouts, layout_groups, byte_matrix: frames with the same layout, decoded
  together
- protobuf_scan, multi_id_acks: frames with similar layouts; row_decoder: all other frames, one by one
- column_coverage: which fields the columns contain; column_buffers: columns under construction
- from_captured_frames: frame objects as frame positions; frame_table: the table `frames`
"""

__all__: list[str] = []
