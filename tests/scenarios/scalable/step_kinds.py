"""The kinds of steps with scalable topics: for each kind, a function that returns the step, or None."""

from __future__ import annotations

from typing import Any

from scenarios import step_kinds as classic
from scenarios.plan_model import Numbers
from scenarios.plans import Kind
from scenarios.scalable.plan_model import ScalableModel

Step = dict[str, Any]

_KINDS_OF_CONSUMERS = ("stream", "queue", "checkpoint", "stream", "reader", "stream", "queue")
_SUBSCRIPTIONS = {"stream": "s", "queue": "q", "checkpoint": "g", "reader": "reader"}
_KEYS = (None, "k1", "k2", "k3", "k4", "k5", "k6", None)
_QUERIES = (
    "",
    "/stats",
    "/stats",
    "/segments/{active}/stats",
    "/segments/9/stats",
    "/autoScalePolicy",
    "/permissions",
)
_SCHEMA_QUERIES = ("schema", "schemas", "schema/0")
_AUTO_SCALE = (
    {"maxSegments": 8},
    {"enabled": False},
    {"minSegments": 2, "maxSegments": 1},
    {"splitMsgRateInThreshold": 100.0, "mergeMsgRateInThreshold": 10.0},
    {},
)


def create(model: ScalableModel, drawn: Numbers) -> Step:
    """A PUT of a topic, which exists already unless a step deleted it."""
    topic, segments = model.topic(drawn), drawn.pick((1, 2, 0, 3))
    properties = drawn.pick((None, {"team": "a"}))
    path = f"?numInitialSegments={segments}"
    return {"do": "scalable", "method": "PUT", "topic": topic, "path": path, "body": properties}


def look_up(model: ScalableModel, drawn: Numbers) -> Step:
    """A session of the layout that stays open, or its end."""
    name = drawn.pick(("topic", "topic", "persistent", "segment", "missing"))
    return {"do": "look_up", "topic": model.topic(drawn), "name": name, "create": drawn.pick((True, False))}


def create_producer(model: ScalableModel, drawn: Numbers) -> Step:
    """A V5 producer, which opens a producer for a segment when it has a message for it."""
    topic = model.topic(drawn)
    model.v5_producers.append({"open": True, "topic": topic, "sequence": 0})
    return {
        "do": "v5_producer",
        "client": len(model.v5_producers) - 1,
        "topic": topic,
        "name": drawn.pick((None, None, "p", "q")),
        "access": drawn.pick(("Shared",) * 6 + ("Exclusive", "WaitForExclusive", "ExclusiveWithFencing")),
        "schema": drawn.pick(("avro", "avro with default", "string")) if drawn.one_in(4) else None,
    }


def send(model: ScalableModel, drawn: Numbers) -> Step:
    """Messages of a V5 producer with and without keys, single or in batches."""
    choices = model.open(model.v5_producers)
    if not choices:
        return create_producer(model, drawn)
    number = drawn.pick(choices)
    producer = model.v5_producers[number]
    count, batch, key = 1 + drawn.below(6), drawn.pick((0, 0, 0, 3)), drawn.below(len(_KEYS))
    if drawn.one_in(8):
        producer["sequence"] = max(0, producer["sequence"] - 1 - drawn.below(3))
    entries = []
    for _ in range(count):
        model.messages += max(batch, 1)
        entry = {"number": model.messages, "sequence": producer["sequence"], "batch": batch, "key": _KEYS[key]}
        entries.append({**entry, "chunks": 0, "empty": False})
        producer["sequence"] += max(batch, 1)
        key = (key + 1) % len(_KEYS)
    return {
        "do": "v5_send",
        "client": number,
        "entries": entries,
        "one_by_one": model.is_read(producer["topic"]),
        "compression": "NONE",
        "delay_ms": 0,
        "transaction": classic.open_transaction(model, drawn) if drawn.one_in(2) else None,
    }


def begin_transaction(model: ScalableModel, drawn: Numbers) -> Step:
    """A NEW_TXN at one of the coordinators."""
    return {**classic.begin_transaction(model, drawn), "coordinator": drawn.below(3)}


def end_transaction(model: ScalableModel, drawn: Numbers) -> Step:
    """An END_TXN."""
    number = classic.open_transaction(model, drawn)
    if number is None:
        return begin_transaction(model, drawn)
    model.transactions[number]["open"] = drawn.one_in(6)
    return {"do": "end", "transaction": number, "action": drawn.pick(("COMMIT", "COMMIT", "ABORT"))}


def create_consumer(model: ScalableModel, drawn: Numbers) -> Step:
    """A V5 consumer: it reads the segments of its assignment, or all segments."""
    kind, topic = drawn.pick(_KINDS_OF_CONSUMERS), model.topic(drawn)
    subscription = drawn.pick(("s", "q")) if drawn.one_in(12) else _SUBSCRIPTIONS[kind]
    number = len(model.v5_consumers)
    if drawn.one_in(10):
        subscription += "2"
    model.v5_consumers.append({"open": True, "topic": topic, "kind": kind, "subscription": subscription})
    return {
        "do": "v5_consumer",
        "client": number,
        "topic": topic,
        "kind": kind,
        "subscription": subscription,
        "name": f"{drawn.pick('cab')}{number if not drawn.one_in(10) else 0}",
        "permits": drawn.pick((1000, 1000, 100, 3, 1)),
        "position": drawn.pick(("Earliest", "Earliest", "Latest")),
    }


def _of_consumer(model: ScalableModel, drawn: Numbers, **fields: Any) -> Step | None:
    choices = model.open(model.v5_consumers)
    return {"client": drawn.pick(choices), **fields} if choices else None


def flow(model: ScalableModel, drawn: Numbers) -> Step | None:
    """A FLOW for each segment."""
    return _of_consumer(model, drawn, do="v5_flow", permits=drawn.pick((100, 1, 2, 3)))


def acknowledge(model: ScalableModel, drawn: Numbers) -> Step | None:
    """ACKs of everything that the consumer holds, or of some entries of a segment."""
    return _of_consumer(
        model,
        drawn,
        do="v5_ack",
        all=drawn.pick((True, True, False)),
        which=drawn.below(8),
        transaction=classic.open_transaction(model, drawn) if drawn.one_in(2) else None,
    )


def redeliver(model: ScalableModel, drawn: Numbers) -> Step | None:
    """A REDELIVER of one entry or of all entries, for each segment."""
    return _of_consumer(model, drawn, do="v5_redeliver", which=drawn.pick((0, 1, None)))


def seek(model: ScalableModel, drawn: Numbers) -> Step | None:
    """A SEEK for each segment, or a REST call that moves a subscription."""
    if drawn.one_in(2):
        subscription = drawn.pick(("s", "q", "none"))
        path = drawn.pick(("skip-all", "seek?timestamp={time}", "seek?timestamp=0", "seek"))
        path = f"/subscriptions/{subscription}/{path}"
        topic, which = model.topic(drawn), drawn.below(20)
        return {"do": "scalable", "method": "POST", "topic": topic, "path": path, "body": None, "which": which}
    return _of_consumer(
        model, drawn, do="v5_seek", to=drawn.pick(("earliest", "latest", "time")), which=drawn.below(20)
    )


def close_consumer(model: ScalableModel, drawn: Numbers) -> Step | None:
    """The end of a consumer: it leaves, it crashes, or it crashes and returns under its name."""
    how = drawn.pick(("leave", "leave", "crash", "return"))
    step = _of_consumer(model, drawn, do="v5_close_consumer", how=how)
    if step is not None and how != "return":
        model.v5_consumers[step["client"]]["open"] = False
    return step


def close_producer(model: ScalableModel, drawn: Numbers) -> Step | None:
    """The end of a producer: CLOSE_PRODUCER for each segment, or the end of its connections."""
    number = model.close_one(drawn, model.v5_producers)
    if number is None:
        return None
    return {"do": "v5_close_producer", "client": number, "how": drawn.pick(("command", "command", "socket"))}


def change_layout(model: ScalableModel, drawn: Numbers) -> Step:
    """A split, merge or rebucket. A segment is a number in the list of active segments, or the id 0 or 99."""
    path = drawn.pick(
        (
            "/split/{active}",
            "/split/{active}",
            "/merge/{active}/{next}",
            "/rebucket/{active}?bucketCount={count}",
            "/split/{active}",
            "/merge/{active}/{next}",
            "/split/0",
            "/merge/{next}/{active}",
            "/merge/0/{active}",
            "/rebucket/0?bucketCount={count}",
            "/split/99",
            "/rebucket/{active}?bucketCount=0",
        )
    )
    path = path.replace("{count}", str(drawn.pick((2, 1, 4, 5))))
    topic, which = model.topic(drawn), drawn.below(8)
    return {"do": "scalable", "method": "POST", "topic": topic, "path": path, "body": None, "which": which}


def migrate(model: ScalableModel, drawn: Numbers) -> Step:
    """The migration of a classic topic; other topics are refused."""
    choices = [number for number, topic in enumerate(model.topics) if not topic["segments"]]
    if not choices and not drawn.one_in(6):
        return change_layout(model, drawn)
    topic = drawn.pick(choices) if choices else model.topic(drawn)
    path = drawn.pick(("/migrate?force=true", "/migrate"))
    return {"do": "scalable", "method": "POST", "topic": topic, "path": path, "body": None}


def administer(model: ScalableModel, drawn: Numbers) -> Step:
    """A subscription that is created or deleted by REST, a policy, or the end of a topic."""
    topic, name = model.topic(drawn), drawn.pick(("s", "q", "n"))
    method, path, body = drawn.pick(
        (
            ("PUT", f"/subscriptions/{name}?type=QUEUE", None),
            ("PUT", f"/subscriptions/{name}?type=STREAM", None),
            ("PUT", f"/subscriptions/{name}", None),
            ("DELETE", f"/subscriptions/{name}", None),
            ("POST", "/autoScalePolicy", drawn.pick(_AUTO_SCALE)),
            ("DELETE", "/autoScalePolicy", None),
            ("POST", "/permissions/role", ["produce"]),
            ("DELETE", "", None),
            ("DELETE", "?force=true", None),
        )
    )
    return {"do": "scalable", "method": method, "topic": topic, "path": path, "body": body}


def administer_segment(model: ScalableModel, drawn: Numbers) -> Step:
    """A REST call on the topic of a segment."""
    name = drawn.pick(("s", "q"))
    method, path = drawn.pick(
        (
            ("GET", f"/subscription/{name}/backlog"),
            ("PUT", f"/subscription/{name}"),
            ("POST", f"/subscription/{name}/skip-all"),
            ("POST", f"/subscription/{name}/seek?timestamp={{time}}"),
            ("DELETE", f"/subscription/{name}"),
            ("POST", "/terminate"),
        )
    )
    step = {"do": "segment", "method": method, "topic": model.topic(drawn), "path": path}
    return {**step, "which": drawn.below(8)}


def query(model: ScalableModel, drawn: Numbers) -> Step:
    """A GET on a topic or its namespace."""
    if drawn.one_in(4):
        path = drawn.pick(("scalable", "scalable?property=team=a", "policy"))
        return {"do": "namespace", "path": path}
    path = drawn.pick(_QUERIES)
    topic, which = model.topic(drawn), drawn.below(8)
    return {"do": "scalable", "method": "GET", "topic": topic, "path": path, "body": None, "which": which}


def query_schema(model: ScalableModel, drawn: Numbers) -> Step:
    """A REST call for the schemas of a topic."""
    return {"do": "v5_schema", "topic": model.topic(drawn), "path": drawn.pick(_SCHEMA_QUERIES)}


def watch(model: ScalableModel, drawn: Numbers) -> Step:
    """A watch of the scalable topics of the namespace, or its end."""
    if model.watches and drawn.one_in(2):
        return {"do": "unwatch", "watch": drawn.below(model.watches)}
    model.watches += 1
    return {"do": "watch", "watch": model.watches - 1, "filter": drawn.pick((None, {"team": "a"}))}


def _classic(kind: Kind) -> Kind:
    """Return a kind for the topics that were classic topics at first, outside transactions."""

    def drawn_kind(model: ScalableModel, drawn: Numbers) -> Step | None:
        step = kind(model, drawn) if model.targets() else None
        if step is not None and "transaction" in step:
            step["transaction"] = None
        return step

    return drawn_kind


KINDS: tuple[Kind, ...] = (
    *[send] * 9,
    *[create_consumer] * 6,
    *[create_producer] * 2,
    *[acknowledge] * 7,
    *[change_layout] * 6,
    *[flow] * 2,
    *[close_consumer] * 3,
    redeliver,
    *[seek] * 2,
    close_producer,
    begin_transaction,
    *[end_transaction] * 3,
    *[query] * 4,
    query_schema,
    *[migrate] * 2,
    *[administer] * 2,
    administer_segment,
    create,
    look_up,
    watch,
    *[_classic(classic.send)] * 3,
    *[_classic(classic.subscribe)] * 2,
    *[_classic(classic.acknowledge)] * 2,
    _classic(classic.close_consumer),
    _classic(classic.close_producer),
)
"""The kinds, repeated by weight."""
