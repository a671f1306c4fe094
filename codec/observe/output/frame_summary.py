"""One frame as one line of text: sender, subject, amounts, delays and problems.

Rules of this file
1. For each command type in a table, a function selects the most important facts. For other types the fields are listed.
2. The observer resolves ids to names. If the capture lacks the name, the line contains the id, such as ``#3``.
3. All text from the wire passes through `printable`. Secrets are never included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from pcli.codec.observe.fields.id_readers import message_id_text
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.output.body_values import Values, body_values
from pcli.codec.observe.text_format import printable, short_topic, size_text
from pcli.codec.scalable.layout import changes, contradictions
from pcli.codec.wire.commands import BY_NAME, COMMANDS, name_of
from pcli.codec.wire.message_id import MessageId, signed
from pcli.codec.wire.topic_name import full_name

_MAX_TEXTS: Final = 10_000
"""Maximum number of names of producers and consumers that are kept as text."""


def describe(facts: Facts) -> str:
    """Return a frame's content without its type: ``orders/worker (c-1)  7:0  redelivered 2``."""
    describer = _DESCRIBERS.get(facts.frame.type)
    return describer(facts) if describer is not None else _fields(facts)


def _id(place: Any) -> str:
    if not place:
        return "?"
    return str(
        MessageId(
            signed(place.get("ledgerId", 0)), signed(place.get("entryId", 0)), place.get("partition", -1),
            place.get("batch_index", -1),
        )
    )  # fmt: skip


def _producer(facts: Facts, number: Any) -> str:
    """Return ``name → topic``, or the id if the names are unknown."""
    peer = facts.peer
    if not isinstance(peer, Producer) or not (peer.name or peer.topic):
        return f"producer #{number}"
    return _producer_text(peer.name, peer.id, peer.topic)


@lru_cache(_MAX_TEXTS)
def _producer_text(name: str, number: int, topic: str) -> str:
    shown = printable(name) if name else f"#{number}"
    return f"{shown} → {short_topic(topic)}" if topic else shown


def _consumer(facts: Facts, number: Any) -> str:
    """Return ``topic/subscription (name)``, or the id if the names are unknown."""
    peer = facts.peer
    if not isinstance(peer, Consumer) or not peer.topic:
        return f"consumer #{number}"
    return _consumer_text(peer.topic, peer.subscription, peer.name, peer.id)


@lru_cache(_MAX_TEXTS)
def _consumer_text(topic: str, subscription: str, name: str, number: int) -> str:
    return f"{short_topic(topic)}/{printable(subscription)} ({printable(name) if name else f'#{number}'})"


def _entry(facts: Facts) -> str:
    """Describe an entry by its metadata: batch, size, compression, key, chunk, delay, transaction."""
    layout, parts = facts.metadata_layout, facts.frame.parts
    if layout is None and not facts.metadata:
        return ""
    out = f"  {size_text(max(0, parts.payload_end - parts.payload_start))}"
    if layout is not None and _SHOWN_METADATA.keys().isdisjoint(layout.keys):
        return out
    metadata = facts.metadata
    for name, value in metadata.items():
        show = _SHOWN_METADATA.get(name)
        if show is not None:
            out += show(value, metadata)
    return out


_SHOWN_METADATA: Final[dict[str, Callable[[Any, Any], str]]] = {
    "pulsar.metadata.num_messages_in_batch": lambda value, _: f"  batch of {value}",
    "pulsar.metadata.compression": lambda value, _: f"  {value}" if value != "NONE" else "",
    "pulsar.metadata.partition_key": lambda value, _: f"  key {printable(value)}",
    "pulsar.metadata.encryption_keys": lambda _, __: "  encrypted",
    "pulsar.metadata.deliver_at_time": lambda value, _: f"  deliver at {value // 1_000_000}",
    "pulsar.metadata.marker_type": lambda value, _: f"  marker {value}",
    "pulsar.metadata.chunk_id": lambda value, all_: (
        f"  chunk {value + 1} of {all_.get('pulsar.metadata.num_chunks_from_msg', '?')}"
    ),
    "pulsar.metadata.txnid_least_bits": lambda value, all_: (
        f"  txn ({all_.get('pulsar.metadata.txnid_most_bits', 0)},{value})"
    ),
}
"""The metadata fields in a line: by field, a function of the field's value and all values (see value_kinds.py)."""


def _number(values: Values, name: str) -> Any:
    """Return a number as Java's long; ``?`` if it is missing because of a truncation."""
    value = values.get(name)
    return "?" if value is None else signed(value)


def _message_id(values: Values, prefix: str) -> str:
    return message_id_text(values, prefix) or "?"


def _send(facts: Facts) -> str:
    values = facts.command
    sequence, highest = _number(values, "pulsar.send.sequence_id"), values.get("pulsar.send.highest_sequence_id", 0)
    upto = f"–{highest}" if 0 < highest != sequence else ""
    return f"{_producer(facts, _number(values, 'pulsar.send.producer_id'))}  seq {sequence}{upto}{_entry(facts)}"


def _send_receipt(facts: Facts) -> str:
    values = facts.command
    place = _message_id(values, "pulsar.send_receipt.message_id.")
    duplicate = "  a duplicate" if place == "-1:-1" else ""
    producer = _producer(facts, _number(values, "pulsar.send_receipt.producer_id"))
    return f"{producer}  seq {_number(values, 'pulsar.send_receipt.sequence_id')}  {place}{duplicate}"


def _send_error(facts: Facts) -> str:
    error = body_values(facts)
    return f"{_producer(facts, error.get('producer_id'))}  seq {error.get('sequence_id')}  {_error(error)}"


def _message(facts: Facts) -> str:
    values = facts.command
    redeliveries = values.get("pulsar.message.redelivery_count")
    again = f"  redelivered {redeliveries}" if redeliveries else ""
    rest = f"{again}{_entry(facts)}{'  part of the batch' if 'pulsar.message.ack_set' in values else ''}"
    consumer = _consumer(facts, _number(values, "pulsar.message.consumer_id"))
    return f"{consumer}  {_message_id(values, 'pulsar.message.message_id.')}{rest}"


def _ack(facts: Facts) -> str:
    values = facts.command
    ids = values.get("pulsar.ack.message_id", ())
    places = [_message_id(one, "") + (" in part" if "ack_set" in one else "") for one in ids[:_SHOWN]]
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    rest = f"  {values['pulsar.ack.validation_error']}" if "pulsar.ack.validation_error" in values else ""
    if "pulsar.ack.txnid_least_bits" in values:
        most, least = values.get("pulsar.ack.txnid_most_bits", 0), values["pulsar.ack.txnid_least_bits"]
        rest += f"  txn ({signed(most)},{signed(least)})"
    kind = "up to " if values.get("pulsar.ack.ack_type") == "Cumulative" else ""
    wanted = "  receipt requested" if "pulsar.ack.request_id" in values else ""
    return (
        f"{_consumer(facts, _number(values, 'pulsar.ack.consumer_id'))}  {kind}{' '.join(places)}{more}{rest}{wanted}"
    )


_SHOWN: Final = 5
"""Maximum number of ids in a line."""


def _flow(facts: Facts) -> str:
    values = facts.command
    permits = values.get("pulsar.flow.messagePermits", "?")
    return f"{_consumer(facts, _number(values, 'pulsar.flow.consumer_id'))}  {permits} permits"


def _connect(facts: Facts) -> str:
    connect = body_values(facts)
    method = connect.get("auth_method_name") or ("some" if "auth_data" in connect else "none")
    proxied = f"  for {printable(connect['proxy_to_broker_url'])}" if connect.get("proxy_to_broker_url") else ""
    return (
        f"{_text(connect, 'client_version')}  v{connect.get('protocol_version', 0)}  auth {printable(method)}{proxied}"
    )


def _connected(facts: Facts) -> str:
    connected = body_values(facts)
    limit = f"  max message {connected['max_message_size']} B" if "max_message_size" in connected else ""
    return f"{_text(connected, 'server_version')}  v{connected.get('protocol_version', 0)}{limit}"


def _subscribe(facts: Facts) -> str:
    subscribe = body_values(facts)
    out = f"{_consumer(facts, subscribe.get('consumer_id', '?'))}  {subscribe.get('subType', '?')}"
    if subscribe.get("durable") is False:
        out += "  not durable"
    if "start_message_id" in subscribe:
        out += f"  from {_id(subscribe['start_message_id'])}"
    elif "initialPosition" in subscribe:
        out += f"  from {subscribe['initialPosition']}"
    if subscribe.get("read_compacted"):
        out += "  compacted"
    if subscribe.get("priority_level"):
        out += f"  priority {subscribe['priority_level']}"
    shared = subscribe.get("keySharedMeta")
    if shared:
        ranges = " ".join(f"{part.get('start')}–{part.get('end')}" for part in shared.get("hashRanges", ()))
        out += f"  {shared.get('keySharedMode', '')} {ranges}".rstrip()
        if shared.get("entry_bucket_dispatch"):
            out += "  by entry bucket"
    return out + _schema(subscribe)


def _producer_command(facts: Facts) -> str:
    producer = body_values(facts)
    out = _producer(facts, producer.get("producer_id", "?"))
    if producer.get("producer_access_mode", "Shared") != "Shared":
        out += f"  {producer['producer_access_mode']}"
    if producer.get("epoch"):
        out += f"  epoch {producer['epoch']}"
    return out + ("  encrypted" if producer.get("encrypted") else "") + _schema(producer)


def _producer_success(facts: Facts) -> str:
    success = body_values(facts)
    name = _text(success, "producer_name")
    topic = facts.peer.topic if isinstance(facts.peer, Producer) else ""
    out = f"{name} → {short_topic(topic)}" if topic else name
    if success.get("last_sequence_id", -1) != -1:
        out += f"  last seq {success['last_sequence_id']}"
    if "topic_epoch" in success:
        out += f"  topic epoch {success['topic_epoch']}"
    return out + ("  must wait" if success.get("producer_ready") is False else "")


def _schema(command: Values) -> str:
    return f"  {command['schema'].get('type', '')} schema" if command.get("schema") else ""


def _text(values: Values, name: str) -> str:
    return printable(values.get(name, "?"))


def _error(values: Values) -> str:
    kind = values.get("error", values.get("error_code"))
    text = values.get("message") or values.get("error_message") or ""
    return f"{kind}: {printable(text)}" if text else str(kind)


def _of_request(facts: Facts) -> str:
    """Return the subject of a response, which is taken from its request: a SUCCESS contains only a request id."""
    request = facts.request
    if request is None:
        return ""
    row = COMMANDS[request.type]
    about = ""
    if isinstance(request.peer, Consumer):
        about = f"{short_topic(request.peer.topic)}/{printable(request.peer.subscription)}"
    elif isinstance(request.peer, Producer):
        about = _producer(facts, request.peer.id)
    elif request.topic:
        about = short_topic(request.topic)
    # A response type other than SUCCESS and ERROR implies the type of its request.
    return f"to {row.name}  {about}".rstrip() if name_of(facts.frame.type) in _GENERIC else about


_GENERIC: Final = ("SUCCESS", "ERROR")


def _transaction(values: Values) -> str:
    """Return ``  txn (most,least)`` and remove both from the values; empty if there is no transaction."""
    least = values.pop("txnid_least_bits", None)
    return "" if least is None else f"  txn ({values.pop('txnid_most_bits', 0)},{least})"


def _lookup(facts: Facts) -> str:
    """Describe a lookup: the topic, and all fields with unusual values."""
    values = {name: value for name, value in body_values(facts).items() if name != "request_id"}
    topic = short_topic(full_name(values.pop("topic", "?")))
    unusual = {name: value for name, value in values.items() if _USUAL.get(name) != value}
    return f"{topic}  {_listing(unusual)}".rstrip()


_USUAL: Final[Values] = {"authoritative": False, "metadata_auto_creation_enabled": True}
"""The usual values of a lookup's fields."""


def _partitions(facts: Facts) -> str:
    values = body_values(facts)
    if "error" in values:
        return _answer(facts)
    return f"{_of_request(facts)}  {values.get('partitions', 0)} partitions".lstrip()


def _lookup_answer(facts: Facts) -> str:
    values = body_values(facts)
    if "error" in values:
        return _answer(facts)
    url = values.get("brokerServiceUrl") or values.get("brokerServiceUrlTls") or ""
    through = "  through the service URL" if values.get("proxy_through_service_url") else ""
    return f"{_of_request(facts)}  {values.get('response', '?')} {printable(url)}{through}".lstrip()


def _answer(facts: Facts) -> str:
    """Describe a response: its request, its error if any, and its other fields."""
    values = {name: value for name, value in body_values(facts).items() if name != "request_id"}
    about = _of_request(facts) + _transaction(values)
    if "error" in values or "error_code" in values:
        return f"{about}  {_error(values)}".strip()
    values.pop("consumer_id", None)
    return f"{about}  {_listing(values)}".strip()


def _of_consumer(facts: Facts) -> str:
    values = dict(body_values(facts))
    out = _consumer(facts, values.pop("consumer_id", "?"))
    values.pop("request_id", None)
    return f"{out}  {_listing(values)}".rstrip()


def _of_producer(facts: Facts) -> str:
    values = dict(body_values(facts))
    out = _producer(facts, values.pop("producer_id", "?"))
    values.pop("request_id", None)
    return f"{out}  {_listing(values)}".rstrip()


def _redeliver(facts: Facts) -> str:
    values = body_values(facts)
    ids = values.get("message_ids", [])
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    wanted = " ".join(map(_id, ids[:_SHOWN])) + more if ids else "all unacknowledged messages"
    return f"{_consumer(facts, values.get('consumer_id', '?'))}  {wanted}"


def _fields(facts: Facts) -> str:
    """List the fields of a command that has no function in the table."""
    values = {name: value for name, value in body_values(facts).items() if name != "request_id"}
    transaction = _transaction(values)
    return f"{_listing(values)}{transaction}".strip()


def _listing(values: Values) -> str:
    """Return ``topic=orders  partitions=4``: short topics, ids as ids, sizes of credentials and long values."""
    return "  ".join(f"{name}={_item(name, value)}" for name, value in values.items())


def _item(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return _id(value) if "ledgerId" in value else f"{{{_listing(value)}}}"
    if isinstance(value, list):
        shown = " ".join(_item(name, item) for item in value[:_SHOWN])
        return f"[{shown}{f' and {len(value) - _SHOWN} more' if len(value) > _SHOWN else ''}]"
    if isinstance(value, bytes):
        # Schema versions and similar values are short numbers; anything longer may be a secret or a schema.
        return f"0x{value.hex()}" if len(value) <= 8 and "auth" not in name else size_text(len(value))
    if "auth_data" in name:
        return size_text(len(value))
    return short_topic(value) if isinstance(value, str) else str(value)


def _scalable(topic: Any) -> str:
    """Return a scalable topic without its domain and the default namespace, or another topic in short form."""
    return short_topic(topic).removeprefix("topic://").removeprefix("public/default/")


def _layout_lookup(facts: Facts) -> str:
    values = body_values(facts)
    existing = "  only if it exists" if values.get("create_if_missing") is False else ""
    return f"{_scalable(full_name(values.get('topic', '?')))}  session {values.get('session_id', '?')}{existing}"


def _layout_close(facts: Facts) -> str:
    topic = f"{_scalable(facts.layout.topic)}  " if facts.layout is not None else ""
    return f"{topic}session {body_values(facts).get('session_id', '?')}"


def _layout_update(facts: Facts) -> str:
    """Describe a layout: epoch, numbers of segments, and the changes since the last layout of the session."""
    update = facts.layout
    if update is None:
        topic = facts.request.topic if facts.request is not None else ""
        return f"{_scalable(topic)}  {_error(body_values(facts))}".strip()
    topic, before, after = update
    out = f"{_scalable(topic)}  epoch {after.epoch}"
    if before is not None and before.epoch == after.epoch:
        out += " again"
    elif before is not None and before.epoch > after.epoch:
        out += f" after epoch {before.epoch}"
    counts = [f"{len(ids)} {kind}" for ids, kind in ((after.active, "active"), (after.sealed, "sealed")) if ids]
    news = [str(change) for change in changes(before, after)] if before is not None else []
    if before is not None and after.controller != before.controller:
        news.append(f"controller {printable(after.controller) or 'lost'}")
    news += contradictions(after)
    told = f"  ({'; '.join(news)})" if news else ""
    return f"{out}  {', '.join(counts) or 'no segments'}{told}"


def _assignment(facts: Facts) -> str:
    """Describe the segments that a consumer receives from the controller."""
    values, peer = body_values(facts), facts.peer
    name = f"consumer #{values['consumer_id']}" if "consumer_id" in values else ""
    if isinstance(peer, Consumer) and peer.topic:
        name = f"{_scalable(peer.topic)}/{printable(peer.subscription)} ({printable(peer.name)})"
    if "assignment" not in values:
        return f"{name}  {_error(values) if 'error' in values else ''}".strip()
    assigned = values["assignment"].get("segments", [])
    shown = ", ".join(map(_assigned_segment, assigned[:_SHOWN]))
    more = f" and {len(assigned) - _SHOWN} more" if len(assigned) > _SHOWN else ""
    segments = f"segment{'s' if len(assigned) > 1 else ''} {shown}{more}" if assigned else "no segments"
    return f"{name}  epoch {values['assignment'].get('layout_epoch', '?')}  {segments}".strip()


def _assigned_segment(segment: Values) -> str:
    buckets = segment.get("bucket_ranges")
    return f"{segment.get('segment_id', '?')}{f' (shared, {len(buckets)} buckets)' if buckets else ''}"


def _scalable_consumer(facts: Facts) -> str:
    values, peer = body_values(facts), facts.peer
    if not isinstance(peer, Consumer):
        return f"consumer #{values.get('consumer_id', '?')}"
    kind = f"  {values['consumer_type']}" if "consumer_type" in values else ""
    return f"{_scalable(peer.topic)}/{printable(peer.subscription)} ({printable(peer.name)}){kind}"


def _topic_list(facts: Facts) -> str:
    """Describe the scalable topics of a namespace: all of them, or those that were created and deleted."""
    values = body_values(facts)
    if "error" in values:
        return _error(values)
    listed, diff = values.get("snapshot", {}).get("topics", []), values.get("diff", {})
    parts = [f"{len(listed)} topics{_names(listed)}"] if "snapshot" in values else []
    parts += [f"{kind}{_names(diff[kind])}" for kind in ("added", "removed") if diff.get(kind)]
    return "  ".join(parts)


def _names(topics: list[str]) -> str:
    more = f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else ""
    return f": {', '.join(map(_scalable, topics[:_SHOWN]))}{more}" if topics else ""


def _coordinators(facts: Facts) -> str:
    """Describe the brokers of the transaction coordinators."""
    values = body_values(facts)
    if "error" in values:
        return _error(values)
    snapshot = values.get("snapshot", {})
    urls = {one.get("broker_service_url", "") for one in snapshot.get("assignments", [])}
    return f"{snapshot.get('parallelism', '?')} coordinators  {' '.join(sorted(map(printable, urls)))}".rstrip()


_BY_TYPE: Final[dict[str, Callable[[Facts], str]]] = {
    **{answer: _answer for row in COMMANDS.values() for answer in row.answers},
    "CONNECT": _connect,
    "CONNECTED": _connected,
    "SUBSCRIBE": _subscribe,
    "PRODUCER": _producer_command,
    "PRODUCER_SUCCESS": _producer_success,
    "SEND": _send,
    "SEND_RECEIPT": _send_receipt,
    "SEND_ERROR": _send_error,
    "LOOKUP": _lookup,
    "LOOKUP_RESPONSE": _lookup_answer,
    "PARTITIONED_METADATA": _lookup,
    "PARTITIONED_METADATA_RESPONSE": _partitions,
    "GET_SCHEMA": _lookup,
    "MESSAGE": _message,
    "ACK": _ack,
    "FLOW": _flow,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver,
    "UNSUBSCRIBE": _of_consumer,
    "CLOSE_CONSUMER": _of_consumer,
    "CLOSE_PRODUCER": _of_producer,
    "REACHED_END_OF_TOPIC": _of_consumer,
    "SEEK": _of_consumer,
    "GET_LAST_MESSAGE_ID": _of_consumer,
    "ACTIVE_CONSUMER_CHANGE": _of_consumer,
    "CONSUMER_STATS": _of_consumer,
    "SCALABLE_TOPIC_LOOKUP": _layout_lookup,
    "SCALABLE_TOPIC_UPDATE": _layout_update,
    "SCALABLE_TOPIC_CLOSE": _layout_close,
    "SCALABLE_TOPIC_SUBSCRIBE": _scalable_consumer,
    "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE": _assignment,
    "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": _assignment,
    "SCALABLE_TOPIC_UNSUBSCRIBE": _scalable_consumer,
    "WATCH_SCALABLE_TOPICS_UPDATE": _topic_list,
    "WATCH_TC_ASSIGNMENTS_UPDATE": _coordinators,
}
_DESCRIBERS: Final = {BY_NAME[name].number: describer for name, describer in _BY_TYPE.items()}
