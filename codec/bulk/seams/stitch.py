"""The splits of a recording put together, key by key: every split size gives what `read_capture` gives.

How it goes: splits are read apart (`edges.EdgeReader`). Then each key by itself, through all splits that met it
(`chain`): the connection as it was at the end of one split is given the packets that the next has held; if it is then
in the state that this split had guessed, the split's rows stand, and its end is the next beginning. If not, the split
is to be read again for this key, from the true beginning (`repair`), and the key goes on from there. When no key has an
order left, `join` numbers everything. tests/codec/bulk/seams/test_seams.py has it in thirty lines.

Not the same as in one reader: which connections are forgotten when there are more than MAX_CONNECTIONS, or more than
MAX_CLOSED are over; IP fragments of one packet in two splits; the order of what alarms of two connections give at one
and the same packet; and whether a retransmission with other bytes is still compared whose first transmission lies
nearly HISTORY data packets back, in an earlier split: packets that are held are counted by what they seem.
"""

from pcli.codec.bulk.seams.chains import Chained, Context, Order, Repaired, Standing, chain, context_of
from pcli.codec.bulk.seams.join import join

__all__ = ["Chained", "Context", "Order", "Repaired", "Standing", "chain", "context_of", "join"]
