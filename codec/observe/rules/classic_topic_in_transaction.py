"""A transaction of a V5 client that writes to both scalable and classic topics.

## What it means

The topics of transactions of V5 clients (``scalable=true``) contain no markers. A classic topic needs a marker at the
end of a transaction, and a broker 5.0.1 writes none. All steps of the transaction succeed, and so does its commit, but
the messages on the classic topic, and all later messages there, are never delivered.

## On the wire

ADD_PARTITION_TO_TXN with `scalable` and a classic topic, or a SEND in such a transaction to a classic topic.

## What would disprove it

A delivery of the transaction's messages on the classic topic after the commit.

## What to do

Use separate transactions for scalable and classic topics, or migrate the classic topic before (`POST
/admin/v2/scalable/TENANT/NAMESPACE/TOPIC/migrate`).
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.system_topics import is_system_topic
from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.records.connection_records import TransactionRecord
from pcli.codec.scalable.segment_name import scalable_topic


@rule(
    "transaction",
    facts=("scalable", "topics", "action", "ended_frame", "began_ns"),
    title="a transaction over scalable and classic topics",
    issue="PIP-473",
)
def evaluate(transaction: TransactionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if a transaction of a V5 client writes to a classic topic."""
    classic = {name: frame for name, frame in transaction.topics.items() if not scalable_topic(name) and name}
    classic = {name: frame for name, frame in classic.items() if not is_system_topic(name)}
    if not transaction.scalable or not classic:
        return
    most, least = transaction.id
    ended = transaction.action == "COMMIT"
    names = ", ".join(map(short_topic, classic))
    yield Finding(
        "error" if ended else "warning",
        "likely",
        Cause(
            "broker", "likely", ("a later version of the broker that delivers them",), "The statistics of the topic."
        ),
        {"transaction": f"{most}:{least}", "stream": transaction.stream},
        f"Transaction ({most}, {least}) of a V5 client {'wrote' if ended else 'writes'} to the classic "
        f"{'topic' if len(classic) == 1 else 'topics'} {names}{' and was committed' if ended else ''}: a broker 5.0.1 "
        "delivers neither these messages nor later messages of the topic.",
        transaction.began_ns,
        [*classic.values(), transaction.ended_frame],
        "A delivery of these messages after the commit would disprove the finding.",
        "Use separate transactions for scalable and classic topics, or migrate the classic topic.",
        count=len(classic),
        doubts=transaction.doubts - EDGES,
    )
