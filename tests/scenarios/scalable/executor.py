"""Execution of a plan with scalable topics: raw connections that behave like V5 clients.

Rules of this file
1. One session for each topic shows the layout to all producers and consumers of the plan. Each segment that a producer
   or a consumer uses has a connection of its own.
2. After each step, consumers close the segments that they should not read any more, and then subscribe to new ones. So
   a segment is free before the next consumer subscribes. A subscription that was refused is not tried again.
3. A broker checks whether sealed segments are drained two seconds after a registration, and then at growing intervals.
   After each step that can drain a segment, a consumer registers again, and the run waits for the check. So the step
   that drains a segment also assigns its children.
4. A consumer that crashes is removed after the grace period, before the step ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scenarios.connections import Connection
from scenarios.entries import SCHEMAS, entries_of
from scenarios.executor import EARLIEST, LATEST, Run

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, Segment, key_hashes, name_on_segment
from pcli.codec.scalable.segment_name import HASHES

GRACE_S = 3
"""The setting scalableTopicConsumerSessionGracePeriodSeconds of the brokers."""

_CHECK_S = 2.4
"""The time after which a broker has certainly checked whether sealed segments are drained."""
_CHECKS = 6
"""The maximum number of checks in a step. Consumers that take over each other's names change assignments endlessly."""
_SESSION_OF_STEPS = 100
"""The first session id of the sessions that steps open."""
_V5 = pb.KeyValue(key="__pulsar.v5.managed", value="true")
"""Marks clients of a classic topic as V5 clients, which do not prevent a migration."""
_WHOLE = Segment(0, 0, HASHES - 1, active=True)
"""The only segment of a new topic."""
_DRAINING = frozenset(("v5_consumer", "v5_ack", "v5_seek", "v5_close_consumer", "scalable", "segment", "end"))
"""The steps after which a sealed segment can be drained."""

Ranges = tuple[tuple[int, int], ...]


@dataclass
class _SegmentConsumer:
    """The consumer of one segment."""

    connection: Connection
    ranges: Ranges
    """The entry buckets of a shared segment; empty if the consumer has the whole segment."""
    refused: bool = False
    """Whether a subscription was refused."""


@dataclass
class _Consumer:
    """A V5 consumer."""

    step: dict[str, Any]
    control: Connection | None = None
    """The connection of its registration; None if it reads all segments."""
    segments: dict[str, _SegmentConsumer] = field(default_factory=dict)

    @property
    def group(self) -> tuple[int, str]:
        """Its topic and its subscription."""
        return self.step["topic"], self.step["subscription"]


@dataclass
class _Producer:
    """A V5 producer."""

    step: dict[str, Any]
    segments: dict[str, Connection] = field(default_factory=dict)
    turn: int = 0
    """Number of messages without a key."""

    def segment_for(self, key: str | None, active: list[Segment]) -> Segment:
        """Return the active segment of a key. Messages without a key use the segments in turn."""
        if key is None:
            self.turn += 1
            return active[self.turn % len(active)]
        slot = key_hashes(key.encode())[0]
        return next(one for one in active if one.start <= slot <= one.end)


class ScalableRun(Run):
    """One run of a plan with scalable topics."""

    _of_transactions: ClassVar[dict[str, Any]] = {"scalable": True}
    _sessions: Connection
    """The connection of the sessions of layouts."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._looked_up: set[str] = set()
        """The names that were looked up."""
        self._v5_producers: dict[int, _Producer] = {}
        self._v5_consumers: dict[int, _Consumer] = {}

    async def prepare(self) -> None:
        """Create the topics, and open a session for each."""
        await super().prepare()
        for number, topic in enumerate(self._plan.topics):
            if topic["segments"]:
                properties = {"team": "a"} if topic["segments"] == 2 else None
                await self._rest("PUT", f"{self._place(number)}?numInitialSegments={topic['segments']}", properties)
        self._sessions = await self._wire.open()
        for number, topic in enumerate(self._plan.topics):
            name = self._topic(number) if topic["segments"] else self._name((number, -1))
            await self._look_up(self._sessions, name)
            await self._open_session(self._sessions, number + 1, name, create=False)

    def delete(self) -> None:
        """Delete the topics and the namespace."""
        for number in range(len(self._plan.topics)):
            self._call_quietly("DELETE", f"{self._place(number)}?force=true")
        super().delete()

    def _topic(self, number: int) -> str:
        return f"topic://{self._namespace}/t{number}"

    def _place(self, number: int) -> str:
        return f"scalable/{self._namespace}/t{number}"

    def _layout(self, topic: int) -> Layout:
        return self._sessions.layouts.get(topic + 1, Layout(-1, {}, {}))

    async def _look_up(self, connection: Connection, name: str) -> None:
        """Look a topic up once, because a broker serves only topics that were looked up."""
        if name not in self._looked_up:
            self._looked_up.add(name)
            await self._wire.request(connection, pb.CommandLookupTopic(topic=name))

    def _send(self, connection: Connection, body: Any) -> None:
        """Send a command without waiting for its effects."""
        connection.session.send(body)
        self._wire.flush(connection)

    async def _open_session(self, connection: Connection, session: int, name: str, *, create: bool) -> None:
        connection.layouts.pop(session, None)
        body = pb.CommandScalableTopicLookup(session_id=session, topic=name, create_if_missing=create)
        self._send(connection, body)
        await self._wire.settle(until=lambda: session in connection.layouts or not connection.alive)

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def execute(self, step: dict[str, Any]) -> None:
        """Execute one step, and let the consumers follow the layouts and their assignments."""
        await super().execute(step)
        await self._converge()
        if step["do"] in _DRAINING and step.get("method") != "GET":
            await self._await_checks()

    async def _do_scalable(self, step: dict[str, Any]) -> None:
        """Make a REST call on a scalable topic, and wait for the new layout after a change of it."""
        topic, before = step["topic"], self._layout(step["topic"]).order
        path = self._resolved(step)
        status = await self._rest(step["method"], self._place(topic) + path, step["body"])
        changes = status == 204 and path.startswith(("/split", "/merge", "/rebucket", "/migrate"))
        await self._wire.settle(until=(lambda: self._layout(topic).order > before) if changes else None)

    def _resolved(self, step: dict[str, Any]) -> str:
        """Return the path of a step with the ids of segments and a time."""
        active, which = [one.id for one in self._layout(step["topic"]).active] or [0], step.get("which", 0)
        path: str = step["path"].replace("{active}", str(active[which % len(active)]))
        path = path.replace("{next}", str(active[(which + 1) % len(active)]))
        return path.replace("{time}", str(self._start_ms + which))

    async def _do_segment(self, step: dict[str, Any]) -> None:
        segments = sorted(self._layout(step["topic"]).segments.values())
        one = segments[step["which"] % len(segments)] if segments else _WHOLE
        name = one._replace(legacy_topic="").name(self._topic(step["topic"]))
        await self._rest(step["method"], name.replace("segment://", "segments/") + self._resolved(step))
        await self._wire.settle()

    async def _do_namespace(self, step: dict[str, Any]) -> None:
        policy = f"namespaces/{self._namespace}/scalableTopicAutoScalePolicy"
        path, _, query = step["path"].partition("?")
        await self._rest("GET", policy if path == "policy" else f"scalable/{self._namespace}?{query}".rstrip("?"))

    async def _do_v5_schema(self, step: dict[str, Any]) -> None:
        await self._rest("GET", f"schemas/{self._namespace}/t{step['topic']}/{step['path']}")

    async def _do_look_up(self, step: dict[str, Any]) -> None:
        name = self._topic(step["topic"])
        if step["name"] == "persistent":
            name = name.replace("topic://", "persistent://")
        elif step["name"] == "segment":
            name = _WHOLE.name(name)
        elif step["name"] == "missing":
            name += "x"
        await self._look_up(self._sessions, name)
        await self._open_session(self._sessions, _SESSION_OF_STEPS + self.recording.step, name, create=step["create"])

    async def _do_watch(self, step: dict[str, Any]) -> None:
        filters = [pb.KeyValue(key=key, value=value) for key, value in (step["filter"] or {}).items()]
        body = pb.CommandWatchScalableTopics(
            watch_id=step["watch"], namespace=self._namespace, property_filters=filters
        )
        await self._wire.send(self._sessions, body)

    async def _do_unwatch(self, step: dict[str, Any]) -> None:
        await self._wire.send(self._sessions, pb.CommandWatchScalableTopicsClose(watch_id=step["watch"]))

    async def _do_begin(self, step: dict[str, Any]) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            coordinator = self._coordinator = await self._wire.open()
        number = step["coordinator"]
        await self._wire.send(coordinator, pb.CommandTcClientConnectRequest(tc_id=number, scalable=True))
        coordinator.transaction = {}
        body = pb.CommandNewTxn(tc_id=number, txn_ttl_millis=600_000, scalable=True)
        await self._wire.send(coordinator, body)
        self._transactions[step["transaction"]] = coordinator.transaction

    # -- producers -----------------------------------------------------------------------------------------------------

    async def _do_v5_producer(self, step: dict[str, Any]) -> None:
        self._v5_producers[step["client"]] = _Producer(step)

    async def _do_v5_send(self, step: dict[str, Any]) -> None:
        producer = self._v5_producers.get(step["client"])
        for entry in step["entries"] if producer is not None else ():
            active, key = self._layout(producer.step["topic"]).active, entry["key"]
            if not active:
                return
            connection = await self._producer_of(producer, producer.segment_for(key, active))
            if not connection.usable:
                continue
            txn = await self._join_topic(step, connection.target)
            low = key_hashes(key.encode())[1] if key is not None else 0
            fields = {**txn, "schema_version": connection.schema_version, "entry_hash_min": low, "entry_hash_max": low}
            for data in entries_of(entry, step, self._start_ms, fields):
                count = max(entry["batch"], 1)
                body = pb.CommandSend(producer_id=1, sequence_id=entry["sequence"], num_messages=count, **txn)
                connection.session.send(body, data)
                self._wire.flush(connection)
                if step["one_by_one"]:
                    await self._wire.settle()
        await self._wire.settle()

    async def _producer_of(self, producer: _Producer, segment: Segment) -> Connection:
        """Return the connection of a producer to a segment. Open the producer if there is none."""
        step = producer.step
        name = segment.name(self._topic(step["topic"]))
        connection = producer.segments.get(name)
        if connection is None or not connection.alive:
            connection = producer.segments[name] = await self._wire.open()
            connection.target = name
            await self._look_up(connection, name)
        if not connection.usable:
            body = pb.CommandProducer(topic=name, producer_id=1, txn_enabled=True)
            body.producer_access_mode = pb.ProducerAccessMode.Value(step["access"])
            if step["name"] is not None:
                body.producer_name = name_on_segment(step["name"], segment.id)
            if step["schema"] is not None:
                body.schema.CopyFrom(SCHEMAS[step["schema"]])
            if segment.legacy_topic:
                body.metadata.append(_V5)
            await self._wire.send(connection, body)
        return connection

    async def _do_v5_close_producer(self, step: dict[str, Any]) -> None:
        producer = self._v5_producers.pop(step["client"], None)
        for connection in producer.segments.values() if producer is not None else ():
            if step["how"] == "socket" and connection.alive:
                self._wire.end(connection)
            elif connection.usable:
                connection.usable = False
                self._send(connection, pb.CommandCloseProducer(producer_id=1))
        await self._wire.settle()

    # -- consumers -----------------------------------------------------------------------------------------------------

    async def _do_v5_consumer(self, step: dict[str, Any]) -> None:
        consumer = self._v5_consumers[step["client"]] = _Consumer(step)
        if step["kind"] in ("stream", "checkpoint"):
            await self._register(consumer)

    async def _register(self, consumer: _Consumer) -> None:
        step = consumer.step
        if consumer.control is None:
            consumer.control = await self._wire.open()
            await self._look_up(consumer.control, self._topic(step["topic"]))
        body = pb.CommandScalableTopicSubscribe(
            topic=self._topic(step["topic"]),
            subscription=step["subscription"],
            consumer_name=step["name"],
            consumer_id=1,
            consumer_type=pb.ScalableConsumerType.Value(step["kind"].upper()),
        )
        await self._wire.send(consumer.control, body)

    def _wanted(self, consumer: _Consumer) -> dict[str, tuple[int, Ranges]]:
        """Return the ids and entry buckets of the segments that a consumer should read, by name."""
        if consumer.control is None:
            topic = consumer.step["topic"]
            return {one.name(self._topic(topic)): (one.id, ()) for one in self._layout(topic).segments.values()}
        assignment = consumer.control.assignment
        return {
            one.segment_topic: (one.segment_id, tuple((part.start, part.end) for part in one.bucket_ranges))
            for one in (assignment.segments if assignment is not None else ())
        }

    async def _converge(self) -> None:
        """Let the consumers close the segments that they should not read, and subscribe to the others (rule 2)."""
        wanted = {number: self._wanted(one) for number, one in self._v5_consumers.items()}
        closed = False
        for number, consumer in self._v5_consumers.items():
            for name, held in list(consumer.segments.items()):
                if name not in wanted[number] or wanted[number][name][1] != held.ranges:
                    del consumer.segments[name]
                    closed |= self._leave(held.connection)
        if closed:
            await self._wire.settle()
        for number, consumer in self._v5_consumers.items():
            await self._follow(consumer, wanted[number])

    def _leave(self, connection: Connection) -> bool:
        """Close the consumer of a segment, without waiting for the response. Return whether it exists."""
        found, connection.usable = connection.usable, False
        if found:
            self._send(connection, pb.CommandCloseConsumer(consumer_id=1))
        return found

    async def _follow(self, consumer: _Consumer, wanted: Mapping[str, tuple[int, Ranges]]) -> None:
        """Subscribe to the segments that a consumer should read, and request messages."""
        new = []
        for name, (segment, ranges) in wanted.items():
            held = consumer.segments.get(name)
            if held is None:
                held = consumer.segments[name] = _SegmentConsumer(await self._wire.open(), ranges)
                held.connection.target, held.connection.subscription = name, consumer.step["subscription"]
                await self._look_up(held.connection, name)
            if not held.refused and held.connection.alive and not held.connection.usable:
                new.append(held)
                self._send(held.connection, self._subscribe(consumer.step, held, segment))
        if new:
            await self._wire.settle()
        for held in new:
            held.refused = not held.connection.usable
            if held.connection.usable:
                self._send(held.connection, pb.CommandFlow(consumer_id=1, messagePermits=consumer.step["permits"]))
        if new:
            await self._wire.settle()

    def _subscribe(self, step: dict[str, Any], held: _SegmentConsumer, segment: int) -> pb.CommandSubscribe:
        """Return the SUBSCRIBE of a consumer for a segment."""
        connection, reader = held.connection, step["kind"] in ("reader", "checkpoint")
        kind = "Shared" if step["kind"] == "queue" else "Key_Shared" if held.ranges else "Exclusive"
        connection.kind = kind
        body = pb.CommandSubscribe(
            topic=connection.target,
            subscription=f"reader-{step['client']}" if reader else step["subscription"],
            subType=pb.CommandSubscribe.SubType.Value(kind),
            consumer_id=1,
            consumer_name=name_on_segment(step["name"], segment),
            durable=not reader,
            initialPosition=pb.CommandSubscribe.Latest if reader else pb.CommandSubscribe.Earliest,
            force_topic_creation=True,
        )
        if reader:
            body.start_message_id.CopyFrom(EARLIEST if step["position"] == "Earliest" else LATEST)
        if held.ranges:
            shared = body.keySharedMeta
            shared.keySharedMode, shared.entry_bucket_dispatch = pb.STICKY, True
            shared.hashRanges.extend(pb.IntRange(start=start, end=end) for start, end in held.ranges)
        if not connection.target.startswith("segment://"):
            body.metadata.append(_V5)
        return body

    async def _await_checks(self) -> None:
        """Wait until sealed segments that are drained have been checked, and follow the assignments (rule 3)."""
        before: dict[int, list[str]] = {}
        for _ in range(_CHECKS):
            waiting, assigned = self._waiting(), self._assigned()
            if not waiting or assigned == before:
                break
            before = assigned
            for consumer in waiting:
                await self._register(consumer)
            await self._wire.settle(_CHECK_S)
            await self._converge()

    def _waiting(self) -> list[_Consumer]:
        """Return one consumer of each subscription whose stream consumers do not have all active segments yet."""
        groups: dict[tuple[int, str], list[_Consumer]] = {}
        for one in self._v5_consumers.values():
            if one.control is not None and one.control.alive:
                groups.setdefault(one.group, []).append(one)
        return [
            found[0]
            for (topic, _), found in groups.items()
            if any(one.step["kind"] == "stream" for one in found)
            and {id_ for one in found for id_, _ in self._wanted(one).values()}
            != {one.id for one in self._layout(topic).active}
        ]

    def _assigned(self) -> dict[int, list[str]]:
        return {number: sorted(self._wanted(one)) for number, one in self._v5_consumers.items()}

    def _connections_of(self, step: dict[str, Any]) -> list[Connection]:
        """Return the usable connections of a consumer to segments."""
        consumer = self._v5_consumers.get(step["client"])
        found = consumer.segments if consumer is not None else {}
        return [found[name].connection for name in sorted(found) if found[name].connection.usable]

    async def _do_v5_flow(self, step: dict[str, Any]) -> None:
        for connection in self._connections_of(step):
            self._send(connection, pb.CommandFlow(consumer_id=1, messagePermits=step["permits"]))
        await self._wire.settle()

    async def _do_v5_ack(self, step: dict[str, Any]) -> None:
        connections = [one for one in self._connections_of(step) if one.held]
        if not step["all"]:
            connections = connections[step["which"] % max(len(connections), 1) :][:1]
        for connection in connections:
            last = len(connection.held) - 1 if step["all"] else step["which"]
            cumulative = connection.kind == "Exclusive"
            which, count = (last, 1) if cumulative or not step["all"] else (0, last + 1)
            kind = "Cumulative" if cumulative else "Individual"
            await self._acknowledge(connection, {**step, "which": which, "count": count, "kind": kind})

    async def _do_v5_redeliver(self, step: dict[str, Any]) -> None:
        for connection in self._connections_of(step):
            await self._redeliver(connection, step["which"])

    async def _do_v5_seek(self, step: dict[str, Any]) -> None:
        for connection in self._connections_of(step):
            await self._seek(connection, step)
            connection.usable = False

    async def _do_v5_close_consumer(self, step: dict[str, Any]) -> None:
        consumer = self._v5_consumers.get(step["client"])
        if consumer is None:
            return
        if step["how"] != "return":
            del self._v5_consumers[step["client"]]
        if step["how"] == "leave":
            if consumer.control is not None:
                await self._wire.send(consumer.control, pb.CommandScalableTopicUnsubscribe(consumer_id=1))
            for held in consumer.segments.values():
                self._leave(held.connection)
            await self._wire.settle()
            return
        registered = consumer.control is not None
        for connection in (consumer.control, *(held.connection for held in consumer.segments.values())):
            if connection is not None and connection.alive:
                self._wire.end(connection)
        consumer.control = None
        consumer.segments.clear()
        await self._wire.settle(GRACE_S + 0.6 if registered and step["how"] == "crash" else 0)
        if registered and step["how"] == "return":
            await self._register(consumer)
