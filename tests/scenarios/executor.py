"""Execution of a plan against a broker: raw connections of the project's own ClientSession, and REST calls.

Rules of this file
1. Every producer, every consumer and the queries have a connection of their own. A step ends when all requests have
   their responses, nothing has arrived for ``quiet`` seconds and, if there is an earlier recording, at least as many
   frames have arrived as in that recording. The last wait is limited to ``patience`` seconds.
2. All names contain the token of the run, so several runs share one broker. The namespace of a run is deleted at its
   end.
3. A step whose producer or consumer was refused or closed by the broker is not executed.
4. Publish times are before the start of the run and differ for all messages, so that both runs store equal bytes.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scenarios.plans import Plan
from scenarios.recording import Recording, RestExchange, read_json

from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb
from pcli.codec.session import ClientSession, Event
from pcli.codec.wire.build import push_entry
from pcli.replay.service_url import ServiceUrl

__all__ = ["Broker", "Pace", "run_plan"]

_FAILOVER_S = 1.3
"""A Failover subscription changes its active consumer after a second (activeConsumerFailoverDelayTimeMillis)."""
_CONNECT_S = 10
_POLICY_S = 1.0
"""The time in which a changed policy reaches the topics of a real broker."""
_TICK_S = 1.5
"""The time after which a delayed message is certainly due (delayedDeliveryTickTimeMillis)."""
_ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
_AGE_MS = 3_600_000
"""The age of the first message of a run."""
_NOWHERE = (1 << 64) - 1, (1 << 64) - 1
_END = (1 << 63) - 1, (1 << 63) - 1


@dataclass(frozen=True)
class Broker:
    """The addresses of a broker."""

    service_url: str
    http_url: str
    name: str = ""
    advance: Callable[[float], object] | None = None
    """Advances the broker's clock by seconds; None if the broker has a real clock."""


@dataclass(frozen=True)
class Pace:
    """Waiting times in seconds."""

    quiet: float = 0.2
    patience: float = 10.0


@dataclass
class _Connection:
    """One connection and the entries that its consumer holds."""

    stream: int
    session: ClientSession
    writer: asyncio.StreamWriter
    alive: bool = True
    usable: bool = False
    """Whether its producer or consumer exists."""
    target: str = ""
    subscription: str = ""
    kind: str = ""
    waiting_acks: dict[int, pb.CommandAck] = field(default_factory=dict)
    held: dict[tuple[int, int], _Held] = field(default_factory=dict)


@dataclass
class _Held:
    """An entry that a consumer has received and has not acknowledged."""

    id: pb.MessageIdData
    size: int
    left: int
    """Bits of the unacknowledged messages of a batch."""


async def run_plan(
    plan: Plan, broker: Broker, token: str, now_ms: int, *, pace: Pace, earlier: Recording | None = None
) -> Recording:
    """Run a plan and return the recording. ``earlier`` is the recording of the run that this run is compared with."""
    run = _Run(plan, broker, token, now_ms, pace, earlier.counts if earlier is not None else {})
    try:
        await run.prepare()
        for number, step in enumerate(plan.steps, start=1):
            run.recording.step = number
            await run.execute(step)
    finally:
        await run.close()
    return run.recording


class _Run:
    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        token: str,
        now_ms: int,
        pace: Pace,
        expected: Mapping[tuple[int, int], int],
    ) -> None:
        self._plan, self._broker, self._pace, self._expected = plan, broker, pace, expected
        self._namespace, self._start_ms = f"public/{token}", now_ms - _AGE_MS
        self.recording = Recording(token, broker.name)
        self._connections: list[_Connection] = []
        self._producers: dict[int, _Connection] = {}
        self._consumers: dict[int, _Connection] = {}
        self._stored: dict[str, list[tuple[pb.MessageIdData, int]]] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._last = 0.0
        self._given_up: set[int] = set()
        self._coordinator: _Connection | None = None
        self._transactions: dict[int, dict[str, int]] = {}
        self._beginning = -1
        self._loop = asyncio.get_running_loop()

    # -- start and end -------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Create the namespace and the partitioned topics, and look up all topics."""
        await self._rest("PUT", f"namespaces/{self._namespace}")
        for policy in self._plan.policies:
            await self._rest("POST", f"namespaces/{self._namespace}/{policy['name']}", policy["value"])
        for number, topic in enumerate(self._plan.topics):
            if topic["partitions"]:
                await self._rest("PUT", f"{self._path(number)}/partitions", topic["partitions"])
        queries = await self._connect()
        for number, topic in enumerate(self._plan.topics):
            queries.session.send(pb.CommandPartitionedTopicMetadata(topic=self._name((number, -1))))
            for partition in range(topic["partitions"]) if topic["partitions"] else (-1,):
                queries.session.send(pb.CommandLookupTopic(topic=self._name((number, partition))))
            self._flush(queries)
            await self._settle()

    async def close(self) -> None:
        """Close the connections, and begin to delete the namespace."""
        for connection in self._connections:
            connection.alive = False
            connection.writer.close()
        for reader in self._readers:
            reader.cancel()
        self._loop.run_in_executor(None, self._delete)

    def _delete(self) -> None:
        for number, topic in enumerate(self._plan.topics):
            suffix = "/partitions?force=true" if topic["partitions"] else "?force=true"
            with suppress(OSError, http.client.HTTPException):
                self._call("DELETE", self._path(number) + suffix, None)
        with suppress(OSError, http.client.HTTPException):
            self._call("DELETE", f"namespaces/{self._namespace}?force=true", None)

    def _name(self, target: tuple[int, int]) -> str:
        number, partition = target
        domain = "persistent" if self._plan.topics[number]["persistent"] else "non-persistent"
        return f"{domain}://{self._namespace}/t{number}" + (f"-partition-{partition}" if partition >= 0 else "")

    def _path(self, number: int, partition: int = -1) -> str:
        return self._name((number, partition)).replace("://", "/")

    async def _connect(self) -> _Connection:
        address = ServiceUrl.parse(self._broker.service_url).hosts[0]
        reader, writer = await asyncio.open_connection(*address)
        connection = _Connection(len(self._connections), ClientSession(), writer)
        self._connections.append(connection)
        self._readers.append(asyncio.create_task(self._read(connection, reader)))
        connection.session.connect()
        self._flush(connection)
        async with asyncio.timeout(_CONNECT_S):
            while connection.alive and connection.session.connected is None:
                await asyncio.sleep(0.002)
        return connection

    async def _read(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                for event in connection.session.receive(data):
                    if event.name not in ("PING", "PONG"):
                        self._last = self._loop.time()
                        self.recording.received(connection.stream, event.frame.data, event.frame.type)
                        self._note(connection, event)
                if connection.alive and (pong := connection.session.output()):
                    connection.writer.write(pong)
        if connection.alive:
            connection.alive = connection.usable = False
            self._last = self._loop.time()
            self.recording.ended(connection.stream, from_client=False)

    def _note(self, connection: _Connection, event: Event) -> None:
        """Update the state of a producer or consumer after a frame of the broker."""
        name, body, frame = event.name, event.body, event.frame
        if name == "PRODUCER_SUCCESS" and not body.producer_ready:
            self._given_up.add(id(event.request))
        elif name in ("PRODUCER_SUCCESS", "SUCCESS"):
            connection.usable = True
        elif name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
            connection.usable = False
            connection.held.clear()
        elif name == "SEND_RECEIPT" and body.message_id.ledgerId != _NOWHERE[0]:
            self._stored.setdefault(connection.target, []).append((body.message_id, body.sequence_id))
        elif name == "ACK_RESPONSE":
            connection.waiting_acks.pop(body.request_id, None)
        elif name == "NEW_TXN_RESPONSE" and not body.HasField("error"):
            bits = {"txnid_most_bits": body.txnid_most_bits, "txnid_least_bits": body.txnid_least_bits}
            self._transactions[self._beginning] = bits
        elif name == "MESSAGE":
            size = frame.metadata.num_messages_in_batch if frame.metadata.HasField("num_messages_in_batch") else 0
            left = sum(word << 64 * at for at, word in enumerate(body.ack_set)) if body.ack_set else (1 << size) - 1
            key = body.message_id.ledgerId, body.message_id.entryId
            connection.held.pop(key, None)
            connection.held[key] = _Held(body.message_id, size, left)

    # -- input and output ----------------------------------------------------------------------------------------------

    def _flush(self, connection: _Connection) -> None:
        data = connection.session.output()
        if data and connection.alive:
            self.recording.sent(connection.stream, data)
            connection.writer.write(data)

    async def _send(self, connection: _Connection, body: Any, entry: bytes = b"") -> None:
        """Send a command and settle."""
        connection.session.send(body, entry)
        self._flush(connection)
        await self._settle()

    async def _settle(self, at_least: float = 0) -> None:
        """Wait until the broker has nothing more to send (rule 1)."""
        if at_least and self._broker.advance is not None:
            await asyncio.to_thread(self._broker.advance, at_least)
            at_least = 0
        start = self._last = self._loop.time()
        while True:
            now = self._loop.time()
            left = max(self._last + self._pace.quiet - now, start + at_least - now)
            if left > 0:
                await asyncio.sleep(left)
                continue
            missing = self._unanswered()
            if not missing and not self._is_incomplete():
                break
            if now - max(self._last, start + at_least) >= self._pace.patience:
                self._given_up |= missing
                break
            await asyncio.sleep(0.02)
        self.recording.wait += 1

    def _unanswered(self) -> set[int]:
        """Return the identities of requests without a response, except those for which an earlier step waited."""
        alive = [one for one in self._connections if one.alive]
        bodies = {id(body) for one in alive for body in one.session.open_requests}
        return (bodies | {id(request) for one in alive for request in one.waiting_acks.values()}) - self._given_up

    def _is_incomplete(self) -> bool:
        wait, found = self.recording.wait, self.recording.counts
        return any(found[wait, one.stream] < self._expected.get((wait, one.stream), 0) for one in self._connections)

    async def _rest(self, method: str, path: str, body: Any = None) -> None:
        """Make a REST call and record it."""
        status, response = await asyncio.to_thread(self._call, method, path, body)
        shown = path.replace(self.recording.token, "~")
        self.recording.exchanges.append(RestExchange(self.recording.step, method, shown, body, status, response))

    def _call(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(urlsplit(self._broker.http_url).netloc, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/admin/v2/{path}", data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, read_json(response.read())
        finally:
            connection.close()

    # -- transactions --------------------------------------------------------------------------------------------------

    async def _do_begin(self, step: dict[str, Any]) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            coordinator = self._coordinator = await self._connect()
            await self._send(coordinator, pb.CommandLookupTopic(topic=_ASSIGN))
            await self._send(coordinator, pb.CommandTcClientConnectRequest(tc_id=0))
        self._transactions[step["transaction"]] = {}
        self._beginning = step["transaction"]
        await self._send(coordinator, pb.CommandNewTxn(tc_id=0, txn_ttl_millis=600_000))

    async def _do_end(self, step: dict[str, Any]) -> None:
        txn = self._transactions.get(step["transaction"])
        if txn and self._coordinator is not None:
            action = pb.TxnAction.Value(step["action"])
            await self._send(self._coordinator, pb.CommandEndTxn(txn_action=action, **txn))

    async def _join(self, step: dict[str, Any], body: Callable[[dict[str, int]], Any]) -> dict[str, int]:
        """Add a partition or a subscription to the step's transaction, and return the fields with its id."""
        txn = self._transactions.get(step.get("transaction", -1), {})
        if txn and self._coordinator is not None:
            await self._send(self._coordinator, body(txn))
        return txn

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def execute(self, step: dict[str, Any]) -> None:
        """Execute one step and settle."""
        await getattr(self, f"_do_{step['do']}")(step)

    async def _do_wait(self, step: dict[str, Any]) -> None:
        await self._settle(step["seconds"])

    async def _do_producer(self, step: dict[str, Any]) -> None:
        connection = self._producers[step["producer"]] = await self._connect()
        connection.target = self._name(step["target"])
        body = pb.CommandProducer(topic=connection.target, producer_id=1)
        body.producer_access_mode = pb.ProducerAccessMode.Value(step["access"])
        if step["name"] is not None:
            body.producer_name = step["name"]
            body.user_provided_producer_name = True
        await self._send(connection, body)

    async def _do_send(self, step: dict[str, Any]) -> None:
        connection = self._producers.get(step["producer"])
        if connection is None or not connection.usable:
            return
        txn = await self._join(step, lambda bits: pb.CommandAddPartitionToTxn(partitions=[connection.target], **bits))
        for entry in step["entries"]:
            body = pb.CommandSend(producer_id=1, sequence_id=entry["sequence"], num_messages=max(entry["batch"], 1))
            body.MergeFrom(pb.CommandSend(**txn))
            connection.session.send(body, self._entry(entry, step, txn))
            self._flush(connection)
            if step["one_by_one"]:
                await self._settle()
        await self._settle(step["delay_ms"] / 1000 + _TICK_S if step["delay_ms"] else 0)

    def _entry(self, entry: dict[str, Any], step: dict[str, Any], txn: dict[str, int]) -> bytes:
        number, key, compression = entry["number"], entry["key"], step["compression"]
        time_ms = self._start_ms + number
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=entry["sequence"], publish_time=time_ms, **txn)
        if step["delay_ms"]:
            metadata.deliver_at_time = int(time.time() * 1000) + step["delay_ms"]
        payload = b"m%d" % number
        if entry["batch"]:
            metadata.num_messages_in_batch = entry["batch"]
            singles = []
            for index in range(entry["batch"]):
                single = pb.SingleMessageMetadata(sequence_id=entry["sequence"] + index)
                if key is not None:
                    single.partition_key = key
                singles.append((single, b"m%d.%d" % (number, index)))
            payload = join_batch(singles)
        if key is not None:
            metadata.partition_key = key
        if compression != "NONE":
            metadata.compression = pb.CompressionType.Value(compression)
            metadata.uncompressed_size = len(payload)
            payload = compress(metadata.compression, payload)
        return push_entry(metadata, payload)

    async def _do_subscribe(self, step: dict[str, Any]) -> None:
        connection = self._consumers[step["consumer"]] = await self._connect()
        connection.target, connection.kind = self._name(step["target"]), step["type"]
        connection.subscription = step["subscription"]
        body = pb.CommandSubscribe(
            topic=connection.target,
            subscription=step["subscription"],
            subType=pb.CommandSubscribe.SubType.Value(step["type"]),
            consumer_id=1,
            consumer_name=f"c{step['consumer']}",
            durable=step["durable"],
            initialPosition=pb.CommandSubscribe.InitialPosition.Value(step["position"]),
            priority_level=step["priority"],
        )
        if not step["durable"]:
            body.start_message_id.CopyFrom(_EARLIEST if step["position"] == "Earliest" else _LATEST)
        await self._send(connection, body)
        await self._settle_failover(connection)
        if connection.usable and step["permits"]:
            await self._send(connection, pb.CommandFlow(consumer_id=1, messagePermits=step["permits"]))

    async def _settle_failover(self, connection: _Connection) -> None:
        if connection.kind == "Failover":
            await self._settle(_FAILOVER_S)

    async def _with(self, step: dict[str, Any], use: Callable[[_Connection], Coroutine[Any, Any, None]]) -> None:
        connection = self._consumers.get(step["consumer"])
        if connection is not None and connection.usable:
            await use(connection)

    async def _do_flow(self, step: dict[str, Any]) -> None:
        body = pb.CommandFlow(consumer_id=1, messagePermits=step["permits"])
        await self._with(step, lambda connection: self._send(connection, body))

    async def _do_ack(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._acknowledge(connection, step))

    async def _acknowledge(self, connection: _Connection, step: dict[str, Any]) -> None:
        if not connection.held:
            return
        joined = pb.Subscription(topic=connection.target, subscription=connection.subscription)
        txn = await self._join(step, lambda bits: pb.CommandAddSubscriptionToTxn(subscription=[joined], **bits))
        request = connection.session.next_request_id()
        kind = "Cumulative" if step["kind"] == "Cumulative" else "Individual"
        body = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.AckType.Value(kind), request_id=request, **txn)
        first = step["which"] % len(connection.held)
        count = 1 if kind == "Cumulative" else step["count"]
        for key, held in list(connection.held.items())[first : first + count]:
            one = body.message_id.add(ledgerId=held.id.ledgerId, entryId=held.id.entryId)
            if held.id.HasField("partition"):
                one.partition = held.id.partition
            if step["kind"] == "Batch" and held.size > 1:
                held.left &= ~(1 << step["index"] % held.size)
                one.batch_size = held.size
                one.ack_set.append(held.left)
            if step["kind"] != "Batch" or not held.left:
                del connection.held[key]
            if kind == "Cumulative":
                connection.held = {other: kept for other, kept in connection.held.items() if other > key}
        connection.waiting_acks[request] = body
        await self._send(connection, body)

    async def _do_redeliver(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._redeliver(connection, step["which"]))

    async def _redeliver(self, connection: _Connection, which: int | None) -> None:
        body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
        if which is not None and connection.held:
            body.message_ids.append(list(connection.held.values())[which % len(connection.held)].id)
        await self._send(connection, body)

    async def _do_seek(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._seek(connection, step))

    async def _seek(self, connection: _Connection, step: dict[str, Any]) -> None:
        body = pb.CommandSeek(consumer_id=1)
        stored = self._stored.get(connection.target, [])
        if step["to"] == "time":
            body.message_publish_time = self._start_ms + step["which"]
        elif step["to"] == "entry" and stored:
            body.message_id.CopyFrom(stored[step["which"] % len(stored)][0])
        else:
            body.message_id.CopyFrom(_LATEST if step["to"] == "latest" else _EARLIEST)
        await self._send(connection, body)

    async def _do_unsubscribe(self, step: dict[str, Any]) -> None:
        await self._with(
            step, lambda connection: self._send(connection, pb.CommandUnsubscribe(consumer_id=1, force=step["force"]))
        )

    async def _do_last_message_id(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._send(connection, pb.CommandGetLastMessageId(consumer_id=1)))

    async def _do_consumer_stats(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._send(connection, pb.CommandConsumerStats(consumer_id=1)))

    async def _do_close_consumer(self, step: dict[str, Any]) -> None:
        connection = self._consumers.get(step["consumer"])
        if connection is not None:
            await self._close(connection, pb.CommandCloseConsumer(consumer_id=1), step["how"])
            await self._settle_failover(connection)

    async def _do_close_producer(self, step: dict[str, Any]) -> None:
        connection = self._producers.get(step["producer"])
        if connection is not None:
            await self._close(connection, pb.CommandCloseProducer(producer_id=1), step["how"])

    async def _close(self, connection: _Connection, body: Any, how: str) -> None:
        if not connection.alive:
            return
        if how == "command":
            if connection.usable:
                connection.usable = False
                await self._send(connection, body)
                connection.usable = False
            return
        self.recording.ended(connection.stream, from_client=True)
        connection.alive = connection.usable = False
        connection.writer.close()
        await self._settle()

    async def _do_rest(self, step: dict[str, Any]) -> None:
        number, partition = step["target"]
        stored = self._stored.get(self._name((number, partition)), [])
        path, body = step["path"], step.get("body")
        path = path.replace("{time}", str(self._start_ms + step.get("which", 0)))
        if body in ("{entry}", "{after}"):
            found = stored[step["which"] % len(stored)][0] if stored else _EARLIEST
            excluded = {"excluded": True} if body == "{after}" else {}
            body = {"ledgerId": _signed(found.ledgerId), "entryId": _signed(found.entryId), **excluded}
        separator = "" if not path or path.startswith("?") else "/"
        await self._rest(step["method"], f"{self._path(number, partition)}{separator}{path}", body)
        await self._settle()

    async def _do_policy(self, step: dict[str, Any]) -> None:
        path = f"namespaces/{self._namespace}" if step["target"] is None else self._path(*step["target"])
        await self._rest(step["method"], f"{path}/{step['path']}", step["body"])
        await self._settle(_POLICY_S)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_EARLIEST = pb.MessageIdData(ledgerId=_NOWHERE[0], entryId=_NOWHERE[1])
_LATEST = pb.MessageIdData(ledgerId=_END[0], entryId=_END[1])
