"""`pcli browse`: a full-screen browser of the frames of captures and live traffic.

- browse.py: the command and its options. sources.py: captures, interfaces and brokers as input of the index.
- frame_index.py, index_writer.py, packet_positions.py, index_cache.py, index_build.py: the index of the frames on disk.
- stored_frames.py: frames and their facts from the index. row_filter.py, related_frames.py: rows of the index.
- line_list.py: the virtual list that all panes use. The modules of the panes and the application are based on it.
"""

__all__: list[str] = []
