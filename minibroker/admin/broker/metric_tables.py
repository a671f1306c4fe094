"""The metrics of topics, subscriptions, producers and consumers: names and the fields of the stats that they report."""

from __future__ import annotations

from typing import Final

LATENCIES: Final = ("le_0_5", "le_1", "le_5", "le_10", "le_20", "le_50", "le_100", "le_200", "le_1000", "overflow")
"""The buckets of the time of a write, in milliseconds."""

TOPIC: Final = {
    "pulsar_rate_in": "msgRateIn",
    "pulsar_rate_out": "msgRateOut",
    "pulsar_throughput_in": "msgThroughputIn",
    "pulsar_throughput_out": "msgThroughputOut",
    "pulsar_average_msg_size": "averageMsgSize",
    "pulsar_storage_size": "storageSize",
    "pulsar_storage_logical_size": "storageSize",
    "pulsar_storage_backlog_size": "backlogSize",
    "pulsar_storage_backlog_age_seconds": "oldestBacklogMessageAgeSeconds",
    "pulsar_storage_backlog_quota_limit": "backlogQuotaLimitSize",
    "pulsar_storage_backlog_quota_limit_time": "backlogQuotaLimitTime",
    "pulsar_storage_offloaded_size": "offloadedStorageSize",
    "pulsar_publish_rate_limit_times": "publishRateLimitedTimes",
    "pulsar_in_bytes_total": "bytesInCounter",
    "pulsar_in_messages_total": "msgInCounter",
    "pulsar_delayed_message_index_size_bytes": "delayedMessageIndexSizeInBytes",
}
"""Field in the topic stats for each metric of a topic."""

TRANSACTION_BUFFER: Final = {
    "pulsar_txn_tb_active_total": "ongoingTxnCount",
    "pulsar_txn_tb_aborted_total": "abortedTxnCount",
    "pulsar_txn_tb_committed_total": "committedTxnCount",
}
"""Field in the topic stats for each metric of the transactions of a topic."""

SUBSCRIPTION: Final = {
    "pulsar_subscription_back_log": "msgBacklog",
    "pulsar_subscription_back_log_no_delayed": "msgBacklogNoDelayed",
    "pulsar_subscription_delayed": "msgDelayed",
    "pulsar_subscription_delayed_message_index_size_bytes": "delayedMessageIndexSizeInBytes",
    "pulsar_subscription_in_replay": "msgInReplay",
    "pulsar_subscription_msg_rate_redeliver": "msgRateRedeliver",
    "pulsar_subscription_msg_ack_rate": "messageAckRate",
    "pulsar_subscription_unacked_messages": "unackedMessages",
    "pulsar_subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "pulsar_subscription_msg_rate_out": "msgRateOut",
    "pulsar_subscription_msg_throughput_out": "msgThroughputOut",
    "pulsar_subscription_msg_rate_expired": "msgRateExpired",
    "pulsar_subscription_total_msg_expired": "totalMsgExpired",
    "pulsar_subscription_last_expire_timestamp": "lastExpireTimestamp",
    "pulsar_subscription_last_acked_timestamp": "lastAckedTimestamp",
    "pulsar_subscription_last_consumed_flow_timestamp": "lastConsumedFlowTimestamp",
    "pulsar_subscription_last_consumed_timestamp": "lastConsumedTimestamp",
    "pulsar_subscription_last_mark_delete_advanced_timestamp": "lastMarkDeleteAdvancedTimestamp",
    "pulsar_subscription_filter_processed_msg_count": "filterProcessedMsgCount",
    "pulsar_subscription_filter_accepted_msg_count": "filterAcceptedMsgCount",
    "pulsar_subscription_filter_rejected_msg_count": "filterRejectedMsgCount",
    "pulsar_subscription_filter_rescheduled_msg_count": "filterRescheduledMsgCount",
    "pulsar_out_bytes_total": "bytesOutCounter",
    "pulsar_out_messages_total": "msgOutCounter",
}
"""Field in the subscription stats for each metric of a subscription."""

PRODUCER: Final = {
    "pulsar_producer_msg_rate_in": "msgRateIn",
    "pulsar_producer_msg_throughput_in": "msgThroughputIn",
    "pulsar_producer_msg_average_Size": "averageMsgSize",
}
"""Field in the publisher stats for each metric of a producer."""

CONSUMER: Final = {
    "pulsar_consumer_msg_rate_redeliver": "msgRateRedeliver",
    "pulsar_consumer_unacked_messages": "unackedMessages",
    "pulsar_consumer_blocked_on_unacked_messages": "blockedConsumerOnUnackedMsgs",
    "pulsar_consumer_msg_rate_out": "msgRateOut",
    "pulsar_consumer_msg_ack_rate": "messageAckRate",
    "pulsar_consumer_msg_throughput_out": "msgThroughputOut",
    "pulsar_consumer_available_permits": "availablePermits",
    "pulsar_out_bytes_total": "bytesOutCounter",
    "pulsar_out_messages_total": "msgOutCounter",
}
"""Field in the consumer stats for each metric of a consumer."""

_SUMS: Final = """
pulsar_subscriptions_count pulsar_producers_count pulsar_consumers_count pulsar_msg_backlog
pulsar_rate_in pulsar_rate_out pulsar_throughput_in pulsar_throughput_out
pulsar_in_bytes_total pulsar_in_messages_total pulsar_out_bytes_total pulsar_out_messages_total
pulsar_storage_size pulsar_storage_logical_size pulsar_storage_backlog_size pulsar_storage_offloaded_size
pulsar_storage_write_rate pulsar_storage_read_rate pulsar_storage_read_cache_misses_rate
pulsar_storage_backlog_quota_exceeded_evictions_total pulsar_subscription_delayed pulsar_subscription_in_replay
pulsar_delayed_message_index_size_bytes
"""

NAMESPACE: Final = {
    **{name: name for name in (*_SUMS.split(), *TRANSACTION_BUFFER)},
    **{
        name: name
        for operation in ("write", "ledger_write")
        for name in (f"pulsar_storage_{operation}_latency_{bucket}" for bucket in (*LATENCIES, "count", "sum"))
    },
    "pulsar_consumer_msg_ack_rate": "pulsar_subscription_msg_ack_rate",
}
"""The metric of topics or subscriptions that is summed for each metric of a namespace."""

_BROKER_SUMS: Final = """
rate_in rate_out throughput_in throughput_out storage_size storage_logical_size producers_count consumers_count
subscriptions_count msg_backlog storage_write_rate storage_read_rate storage_read_cache_misses_rate
"""
BROKER: Final = {f"pulsar_broker_{name}": f"pulsar_{name}" for name in _BROKER_SUMS.split()}
"""The topic metric that is summed for each metric of the broker."""
