"""Schemas in namespaces that forbid schema updates, also on topics of transactions."""

import json

FIRST = {"name": "s", "type": "Json", "schema_data": json.dumps({"type": "record", "name": "r", "fields": []}).encode()}
OTHER = {"name": "s", "type": "String", "schema_data": b""}


def _forbidding(s):
    ns = s.namespace()
    s.admin("POST", f"/admin/v2/namespaces/{ns}/isAllowAutoUpdateSchema", False, show=["reason"])
    return ns, s.topic(ns=ns)


def first_schema_of_a_producer(s):
    """A first schema, the same and another one of a producer."""
    _, t = _forbidding(s)
    p = s.connect("p")
    p.producer(t, schema=FIRST)
    p.producer(t, id=2, schema=FIRST)
    p.producer(t, id=3, schema=OTHER)
    p.producer(t, id=4)


def first_schema_of_a_consumer(s):
    """A first schema, the same and another one of a consumer."""
    _, t = _forbidding(s)
    p = s.connect("p")
    p.subscribe(t, schema=FIRST, type="Shared")
    p.subscribe(t, id=2, schema=FIRST, type="Shared")
    p.subscribe(t, id=3, schema=OTHER, type="Shared")
    p.subscribe(t, id=4, type="Shared")
    p.GET_OR_CREATE_SCHEMA(topic=t, schema=FIRST)


def first_schema_by_rest(s):
    """REST may add schemas where clients may not."""
    _, t = _forbidding(s)
    path = t.replace("persistent://", "/admin/v2/schemas/") + "/schema"
    p = s.connect("p")
    p.producer(t)
    body = {"type": "JSON", "schema": FIRST["schema_data"].decode(), "properties": {}}
    s.admin("POST", path, body, show=["version", "reason"])
    p.producer(t, id=2, schema=FIRST)
    p.producer(t, id=3, schema=OTHER)


def first_schema_with_transactions(s):
    """A producer with transactions."""
    ns, t = _forbidding(s)
    p = s.connect("p")
    p.producer(t, schema=FIRST, txn_enabled=True)
    p.producer(t, id=2, txn_enabled=True)
    path = f"/admin/v2/schemas/{ns}/__transaction_buffer_snapshot/schema"
    s.admin("GET", path, show=["type", "version", "data", "properties"], until=bool)
    s.admin("GET", f"{path}s", show=["getSchemaResponses.#"])


def internal_topics(s):
    """Clients cannot create the topics of transactions; those of a namespace's events they can use."""
    ns = s.namespace()
    names = (
        "x__transaction_pending_ack",
        "x-partition-0__transaction_pending_ack",
        "__transaction_buffer_snapshot_indexes",
    )
    for number, name in enumerate(names, 1):
        topic = f"persistent://{ns}/{name}"
        s.look_up(topic)
        p = s.connect(f"p{number}")
        p.PARTITIONED_METADATA(topic=topic)
        p.producer(topic)
        p.subscribe(topic)
    for number, name in enumerate(
        ("__transaction_log_0", "__transaction_log_9", "transaction_coordinator_assign_x"), 4
    ):
        topic = f"persistent://pulsar/system/{name}"
        s.look_up(topic)
        p = s.connect(f"p{number}")
        p.PARTITIONED_METADATA(topic=topic)
        p.producer(topic)
        p.subscribe(topic)
