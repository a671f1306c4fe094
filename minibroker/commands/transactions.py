"""Transaction commands (ServerCnx, TransactionBufferDisable, PendingAckHandleDisabled; verified on 4.2.4).

Rules of this file
1. If transactions are disabled (the default), the response to a coordinator command is ERROR. Otherwise an error is
   sent in the response type of the command, with the transaction id of the request.
2. Ending a transaction on a topic or subscription is a command between brokers that superusers may send. It succeeds
   if the topic or subscription does not exist. If transactions are disabled, only a commit on a topic succeeds.

Commands for scalable topics are unknown to 4.2.4 and close the connection like any unknown command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import signed
from pcli.minibroker.commands.permission_checks import is_superuser, principal_of
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import topic_name
from pcli.minibroker.transactions.metadata_store_service import assign_topic
from pcli.minibroker.transactions.txn_id import text_of, txn_of

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler, PulsarService
    from pcli.minibroker.transactions.txn_id import TxnId

__all__ = ["HANDLERS"]

_Coordinate = Callable[["Connection", Any, Any], bool]
"""The type of the functions that handle a coordinator command: function(connection, command, response).

Raises Refused. Returns whether the response is sent now.
"""


def _coordinator(make: Callable[..., Any], coordinate: _Coordinate) -> Handler:
    """Return the handler of a coordinator command."""

    def handle(connection: Connection, command: Any, frame: Frame) -> None:
        if not connection.broker.settings.transactionCoordinatorEnabled:
            raise Refused(pb.NotAllowedError, "Transactions are not enabled.")
        answer = make(request_id=command.request_id)
        try:
            now = coordinate(connection, command, answer)
        except Refused as refused:
            now = True
            _put_error(answer, refused)
        if now:
            connection.send_command(answer)

    return handle


def _put_error(answer: Any, refused: Refused) -> None:
    answer.error, answer.message = pb.ServerError.ValueType(refused.code), refused.text


def _copy_id(command: Any, answer: Any) -> None:
    answer.txnid_most_bits, answer.txnid_least_bits = command.txnid_most_bits, command.txnid_least_bits


def _connect(connection: Connection, command: pb.CommandTcClientConnectRequest, answer: Any) -> bool:
    """Open a coordinator. Raises Refused (ServiceNotReady) if its bundle is not served."""
    broker, number = connection.broker, signed(command.tc_id)
    broker.check_owned(assign_topic(number))
    broker.transactions.connect(number)
    return True


def _new(connection: Connection, command: pb.CommandNewTxn, answer: Any) -> bool:
    answer.txnid_most_bits = command.tc_id
    timeout = signed(command.txn_ttl_millis)
    txn = connection.broker.transactions.new_transaction(signed(command.tc_id), timeout, principal_of(connection))
    if txn is None:
        return False
    answer.txnid_least_bits = txn[1]
    return True


def _add_partitions(connection: Connection, command: pb.CommandAddPartitionToTxn, answer: Any) -> bool:
    _copy_id(command, answer)
    txn = _owned(connection, command)
    connection.broker.transactions.store(txn[0]).add_topics(txn, command.partitions)
    return True


def _add_subscriptions(connection: Connection, command: pb.CommandAddSubscriptionToTxn, answer: Any) -> bool:
    _copy_id(command, answer)
    txn = _owned(connection, command)
    pairs = [(one.topic, one.subscription) for one in command.subscription]
    connection.broker.transactions.store(txn[0]).add_subscriptions(txn, pairs)
    return True


def _end(connection: Connection, command: pb.CommandEndTxn, answer: Any) -> bool:
    """End a transaction. The response is sent when it has ended."""
    _copy_id(command, answer)

    def on_end(refused: Refused | None) -> None:
        if refused is not None:
            _put_error(answer, refused)
        connection.send_command(answer)

    commit = command.txn_action == pb.COMMIT
    connection.broker.transactions.end_transaction(_owned(connection, command), on_end, commit=commit)
    return False


def _owned(connection: Connection, command: Any) -> TxnId:
    """Return the transaction of a command. Raises Refused if another role owns it (ServerCnx.verifyTxnOwnership)."""
    txn, principal = txn_of(command), principal_of(connection)
    if connection.principal is not None and not is_superuser(connection):
        meta = connection.broker.transactions.store(txn[0]).meta(txn)
        if meta.owner != principal:
            text = f"Client ({principal}) is neither the owner of the transaction {text_of(txn)} nor a super user"
            raise Refused(pb.TransactionNotFound, text)
    return txn


def _require_superuser(connection: Connection, txn: TxnId) -> None:
    """Raise Refused if a client may not send the commands of coordinators to brokers."""
    if not is_superuser(connection):
        client = f"TC client ({principal_of(connection)}) is not a super user"
        text = f"{client}, and is not allowed to operate on transaction {text_of(txn)}"
        raise Refused(pb.TransactionNotFound, text)


def _end_on_partition(connection: Connection, command: pb.CommandEndTxnOnPartition, frame: Frame) -> None:
    answer = pb.CommandEndTxnOnPartitionResponse(request_id=command.request_id)
    _copy_id(command, answer)
    broker, mark = connection.broker, signed(command.txnid_least_bits_of_low_watermark)
    try:
        _require_superuser(connection, txn_of(command))
        _check_loadable(broker, command.topic)
        commit = command.txn_action == pb.COMMIT
        broker.transaction_buffers.end_on_topic(command.topic, txn_of(command), mark, commit=commit)
    except Refused as refused:
        _put_error(answer, refused)
    broker.storage.require()
    connection.send_command(answer)


def _end_on_subscription(connection: Connection, command: pb.CommandEndTxnOnSubscription, frame: Frame) -> None:
    answer = pb.CommandEndTxnOnSubscriptionResponse(request_id=command.request_id)
    _copy_id(command, answer)
    broker, mark = connection.broker, signed(command.txnid_least_bits_of_low_watermark)
    topic, name = command.subscription.topic, command.subscription.subscription
    try:
        _require_superuser(connection, txn_of(command))
        _check_loadable(broker, topic)
        commit = command.txn_action == pb.COMMIT
        broker.transaction_buffers.end_on_subscription(topic, name, txn_of(command), mark, commit=commit)
    except Refused as refused:
        _put_error(answer, Refused(refused.code, f"Handle end txn on subscription failed: {refused.text}"))
    broker.storage.require()
    connection.send_command(answer)


def _check_loadable(broker: PulsarService, text: str) -> None:
    """Raise Refused (ServiceNotReady) if a topic exists, but is not loaded and its bundle is not served."""
    name = topic_name(text)
    if str(name) not in broker.topics and broker.topic_registry.exists(name):
        broker.check_owned(name)


HANDLERS: Final[dict[str, Handler]] = {
    "TC_CLIENT_CONNECT_REQUEST": _coordinator(pb.CommandTcClientConnectResponse, _connect),
    "NEW_TXN": _coordinator(pb.CommandNewTxnResponse, _new),
    "ADD_PARTITION_TO_TXN": _coordinator(pb.CommandAddPartitionToTxnResponse, _add_partitions),
    "ADD_SUBSCRIPTION_TO_TXN": _coordinator(pb.CommandAddSubscriptionToTxnResponse, _add_subscriptions),
    "END_TXN": _coordinator(pb.CommandEndTxnResponse, _end),
    "END_TXN_ON_PARTITION": _end_on_partition,
    "END_TXN_ON_SUBSCRIPTION": _end_on_subscription,
}
