"""Transactions: coordinators, single transactions, and statistics of topics and subscriptions (TransactionsBase).

Rules of this file
1. If transactions are disabled, every response is a 503.
2. A coordinator exists from the first connection of a client on. The statistics of all coordinators are a 500 if one of
   them does not exist yet.
3. A path with an invalid transaction id, and a missing subscription, result in a 500, as on the real broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError, unexpected
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.java_types import INT
from pcli.minibroker.stats.internal_stats import internal_stats
from pcli.minibroker.stats.transaction_stats import (
    buffer_stats,
    coordinator_stats,
    in_buffer_stats,
    in_pending_ack_stats,
    log_stats,
    metadata_stats,
    pending_ack_stats,
    position_state,
)
from pcli.minibroker.topic_names import SNAPSHOT, namespace_of, topic_name
from pcli.minibroker.transactions.metadata_store_service import ASSIGN

if TYPE_CHECKING:
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.transactions.metadata_store import MLTransactionMetadataStore, TxnMeta
    from pcli.minibroker.transactions.txn_id import TxnId

_BASE: Final = "/admin/v3/transactions"
_TOPIC: Final = "{tenant}/{namespace}/{topic}"
_SUBSCRIPTION: Final = f"{_TOPIC}/{{subscription}}"
_TXN: Final = "{most}/{least}"
_INT: Final = (1 << 31) - 1
_COORDINATOR_EXCEPTION: Final = "org.apache.pulsar.transaction.coordinator.exceptions.CoordinatorException"
_EXCEPTIONS: Final[dict[int, str]] = {
    pb.TransactionCoordinatorNotFound: f"{_COORDINATOR_EXCEPTION}$CoordinatorNotFoundException",
    pb.TransactionNotFound: f"{_COORDINATOR_EXCEPTION}$TransactionNotFoundException",
    pb.InvalidTxnStatus: f"{_COORDINATOR_EXCEPTION}$InvalidTxnStatusException",
}
"""The Java exception for each error of a coordinator."""
_PACKAGE: Final = "org.apache.pulsar.broker.service.persistent"


def _enabled(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
    """Return an endpoint that responds with a 503 if transactions are disabled."""

    def serve(call: Call) -> Any:
        if not call.broker.settings.transactionCoordinatorEnabled:
            raise RestError(503, "This Broker is not configured with transactionCoordinatorEnabled=true.")
        return function(call)

    return serve


def _txn(call: Call, *, page: bool = False) -> TxnId:
    return call.parsed("most", page=page), call.parsed("least", page=page)


def _loaded(call: Call) -> Topic:
    """Return the topic in the path. Raises 404 if it is not loaded."""
    try:
        name = TopicName.decoded("persistent", call.namespace_name, call.path["topic"])
    except LocalError:
        raise RestError(412, "Topic name is not valid") from None
    topic = call.broker.topics.get(str(name))
    if topic is None:
        raise RestError(404, f"Topic not found {name}")
    return topic


def _subscription(call: Call, method: str, found_by: str = "java.util.Map.get(Object)") -> Subscription:
    """Return the subscription in the path.

    Raises 500 if it is missing: the real broker then calls ``method`` of the null that ``found_by`` returns.
    """
    topic, name = _loaded(call), call.path_text("subscription")
    if name not in topic.subscriptions:
        called = f"{_PACKAGE}.PersistentSubscription.{method}"
        raise unexpected(f'Cannot invoke "{called}" because the return value of "{found_by}" is null')
    return topic.subscriptions[name]


# -- coordinators ------------------------------------------------------------------------------------------------------


def _count(call: Call) -> int:
    return call.broker.policies.partitioned[ASSIGN]


def _coordinators(call: Call) -> Any:
    return [{"id": number, "brokerServiceUrl": call.broker.service_url} for number in range(_count(call))]


def _scale(call: Call) -> None:
    count = call.body
    if count <= _count(call):
        text = "Number of transaction coordinators should be more than the current number of transaction coordinator"
        raise RestError(406, text)
    call.broker.policies.set_partitions(ASSIGN, count)


def _store(call: Call, number: int) -> MLTransactionMetadataStore:
    store = call.broker.transactions.stores.get(number)
    if store is None:
        raise RestError(404, f"Transaction coordinator not found! coordinator id : {number}")
    return store


def _stores(call: Call) -> dict[int, MLTransactionMetadataStore]:
    """Return all coordinators by id. Raises 500 if one of them does not exist yet."""
    try:
        return {number: _store(call, number) for number in range(_count(call))}
    except RestError as error:
        text = f"org.apache.pulsar.client.admin.PulsarAdminException$NotFoundException: {error.reason}"
        raise unexpected(text, "java.util.concurrent.CompletionException") from None


def _coordinator_stats(call: Call) -> Any:
    number = call.query_number("coordinatorId")
    if number is not None:
        return coordinator_stats(_store(call, number))
    return {str(number): coordinator_stats(store) for number, store in _stores(call).items()}


# -- transactions ------------------------------------------------------------------------------------------------------


def _metadata(call: Call) -> Any:
    txn = _txn(call, page=True)
    try:
        meta = call.broker.transactions.store(txn[0]).meta(txn)
    except Refused as refused:
        raise RestError(404, refused.text) from None
    return _describe(call, meta)


def _describe(call: Call, meta: TxnMeta) -> dict[str, Any]:
    """Return a transaction with its state on all topics and subscriptions. Raises 500 if one does not exist."""
    acked: dict[str, Any] = {}
    for text, name in sorted(meta.subscriptions):
        subscription = _part(call, text).subscriptions.get(name)
        if subscription is None:
            raise unexpected(f"the subscription {name} does not exist")
        acked.setdefault(text, {})[name] = in_pending_ack_stats(subscription, meta.id)
    produced = {text: in_buffer_stats(_part(call, text), meta.id) for text in sorted(meta.topics)}
    return {**metadata_stats(meta), "producedPartitions": produced, "ackedPartitions": acked}


def _part(call: Call, text: str) -> Topic:
    topic = call.broker.topics.get(str(topic_name(text)))
    if topic is None:
        raise unexpected(f"Topic not found {text}")
    return topic


def _slow(call: Call) -> Any:
    timeout, number = call.parsed("timeout", page=True), call.query_number("coordinatorId")
    stores = list(_stores(call).values()) if number is None else [_store(call, number)]
    found = [meta for store in stores for meta in store.metas.values() if meta.timeout_ms > timeout]
    described = [_describe(call, meta) for meta in found]
    return {one["txnId"]: one for one in described}


def _abort(call: Call) -> None:
    txn = _txn(call)
    if not 0 <= txn[0] <= _INT:
        raise unexpected("mostSigBits out of bounds", "java.lang.IllegalArgumentException")
    try:
        call.broker.transactions.end_transaction(txn, lambda _: None, commit=False)
    except Refused as refused:
        raise unexpected(refused.text, _EXCEPTIONS.get(refused.code, _COORDINATOR_EXCEPTION)) from None


# -- topics and subscriptions ------------------------------------------------------------------------------------------


def _in_buffer(call: Call) -> Any:
    txn = _txn(call)
    return in_buffer_stats(_loaded(call), txn)


def _in_pending_ack(call: Call) -> Any:
    txn = _txn(call)
    method = "getTransactionInPendingAckStats(org.apache.pulsar.client.api.transaction.TxnID)"
    return in_pending_ack_stats(_subscription(call, method), txn)


def _buffer(call: Call) -> Any:
    return buffer_stats(_loaded(call), low_water_marks=call.flag("lowWaterMarks"))


def _pending_ack(call: Call) -> Any:
    subscription = _subscription(call, "getTransactionPendingAckStats(boolean)")
    return pending_ack_stats(subscription, low_water_marks=call.flag("lowWaterMarks"))


def _coordinator_log(call: Call) -> Any:
    number = call.parsed("coordinator", 32, page=True)
    store = _store(call, number)
    properties = {"max_local_txn_id": "-1"}
    name = f"pulsar/system/persistent/__transaction_log_{number}"
    log = log_stats(name, "transaction.subscription", store.updates, properties, store.opened_ms)
    return {"transactionLogStats": log}


def _pending_ack_log(call: Call) -> Any:
    topic, name = _loaded(call), call.path_text("subscription")
    if name not in topic.subscriptions:
        raise RestError(404, f"{topic.full_name} not found subscription : {name}")
    handle = topic.subscriptions[name].pending_ack_handle
    if handle is None or not handle.initialized_ms:
        raise RestError(503, "Pending ack have not init success!")
    log = f"{namespace_of(topic.name)}/persistent/{topic.name.encoded_local}-{name}__transaction_pending_ack"
    stats = log_stats(
        log,
        "__pending_ack_state",
        len(handle.transactions) + (handle.cumulative is not None),
        {},
        handle.initialized_ms,
    )
    return {"pendingAckLogStats": stats}


def _buffer_log(call: Call) -> Any:
    """Return the internal stats of the namespace's topic of snapshots. It stays empty: no snapshots are taken."""
    topic = _loaded(call)
    name = f"persistent://{namespace_of(topic.name)}/{SNAPSHOT}"
    snapshots = call.broker.topic_registry.load(TopicName.parse(name))
    if snapshots is None:
        raise RestError(404, f"Topic not found {name}")
    stats = {"managedLedgerName": SNAPSHOT, "managedLedgerInternalStats": internal_stats(snapshots)}
    return {"snapshotType": "Single", "singleSnapshotSystemTopicInternalStats": stats}


def _position(call: Call) -> Any:
    place = call.path_number("ledger"), call.path_number("entry")
    method = "checkPositionInPendingAckState(org.apache.bookkeeper.mledger.Position, java.lang.Integer)"
    subscription = _subscription(call, method, f"{_PACKAGE}.PersistentTopic.getSubscription(String)")
    return {"state": position_state(subscription, place, call.query_number("batchIndex"))}


_ROWS: Final = (
    ("GET", "coordinators", _coordinators, "transaction coordinators"),
    ("GET", "coordinatorStats", _coordinator_stats, "statistics of one or all transaction coordinators"),
    ("GET", f"transactionMetadata/{_TXN}", _metadata, "a transaction, with its topics and subscriptions"),
    ("GET", "slowTransactions/{timeout}", _slow, "transactions whose timeout is longer than a number of milliseconds"),
    ("POST", f"abortTransaction/{_TXN}", _abort, "abort a transaction"),
    ("GET", f"transactionInBufferStats/{_TOPIC}/{_TXN}", _in_buffer, "state of a transaction in a topic"),
    (
        "GET",
        f"transactionInPendingAckStats/{_SUBSCRIPTION}/{_TXN}",
        _in_pending_ack,
        "cumulative acknowledgement of a transaction",
    ),
    ("GET", f"transactionBufferStats/{_TOPIC}", _buffer, "transactions of a topic"),
    ("GET", "coordinatorInternalStats/{coordinator}", _coordinator_log, "the log of a transaction coordinator"),
    ("GET", f"pendingAckInternalStats/{_SUBSCRIPTION}", _pending_ack_log, "the log of pending acknowledgements"),
    ("GET", f"transactionBufferInternalStats/{_TOPIC}", _buffer_log, "the topic of transaction snapshots"),
    ("GET", f"pendingAckStats/{_SUBSCRIPTION}", _pending_ack, "acknowledgements in open transactions"),
    (
        "GET",
        f"positionStatsInPendingAck/{_SUBSCRIPTION}/{{ledger}}/{{entry}}",
        _position,
        "whether an acknowledgement of a message is pending",
    ),
)

_NUMBERS: Final[dict[Callable[[Call], Any], dict[str, int]]] = {
    _coordinator_stats: {"coordinatorId": 32},
    _slow: {"coordinatorId": 32},
    _position: {"ledger": 64, "entry": 64, "batchIndex": 32},
}
"""The parameters that must be numbers, with their numbers of bits."""

ENDPOINTS: Final = (
    *(
        Endpoint(method, f"{_BASE}/{path}", _enabled(function), text, numbers=_NUMBERS.get(function, {}))
        for method, path, function, text in _ROWS
    ),
    Endpoint("POST", f"{_BASE}/transactionCoordinator/replicas", _enabled(_scale), "add transaction coordinators", INT),
)
