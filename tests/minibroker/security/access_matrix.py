"""The access matrix: the outcome of every command and REST request for clients with different permissions.

Rules of this file
1. CONVERSATIONS has the commands before the one under test; the last command is the one under test. A client sends all
   of them, even if the broker refuses the first one.
2. A command of the other direction, and a command without a conversation, has only its required fields.
3. An outcome lists the responses to the last command and whether the connection is closed: `ERROR AuthorizationError`,
   `closed`, `-` for no response.
4. RECORDED has the outcomes on a real 4.2.4, and `admin/answers-of-roles.jsonl` the requests that it refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.commands import BY_NAME
from pcli.minibroker.admin.endpoint import VARIANTS
from pcli.minibroker.admin.endpoint_table import ENDPOINTS
from pcli.minibroker.security.tokens import create_token

RECORDED = Path(__file__).with_name("access-matrix.jsonl")
RECORDED_REQUESTS = Path(__file__).parent.parent / "admin" / "answers-of-roles.jsonl"
REST_ROLES = ("nobody", "prod", "cons", "pack", "func", "boss")
TOPIC = "persistent://public/default/t"
COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
SECRET = "data:;base64," + "QUJD" * 12
SETTINGS = {
    "authenticationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": SECRET,
    "tokenAudienceClaim": "aud",
    "tokenAudience": "broker",
    "authorizationEnabled": "true",
    "superUserRoles": "admin,superproxy",
    "proxyRoles": "proxy,superproxy",
    "transactionCoordinatorEnabled": "true",
}
"""The settings of the broker, the mini-broker and the real one."""
GRANTS = [
    ("POST", "/admin/v2/tenants/public", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}),
    ("POST", "/admin/v2/namespaces/public/default/permissions/prod", ["produce"]),
    ("POST", "/admin/v2/namespaces/public/default/permissions/cons", ["consume"]),
    ("POST", "/admin/v2/namespaces/public/default/permissions/proxy", ["produce", "consume"]),
]
"""Requests of the superuser that give the roles their permissions."""
CLIENTS: dict[str, dict[str, str] | None] = {
    "no CONNECT": None,
    "nobody": {"role": "nobody"},
    "prod": {"role": "prod"},
    "cons": {"role": "cons"},
    "boss": {"role": "boss"},
    "proxy": {"role": "proxy", "original_principal": "nobody"},
    "superproxy": {"role": "superproxy", "original_principal": "nobody"},
    "admin": {"role": "admin"},
}
"""The clients by name: the role of the token and the principal that a proxy forwards; None sends no CONNECT."""

_RUNNING: dict[str, Any] = {"consumer_id": 1, "request_id": 9}


def _lookup() -> Any:
    return pb.CommandLookupTopic(topic=TOPIC, request_id=1)


def _subscribe() -> Any:
    return pb.CommandSubscribe(
        topic=TOPIC, subscription="work", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=2
    )


def _producer() -> Any:
    return pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=3)


def _message_id() -> Any:
    return pb.MessageIdData(ledgerId=0, entryId=0)


_SCHEMA = pb.Schema(name="", type=pb.Schema.String, schema_data=b"")

CONVERSATIONS: dict[str, Callable[[Any], list[Any]]] = {
    "CONNECT": lambda _: [pb.CommandConnect(client_version="matrix", protocol_version=21)],
    "AUTH_RESPONSE": lambda _: [
        pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=b"forged"))
    ],
    "LOOKUP": lambda _: [_lookup()],
    "PARTITIONED_METADATA": lambda _: [pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=9)],
    "PRODUCER": lambda _: [_producer()],
    "CLOSE_PRODUCER": lambda _: [_producer(), pb.CommandCloseProducer(producer_id=1, request_id=9)],
    "SEND": lambda _: [_producer(), pb.CommandSend(producer_id=1, sequence_id=0, num_messages=1)],
    "SUBSCRIBE": lambda _: [_subscribe()],
    "FLOW": lambda _: [_subscribe(), pb.CommandFlow(consumer_id=1, messagePermits=1)],
    "ACK": lambda _: [
        _subscribe(),
        pb.CommandAck(ack_type=pb.CommandAck.Individual, message_id=[_message_id()], **_RUNNING),
    ],
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": lambda _: [
        _subscribe(),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
    ],
    "SEEK": lambda _: [_subscribe(), pb.CommandSeek(message_id=_message_id(), **_RUNNING)],
    "GET_LAST_MESSAGE_ID": lambda _: [_subscribe(), pb.CommandGetLastMessageId(**_RUNNING)],
    "CONSUMER_STATS": lambda _: [_subscribe(), pb.CommandConsumerStats(**_RUNNING)],
    "UNSUBSCRIBE": lambda _: [_subscribe(), pb.CommandUnsubscribe(**_RUNNING)],
    "CLOSE_CONSUMER": lambda _: [_subscribe(), pb.CommandCloseConsumer(**_RUNNING)],
    "GET_TOPICS_OF_NAMESPACE": lambda _: [pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=9)],
    "WATCH_TOPIC_LIST": lambda _: [_watch()],
    "WATCH_TOPIC_LIST_CLOSE": lambda _: [_watch(), pb.CommandWatchTopicListClose(watcher_id=1, request_id=9)],
    "GET_SCHEMA": lambda _: [pb.CommandGetSchema(topic=TOPIC, request_id=9)],
    "GET_OR_CREATE_SCHEMA": lambda _: [pb.CommandGetOrCreateSchema(topic=TOPIC, request_id=9, schema=_SCHEMA)],
    "TC_CLIENT_CONNECT_REQUEST": lambda _: [pb.CommandTcClientConnectRequest(tc_id=0, request_id=9)],
    "NEW_TXN": lambda _: [pb.CommandNewTxn(tc_id=0, txn_ttl_millis=60000, request_id=9)],
    "ADD_PARTITION_TO_TXN": lambda txn: [pb.CommandAddPartitionToTxn(partitions=[TOPIC], request_id=9, **txn())],
    "ADD_SUBSCRIPTION_TO_TXN": lambda txn: [
        pb.CommandAddSubscriptionToTxn(
            subscription=[pb.Subscription(topic=TOPIC, subscription="work")], request_id=9, **txn()
        )
    ],
    "END_TXN": lambda txn: [pb.CommandEndTxn(txn_action=pb.ABORT, request_id=9, **txn())],
    "END_TXN_ON_PARTITION": lambda txn: [
        pb.CommandEndTxnOnPartition(topic=TOPIC, txn_action=pb.ABORT, request_id=9, **txn())
    ],
    "END_TXN_ON_SUBSCRIPTION": lambda txn: [
        pb.CommandEndTxnOnSubscription(
            subscription=pb.Subscription(topic=TOPIC, subscription="work"),
            txn_action=pb.ABORT,
            request_id=9,
            **txn(),
        )
    ],
}
"""The commands by the name of the last one. The argument returns the id of a new transaction of the superuser."""


def _watch() -> Any:
    return pb.CommandWatchTopicList(namespace="public/default", topics_pattern="t.*", watcher_id=1, request_id=8)


def conversation(name: str, new_transaction: Callable[[], dict[str, int]]) -> list[Any]:
    """Return the commands that a client sends to attempt a command."""
    make = CONVERSATIONS.get(name)
    if make is not None:
        return make(new_transaction)
    return [_with_required_fields(getattr(pb.BaseCommand(), BY_NAME[name].field))]


def _with_required_fields(message: Any) -> Any:
    """Set the required fields of a message to 1, an empty value or the first value of the type."""
    for field in message.DESCRIPTOR.fields:
        if field.is_required and field.message_type is not None:
            _with_required_fields(getattr(message, field.name))
            getattr(message, field.name).SetInParent()
        elif field.is_required:
            setattr(message, field.name, _VALUES.get(field.cpp_type, 1))
    message.SetInParent()
    return message


_VALUES = {
    FieldDescriptor.CPPTYPE_STRING: "",
    FieldDescriptor.CPPTYPE_ENUM: 0,
    FieldDescriptor.CPPTYPE_BOOL: False,
}


def entry_of(body: Any) -> bytes:
    """Return the entry that follows a command: one message after SEND, otherwise nothing."""
    if not isinstance(body, pb.CommandSend):
        return b""
    return push_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"hello")


def outcome(events: Iterable[Any], *, closed: bool) -> str:
    """Return the outcome in the form of rule 3, from the events of a ClientSession."""
    words = []
    for event in events:
        code = _error(event.body)
        words.append(f"{event.name} {code}" if code else event.name)
    if closed:
        words.append("closed")
    return " + ".join(words) or "-"


def _error(body: Any) -> str:
    for field in ("error", "error_code"):
        if field in body.DESCRIPTOR.fields_by_name and body.HasField(field):
            return pb.ServerError.Name(getattr(body, field))
    return ""


def token(role: str, **claims: Any) -> str:
    """Return a valid token of a role, with other claims if they are given."""
    return create_token({"sub": role, "aud": "broker", **claims}, secret=SECRET)


def connect_fields(client: dict[str, str]) -> dict[str, Any]:
    """Return the fields of CONNECT for one of CLIENTS."""
    others = {name: value for name, value in client.items() if name != "role"}
    return {"auth_method_name": "token", "auth_data": token(client["role"]).encode(), **others}


Send = Callable[[Any], list[Any]]
"""A function that sends a command and returns the events of the responses."""


def prepare(send: Send) -> None:
    """Look up the topics and open the coordinator, with a superuser's connection."""
    for topic in (TOPIC, COORDINATOR):
        send(pb.CommandLookupTopic(topic=topic, request_id=1))
    send(pb.CommandTcClientConnectRequest(tc_id=0, request_id=2))


def new_transaction(send: Send) -> dict[str, int]:
    """Return the id of a new transaction, as fields of a command."""
    [event] = send(pb.CommandNewTxn(tc_id=0, txn_ttl_millis=600_000, request_id=3))
    return {"txnid_most_bits": event.body.txnid_most_bits, "txnid_least_bits": event.body.txnid_least_bits}


def attempt(name: str, open_client: Callable[..., Any], new_txn: Callable[[], dict[str, int]]) -> dict[str, str]:
    """Return the outcomes of a command by client. A client has `send` and `closed`."""
    outcomes = {}
    for label, fields in CLIENTS.items():
        client, events = open_client(fields), []
        for body in conversation(name, new_txn):
            events = [] if client.closed else client.send(body)
        outcomes[label] = outcome(events, closed=client.closed)
        client.leave()
    return outcomes


def recorded() -> dict[str, dict[str, str]]:
    """Return the outcomes on a real broker, by command and client."""
    rows = map(json.loads, RECORDED.read_text().splitlines())
    return {row.pop("command"): row for row in rows}


def routes() -> Iterator[tuple[str, str]]:
    """Return the method and path of every endpoint of 4.2.4, with each value of the parameters that have some, in
    matching order.
    """
    for endpoint in ENDPOINTS:
        if endpoint.setting:
            continue
        paths = [endpoint.path]
        for name, values in VARIANTS.items():
            paths = [path.replace(f"{{{name}}}", value) for path in paths for value in values]
        for path in dict.fromkeys(paths):
            yield endpoint.method, path


def recorded_requests() -> dict[tuple[str, str], dict[str, str]]:
    """Return the refusals of a real broker by endpoint and role. The recorded requests of an endpoint are merged."""
    patterns = [(*route, re.compile(re.sub(r"\{\w+\}", "[^/]+", route[1]))) for route in routes()]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in map(json.loads, RECORDED_REQUESTS.read_text().splitlines()):
        sent = row["path"].partition("?")[0]
        route = next((m, path) for m, path, pattern in patterns if m == row["method"] and pattern.fullmatch(sent))
        refused = found.setdefault(route, {})
        for text, roles in row["refused"].items():
            refused.update(dict.fromkeys(roles, text))
    return found
