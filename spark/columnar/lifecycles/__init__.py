"""The tables `messages` and `exchanges`, computed from frame columns in one process or by Spark.

These are the stages in the order of the data flow. partial_tables.py defines the tables between two stages.
1. `SplitAggregator`, for each split: frames become `Partials`; pairs within the split are matched (split_aggregation,
   split_sends, split_deliveries, forwarded_frames).
2. `renumber_table`, for each table: connections and frames are assigned the numbers of the whole recording
   (partial_renumbering).
3. In one process, from the small tables of all splits (`concat_partials`): `collect_facts` determines the owners of ids
   and the gaps (collect_recording_facts, recording_facts, capture_gaps, resend_candidates). `later_acks_of` summarizes
   the cumulative ACKs (cumulative_acks). `pair_sends` matches SENDs and receipts of different splits
   (pairs_across_splits). `separate_candidates` removes possible resends from each table ``published``, and
   `resolve_sends` matches them and all unusual SENDs (resent_messages).
4. `merge_bucket`, for each bucket of shuffle keys: messages, and rows that `messages_of_driver` completes
   (bucket_merge, bucket_rows; message_table for usual messages and messages without a receipt; event_histories,
   entry_history, messages_of_driver for all other messages; state_certainty).
5. `exchanges_of_requests` once, and `exchanges_of_acks` for each table ``answered`` (exchange_rows). `pair_acks`
   matches ACKs and responses of different splits (pairs_across_splits).
6. In incremental runs, closed_messages separates messages that need not be merged again, and settled_facts determines
   whether this is still valid.

All functions are pure. Tests compare the results with the lifecycles of pcli.codec.observe.tracking.
"""

__all__: list[str] = []
