"""Places of frames to what the frames say: `read_fields`.

- heads.py, commands.py, metadata.py, parts.py, checksums.py: a part of the frame each
- shapes.py, command_shapes.py, metadata_shapes.py, groups.py, matrix.py, spots.py: rows that look alike, read together
- scanning.py, many_acks.py: rows that look alike less; rows.py: one by one; told.py: what the columns tell at all
- captured.py: frames of the object path as places; frame_table.py: the table `frames`
"""

from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of

__all__ = ["places_of", "read_fields"]
