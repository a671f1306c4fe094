"""The rules of a diagnosis. A rule reads one record and yields findings.

finding.py defines rules and findings. Every module of this package is imported, and defines its rules with `rule`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from pcli.codec.observe.rules.finding import DEFINED, Cause, Finding, Moment, Rule

__all__ = ["RULES", "Cause", "Finding", "Moment", "Rule"]

_ORDER: Final = (
    # consumers, subscriptions, keys
    "stuck-no-permits", "paused-client", "stuck-unacked-limit", "stuck-blocked-hash", "stuck-open-transaction",
    "slots-unowned", "standby", "dispatcher-silent", "permits-leaked", "permits-doubled", "permits-wrong-count",
    "messages-dropped", "never-acked", "ack-lost", "redelivered-after-reconnect", "redelivered-after-ack-timeout",
    "redelivered-after-nack", "redelivered-after-abort", "rewound", "after-seek", "redelivered-without-cause",
    "redelivery-storm", "poison-message", "key-order-broken", "mixed-key-batches", "double-subscribe",
    "subscribe-refused", "subscription-recreated", "balance-mismatch", "queue-of-one", "ack-timeout-too-short",
    "whole-batches-again", "batch-acked-by-index",
    # producers, transactions
    "producer-stuck", "producer-waiting", "receipts-out-of-order", "receipts-unexpected", "sequence-gap",
    "resend-refused", "resend-stored", "duplicated-by-restart", "chunk-resent", "clock-skew", "producer-refused",
    "schema-refused", "schema-refused-consumer", "transaction-open",
    # scalable topics
    "segment-unattended", "segment-not-released", "parent-not-drained", "stale-layout", "layout-swings",
    "no-controller", "skewed-segments", "key-order-across-segments", "scalable-name-as-topic",
    "scalable-name-refused", "classic-topic-in-transaction", "entry-in-two-buckets", "key-in-wrong-segment",
    "stored-in-two-segments",
    # connections, hosts, exchanges, the capture
    "first-bytes", "auth-refused", "auth-expired", "broker-unavailable", "reconnect-loop", "keep-alive-missed",
    "consumer-reconnect-loop", "producer-reconnect-loop", "request-refused", "slow-answers", "answers-missing",
    "answers-out-of-order", "wrong-crc", "oversize-frame", "watcher-gap", "old-protocol", "deprecated-command",
    "capture-incomplete",
)  # fmt: skip
"""The order of --explain, and of findings with the same weight."""

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

RULES: Final[dict[str, Rule]] = {name: DEFINED[name] for name in _ORDER}
"""Every rule by its name."""
