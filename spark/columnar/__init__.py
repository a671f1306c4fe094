"""The columnar reader converts capture bytes to tables with numpy and pyarrow, without a Python object for each frame.

Packages in the order of the data flow: ``reading`` (bytes to frame positions), ``fields`` (frame positions to columns),
``split_merge`` (splits that were read independently), ``lifecycles`` (tables `messages` and `exchanges`), ``permits``,
and ``observation`` (frames shuffled to the tasks that run the Tracker and the rules). `frame_columns` contains the
shared types, and `table_schema` contains the functions that define schemas.

Ordinary frames are read in bulk. The objects of codec.capture and codec.observe process all other frames, and the
results are converted to rows. Both paths produce the same results; the tests compare these results on every capture.
"""

__all__: list[str] = []
