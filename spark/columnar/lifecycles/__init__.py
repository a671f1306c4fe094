"""The tables `messages` and `exchanges`, computed from frame columns in one process or by Spark.

These are the stages in the order of the data flow. partial_tables.py defines the tables between two stages.
1. `SplitAggregator`, for each split: frames become `Partials`; pairs within the split are matched (split_aggregation,
   split_sends, split_deliveries, forwarded_frames).
2. `renumber_table`, for each table: connections and frames are assigned the numbers of the whole recording
   (partial_renumbering).
3. In one process, from the small tables of all splits (`concat_partials`): `collect_facts` determines the owners of ids
   and the gaps (collect_recording_facts, recording_facts, capture_gaps, resend_candidates). `later_acks_of` summarizes
   the cumulative ACKs (cumulative_acks). `pair_sends` matches SENDs and receipts of different splits (unpaired_sends).
   `separate_candidates` removes possible resends from each table ``published``, and `resolve_sends` matches them and
   all unusual SENDs (resent_messages).
4. `merge_bucket`, for each bucket of shuffle keys: messages, and rows that `messages_of_driver` completes
   (bucket_merge, bucket_rows; message_table for usual messages; messages_without_receipt; event_histories,
   entry_history, non_persistent_messages, chunked_messages for all other messages; state_certainty).
5. `exchanges_of_requests` once, and `exchanges_of_acks` for each table ``answered`` (exchange_rows). `pair_acks`
   matches ACKs and responses of different splits (unpaired_acks).
6. In incremental runs, closed_messages separates messages that need not be merged again, and settled_facts determines
   whether this is still valid.

All functions are pure. Tests compare the results with the lifecycles of pcli.codec.observe.tracking.
"""

from pcli.spark.columnar.lifecycles.bucket_merge import MergedBucket, merge_bucket
from pcli.spark.columnar.lifecycles.collect_recording_facts import collect_facts
from pcli.spark.columnar.lifecycles.cumulative_acks import (
    EFFECTIVE,
    SUMMARY,
    acks_by_subscription,
    effective_acks,
    first_acks_after,
    later_acks_of,
    summarize_acks,
)
from pcli.spark.columnar.lifecycles.exchange_rows import exchanges_of_acks, exchanges_of_requests
from pcli.spark.columnar.lifecycles.lifecycle_schemas import (
    EVIDENCE,
    EXCHANGES,
    EXCHANGES_ORDER,
    EXCHANGES_TIME,
    MESSAGES,
    MESSAGES_ORDER,
    MESSAGES_TIME,
)
from pcli.spark.columnar.lifecycles.messages_of_driver import messages_of_driver, questions_of
from pcli.spark.columnar.lifecycles.partial_renumbering import Renumbering, concat_partials, renumber_table
from pcli.spark.columnar.lifecycles.partial_tables import PARTIALS, Partials
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import separate_candidates
from pcli.spark.columnar.lifecycles.resent_messages import RESOLVED, resolve_sends
from pcli.spark.columnar.lifecycles.split_aggregation import Events, SplitAggregator
from pcli.spark.columnar.lifecycles.unpaired_acks import (
    ack_ranges,
    frames_of_acks,
    pair_acks,
    requests_of_bytes,
    separate_requests,
)
from pcli.spark.columnar.lifecycles.unpaired_sends import pair_sends, send_ranges

__all__ = [
    "EFFECTIVE",
    "EVIDENCE",
    "EXCHANGES",
    "EXCHANGES_ORDER",
    "EXCHANGES_TIME",
    "MESSAGES",
    "MESSAGES_ORDER",
    "MESSAGES_TIME",
    "PARTIALS",
    "RESOLVED",
    "SUMMARY",
    "Events",
    "MergedBucket",
    "Partials",
    "RecordingFacts",
    "Renumbering",
    "SplitAggregator",
    "ack_ranges",
    "acks_by_subscription",
    "collect_facts",
    "concat_partials",
    "effective_acks",
    "exchanges_of_acks",
    "exchanges_of_requests",
    "first_acks_after",
    "frames_of_acks",
    "later_acks_of",
    "merge_bucket",
    "messages_of_driver",
    "pair_acks",
    "pair_sends",
    "questions_of",
    "renumber_table",
    "requests_of_bytes",
    "resolve_sends",
    "send_ranges",
    "separate_candidates",
    "separate_requests",
    "summarize_acks",
]
