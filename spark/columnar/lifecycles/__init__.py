"""Lives of messages from frames as columns: the tables `messages` and `exchanges`, for one process and for Spark.

The way of the data, stage by stage; between two stages stand tables of partials.py and nothing else
1. `SplitAggregator` for each split: frames to `Partials`; what pairs inside the split is paired.
   combine.py; sending.py, consuming.py, speaking.py
2. `renumber_table` for each table: the numbers of connections and frames become the recording's. renumber.py
3. In one place, with the small tables of all splits (`concat_partials`): `collect_facts`, what ids mean and what is missing; `separate_candidates` on
   every table ``published``, and `resolve_sends`, what is not a plain pair of SEND and receipt.
   learning.py, known.py, marking.py, doubting.py, suspecting.py; settling.py
4. For each bucket of ``place``: `merge_bucket`: messages, and the rows of chunks, of which `join_chunks` makes messages.
   merging.py, sides.py, building.py (the usual ones); unusual.py, history.py, loose.py, chunking.py; weighing.py
5. `exchanges_of_requests` once, `exchanges_of_acks` for each table ``answered``. asking.py

Everything is a pure function of its arguments. Judge: the lives of pcli.codec.observe.tracking.
"""

from pcli.spark.columnar.lifecycles.bucket_merge import MergedBucket, merge_bucket
from pcli.spark.columnar.lifecycles.chunked_messages import join_chunks
from pcli.spark.columnar.lifecycles.collect_recording_facts import collect_facts
from pcli.spark.columnar.lifecycles.exchange_rows import exchanges_of_acks, exchanges_of_requests
from pcli.spark.columnar.lifecycles.lifecycle_schemas import (
    EVIDENCE,
    EXCHANGES,
    EXCHANGES_HOUR,
    EXCHANGES_ORDER,
    MESSAGES,
    MESSAGES_HOUR,
    MESSAGES_ORDER,
)
from pcli.spark.columnar.lifecycles.partial_renumbering import Renumbering, concat_partials, renumber_table
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import separate_candidates
from pcli.spark.columnar.lifecycles.resent_messages import RESOLVED, resolve_sends
from pcli.spark.columnar.lifecycles.split_aggregation import Events, SplitAggregator

__all__ = [
    "EVIDENCE",
    "EXCHANGES",
    "EXCHANGES_HOUR",
    "EXCHANGES_ORDER",
    "MESSAGES",
    "MESSAGES_HOUR",
    "MESSAGES_ORDER",
    "PARTIALS",
    "RESOLVED",
    "Events",
    "MergedBucket",
    "Partials",
    "RecordingFacts",
    "Renumbering",
    "SplitAggregator",
    "collect_facts",
    "concat_partials",
    "exchanges_of_acks",
    "exchanges_of_requests",
    "join_chunks",
    "merge_bucket",
    "renumber_table",
    "resolve_sends",
    "separate_candidates",
]
