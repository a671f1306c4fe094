"""Conversion of capture windows to frame positions, with the same result as `read_capture`.

- packet_records, pcapng_blocks: packets as columns; tcp_segments: TCP segments of the packets
- direction_packets, joined_bytes, frame_boundaries, in_order_runs: ordinary segments of all connections together
- window_decoder: alternates between these modules and `read_capture`, which reads packet by packet; recent_segments:
  comparison of retransmissions
- window_frames: the frames of both readers in one order; capture_reader: the reader of consecutive windows
"""

__all__: list[str] = []
