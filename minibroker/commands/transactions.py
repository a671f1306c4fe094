"""Transaction commands: the responses of a 4.2.4 broker with transactions disabled (the default).

Rules of this file (ServerCnx, TransactionBufferDisable, PendingAckHandleDisabled; verified on 4.2.4)
1. The response to a coordinator command is ERROR instead of the command's response.
2. Ending a transaction on a topic or subscription is a command between brokers. It succeeds if it has no effect: if the
   topic or subscription does not exist, or if a transaction on a topic is committed.

Commands for scalable topics are unknown to 4.2.4 and close the connection like any unknown command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import topic_name

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler, PulsarService
    from pcli.minibroker.topics.topic import Topic

__all__ = ["HANDLERS"]


def _transactions_off(connection: Connection, command: Any, frame: Frame) -> None:
    raise Refused(pb.NotAllowedError, "Transactions are not enabled.")


def _end_on_partition(connection: Connection, command: pb.CommandEndTxnOnPartition, frame: Frame) -> None:
    answer = pb.CommandEndTxnOnPartitionResponse(
        request_id=command.request_id,
        txnid_least_bits=command.txnid_least_bits,
        txnid_most_bits=command.txnid_most_bits,
    )
    try:
        topic = _loaded(connection.broker, command.topic)
        if topic is not None and command.txn_action == pb.ABORT:
            raise Refused(pb.NotAllowedError, "Transaction buffer disable!")
    except Refused as refused:
        answer.error, answer.message = pb.ServerError.ValueType(refused.code), refused.text
    connection.send_command(answer)


def _end_on_subscription(connection: Connection, command: pb.CommandEndTxnOnSubscription, frame: Frame) -> None:
    answer = pb.CommandEndTxnOnSubscriptionResponse(
        request_id=command.request_id,
        txnid_least_bits=command.txnid_least_bits,
        txnid_most_bits=command.txnid_most_bits,
    )
    try:
        topic = _loaded(connection.broker, command.subscription.topic)
        if topic is not None and command.subscription.subscription in topic.subscriptions:
            raise Refused(pb.NotAllowedError, "Handle end txn on subscription failed: The transaction is disabled")
    except Refused as refused:
        answer.error, answer.message = pb.ServerError.ValueType(refused.code), refused.text
    connection.send_command(answer)


def _loaded(broker: PulsarService, text: str) -> Topic | None:
    """Return the topic if it is loaded, or None if it does not exist. Otherwise raises Refused (ServiceNotReady)."""
    name = topic_name(text)
    topic = broker.topics.get(str(name))
    if topic is None and broker.topic_registry.exists(name):
        raise Refused(pb.ServiceNotReady, f"Topic {name} is not found")
    return topic


HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(
        ("TC_CLIENT_CONNECT_REQUEST", "NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN"),
        _transactions_off,
    ),
    "END_TXN_ON_PARTITION": _end_on_partition,
    "END_TXN_ON_SUBSCRIPTION": _end_on_subscription,
}
