"""The merge of independently read splits of a capture. The result is that of `read_capture`.

1. Each split is read by `EdgeReader`. A split that starts mid-capture holds back the packets of connections whose frame
   boundaries are not known yet (`held_packets`), or resynchronizes and records its assumption (`resync_certainty`).
2. `chain` follows one connection through all splits that contain it. It replays the held packets (`packet_replay`) on
   the state at the end of the previous split, and compares the result with the state that the split assumed
   (`boundary_states`). If they agree, the rows of the split are valid. If they do not agree, the split is read again
   for this connection from the correct state (`reread_split`).
3. When no connection needs a second reading, `merge_splits` assigns the numbers of the whole capture (`merge`,
   `merge_results`).
4. The splits may continue the state of a `WindowReader`, and a `WindowReader` may continue the state after any split
   (`reader_state`).

The result can differ from the result of one reader in four respects: which connections are dropped when there are more
than MAX_CONNECTIONS, or when more than MAX_CLOSED have ended; IP fragments of one packet that are in two splits; the
order of the notes of two connections about one packet; and whether a retransmission with different bytes is still
compared with a first transmission that is in a different split, nearly HISTORY data packets earlier.
"""

__all__: list[str] = []
