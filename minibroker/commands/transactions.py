"""Transaction commands (ServerCnx, TransactionBufferDisable, PendingAckHandleDisabled; verified on 4.2.4).

Rules of this file
1. If transactions are disabled (the default), the response to a coordinator command is ERROR. Otherwise an error is
   sent in the response type of the command, with the transaction id of the request.
2. Ending a transaction on a topic or subscription is a command between brokers that superusers may send. It succeeds
   if the topic or subscription does not exist. If transactions are disabled, only a commit on a topic succeeds.
3. A command with ``scalable`` is for a transaction on scalable topics, which has coordinators of its own
   (`scalable_transactions.py`). If scalable topics are disabled, the field is ignored, as by 4.2.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import signed
from pcli.minibroker.commands.permission_checks import is_superuser, principal_of
from pcli.minibroker.errors import Refused, service_exception
from pcli.minibroker.transactions.metadata_store import not_owned
from pcli.minibroker.transactions.metadata_store_service import assign_topic
from pcli.minibroker.transactions.txn_id import text_of, txn_of

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler, PulsarService
    from pcli.minibroker.transactions.metadata_store import TxnMeta
    from pcli.minibroker.transactions.txn_id import TxnId

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
    scalable = _is_scalable(connection, command)
    if not (scalable and 0 <= number < broker.settings.transactionCoordinatorScalableTopicsParallelism):
        try:
            broker.check_owned(assign_topic(number))
        except Refused as refused:
            raise Refused(refused.code, service_exception("ServiceUnitNotReadyException", refused.text)) from None
    if not scalable:
        broker.transactions.connect(number)
    return True


def _is_scalable(connection: Connection, command: Any) -> bool:
    return bool(command.scalable) and connection.broker.scalable_transactions.enabled


def _new(connection: Connection, command: pb.CommandNewTxn, answer: Any) -> bool:
    answer.txnid_most_bits = command.tc_id
    timeout = signed(command.txn_ttl_millis)
    broker = connection.broker
    service = broker.scalable_transactions if _is_scalable(connection, command) else broker.transactions
    txn = service.new_transaction(signed(command.tc_id), timeout, principal_of(connection))
    if txn is None:
        return False
    answer.txnid_least_bits = txn[1]
    return True


def _add_partitions(connection: Connection, command: pb.CommandAddPartitionToTxn, answer: Any) -> bool:
    _copy_id(command, answer)
    if _is_scalable(connection, command):
        connection.broker.scalable_transactions.add(_owned_scalable(connection, command), topics=command.partitions)
        return True
    txn = _owned(connection, command)
    connection.broker.transactions.store(txn[0]).add_topics(txn, command.partitions)
    return True


def _add_subscriptions(connection: Connection, command: pb.CommandAddSubscriptionToTxn, answer: Any) -> bool:
    _copy_id(command, answer)
    pairs = [(one.topic, one.subscription) for one in command.subscription]
    if _is_scalable(connection, command):
        connection.broker.scalable_transactions.add(_owned_scalable(connection, command), subscriptions=pairs)
        return True
    txn = _owned(connection, command)
    connection.broker.transactions.store(txn[0]).add_subscriptions(txn, pairs)
    return True


def _end(connection: Connection, command: pb.CommandEndTxn, answer: Any) -> bool:
    """End a transaction. The response is sent when it has ended."""
    _copy_id(command, answer)
    commit = command.txn_action == pb.COMMIT
    if _is_scalable(connection, command):
        connection.broker.scalable_transactions.end_transaction(_owned_scalable(connection, command), commit=commit)
        connection.broker.storage.require()
        return True

    def on_end(refused: Refused | None) -> None:
        if refused is not None:
            _put_error(answer, refused)
        connection.send_command(answer)

    connection.broker.transactions.end_transaction(_owned(connection, command), on_end, commit=commit)
    return False


def _owned(connection: Connection, command: Any) -> TxnId:
    """Return the transaction of a command. Raises Refused if another role owns it."""
    txn = txn_of(command)
    if _needs_ownership(connection):
        _check_owner(connection, connection.broker.transactions.store(txn[0]).meta(txn))
    return txn


def _owned_scalable(connection: Connection, command: Any) -> TxnMeta:
    """Return the transaction of a command. Raises Refused if it is unknown or another role owns it."""
    meta = connection.broker.scalable_transactions.meta(txn_of(command), principal_of(connection))
    if _needs_ownership(connection):
        _check_owner(connection, meta)
    return meta


def _needs_ownership(connection: Connection) -> bool:
    """Return whether a client may change only its own transactions (ServerCnx.verifyTxnOwnership)."""
    return connection.principal is not None and not is_superuser(connection)


def _check_owner(connection: Connection, meta: TxnMeta) -> None:
    if meta.owner != principal_of(connection):
        raise not_owned(meta.id, principal_of(connection))


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
    name = broker.topic_registry.topic_name(text)
    if str(name) not in broker.topics and broker.topic_registry.exists(name):
        broker.check_owned(name)


def _watch(connection: Connection, command: pb.CommandWatchTcAssignments, frame: Frame) -> None:
    """Send the coordinators of transactions on scalable topics. This broker has all of them, so they never move."""
    broker = connection.broker
    if not (broker.settings.transactionCoordinatorEnabled and broker.scalable_transactions.enabled):
        raise Refused(pb.ServiceNotReady, "Transaction coordinator not ready")
    count = broker.settings.transactionCoordinatorScalableTopicsParallelism
    url, url_tls = broker.service_url, broker.service_url_tls or None
    assignments = [
        pb.TcAssignment(tc_id=number, broker_service_url=url, broker_service_url_tls=url_tls) for number in range(count)
    ]
    snapshot = pb.TcAssignmentsSnapshot(parallelism=count, assignments=assignments)
    connection.send_command(pb.CommandWatchTcAssignmentsUpdate(watch_id=command.watch_id, snapshot=snapshot))


def _watch_close(connection: Connection, command: pb.CommandWatchTcAssignmentsClose, frame: Frame) -> None:
    """Do nothing: there are no later updates that a closed watch would not receive."""


HANDLERS: Final[dict[str, Handler]] = {
    "TC_CLIENT_CONNECT_REQUEST": _coordinator(pb.CommandTcClientConnectResponse, _connect),
    "NEW_TXN": _coordinator(pb.CommandNewTxnResponse, _new),
    "ADD_PARTITION_TO_TXN": _coordinator(pb.CommandAddPartitionToTxnResponse, _add_partitions),
    "ADD_SUBSCRIPTION_TO_TXN": _coordinator(pb.CommandAddSubscriptionToTxnResponse, _add_subscriptions),
    "END_TXN": _coordinator(pb.CommandEndTxnResponse, _end),
    "END_TXN_ON_PARTITION": _end_on_partition,
    "END_TXN_ON_SUBSCRIPTION": _end_on_subscription,
}

SCALABLE_HANDLERS: Final[dict[str, Handler]] = {
    "WATCH_TC_ASSIGNMENTS": _watch,
    "WATCH_TC_ASSIGNMENTS_CLOSE": _watch_close,
}
