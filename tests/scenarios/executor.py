"""Execution of a plan against a broker: one method for each kind of step.

Rules of this file
1. Every producer, every consumer and the queries have a connection of their own (connections.py).
2. All names contain the token of the run, so several runs share one broker. The namespace of a run is deleted at its
   end.
3. A step whose producer or consumer was refused or closed by the broker is not executed.
4. Publish times are before the start of the run and differ for all messages, so that both runs store equal bytes.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from scenarios.connections import Broker, Connection, Connections, Pace
from scenarios.entries import SCHEMAS, entries_of
from scenarios.plans import Plan
from scenarios.recording import Recording, RestExchange, read_json

from pcli.codec.proto import pb
from pcli.codec.wire.constants import MINUS_ONE

_FAILOVER_S = 1.3
"""A Failover subscription changes its active consumer after a second (activeConsumerFailoverDelayTimeMillis)."""
_POLICY_S = 1.0
"""The time in which a changed policy reaches the topics of a real broker."""
_TICK_S = 1.5
"""The time after which a delayed message is certainly due (delayedDeliveryTickTimeMillis)."""
_ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
_COMPACTION_TRIES = 20
_AGE_MS = 3_600_000
"""The age of the first message of a run."""
EARLIEST = pb.MessageIdData(ledgerId=MINUS_ONE, entryId=MINUS_ONE)
"""The position before the first entry."""
LATEST = pb.MessageIdData(ledgerId=(1 << 63) - 1, entryId=(1 << 63) - 1)
"""The position after the last entry."""


class Run:
    """One run of a plan."""

    _of_transactions: ClassVar[dict[str, Any]] = {}
    """Fields of the commands of transactions."""

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        token: str,
        now_ms: int,
        pace: Pace,
        expected: Mapping[tuple[int, int], int],
    ) -> None:
        """``expected`` are the counts of the recording that this run is compared with; empty if there is none."""
        self._plan, self._broker = plan, broker
        self._namespace, self._start_ms = f"public/{token}", now_ms - _AGE_MS
        self.recording = Recording(token, broker.name)
        self._wire = Connections(broker, self.recording, pace, expected)
        self._producers: dict[int, Connection] = {}
        self._consumers: dict[int, Connection] = {}
        self._coordinator: Connection | None = None
        self._queries: Connection | None = None
        self._transactions: dict[int, dict[str, int]] = {}

    async def record(self) -> Recording:
        """Run the plan, and return the recording."""
        try:
            await self.prepare()
            for number, step in enumerate(self._plan.steps, start=1):
                self.recording.step = number
                await self.execute(step)
        finally:
            await self.close()
        return self.recording

    # -- start and end -------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Create the namespace and the partitioned topics, and look up all topics."""
        await self._rest("PUT", f"namespaces/{self._namespace}")
        for policy in self._plan.policies:
            await self._rest("POST", f"namespaces/{self._namespace}/{policy['name']}", policy["value"])
        for number, topic in enumerate(self._plan.topics):
            if topic["partitions"]:
                await self._rest("PUT", f"{self._path(number)}/partitions", topic["partitions"])
        queries = self._queries = await self._wire.open()
        for number, topic in enumerate(self._plan.topics):
            queries.session.send(pb.CommandPartitionedTopicMetadata(topic=self._name((number, -1))))
            for partition in range(topic["partitions"]) if topic["partitions"] else (-1,):
                queries.session.send(pb.CommandLookupTopic(topic=self._name((number, partition))))
            self._wire.flush(queries)
            await self._wire.settle()

    async def close(self) -> None:
        """Close the connections, and begin to delete the namespace."""
        self._wire.close()
        asyncio.get_running_loop().run_in_executor(None, self.delete)

    def delete(self) -> None:
        """Delete the topics and the namespace."""
        for number, topic in enumerate(self._plan.topics):
            suffix = "/partitions?force=true" if topic["partitions"] else "?force=true"
            self._call_quietly("DELETE", self._path(number) + suffix)
        self._call_quietly("DELETE", f"namespaces/{self._namespace}?force=true")

    def _call_quietly(self, method: str, path: str) -> None:
        with suppress(OSError, http.client.HTTPException):
            self._call(method, path, None)

    def _name(self, target: tuple[int, int]) -> str:
        number, partition = target
        domain = "persistent" if self._plan.topics[number]["persistent"] else "non-persistent"
        return f"{domain}://{self._namespace}/t{number}" + (f"-partition-{partition}" if partition >= 0 else "")

    def _path(self, number: int, partition: int = -1) -> str:
        return self._name((number, partition)).replace("://", "/")

    async def _rest(self, method: str, path: str, body: Any = None) -> int:
        """Make a REST call and record it. Return its status."""
        status, response = await asyncio.to_thread(self._call, method, path, body)
        shown = path.replace(self.recording.token, "~")
        self.recording.exchanges.append(RestExchange(self.recording.step, method, shown, body, status, response))
        return status

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
            coordinator = self._coordinator = await self._wire.open()
            await self._wire.send(coordinator, pb.CommandLookupTopic(topic=_ASSIGN))
            await self._wire.send(coordinator, pb.CommandTcClientConnectRequest(tc_id=0))
        coordinator.transaction = {}
        await self._wire.send(coordinator, pb.CommandNewTxn(tc_id=0, txn_ttl_millis=600_000))
        self._transactions[step["transaction"]] = coordinator.transaction

    async def _do_end(self, step: dict[str, Any]) -> None:
        txn = self._transactions.get(step["transaction"])
        if txn and self._coordinator is not None:
            action = pb.TxnAction.Value(step["action"])
            body = pb.CommandEndTxn(txn_action=action, **txn, **self._of_transactions)
            await self._wire.send(self._coordinator, body)

    async def _join(self, step: dict[str, Any], body: Callable[..., Any]) -> dict[str, int]:
        """Add a topic or a subscription to the step's transaction, and return the fields with its id."""
        txn = self._transactions.get(step.get("transaction", -1), {})
        if txn and self._coordinator is not None:
            await self._wire.send(self._coordinator, body(**txn, **self._of_transactions))
        return txn

    async def _join_topic(self, step: dict[str, Any], topic: str) -> dict[str, int]:
        return await self._join(step, partial(pb.CommandAddPartitionToTxn, partitions=[topic]))

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def execute(self, step: dict[str, Any]) -> None:
        """Execute one step and settle."""
        await getattr(self, f"_do_{step['do']}")(step)

    async def _do_wait(self, step: dict[str, Any]) -> None:
        await self._wire.settle(step["seconds"])

    async def _do_producer(self, step: dict[str, Any]) -> None:
        connection = self._producers[step["producer"]] = await self._wire.open()
        connection.target = self._name(step["target"])
        body = pb.CommandProducer(topic=connection.target, producer_id=1)
        body.producer_access_mode = pb.ProducerAccessMode.Value(step["access"])
        if step["name"] is not None:
            body.producer_name = step["name"]
            body.user_provided_producer_name = True
        _add_schema(body, step)
        await self._wire.send(connection, body)

    async def _do_send(self, step: dict[str, Any]) -> None:
        connection = self._producers.get(step["producer"])
        if connection is None or not connection.usable:
            return
        txn = await self._join_topic(step, connection.target)
        for entry in step["entries"]:
            fields = {**txn, "schema_version": connection.schema_version}
            for data in entries_of(entry, step, self._start_ms, fields):
                body = pb.CommandSend(producer_id=1, sequence_id=entry["sequence"], num_messages=max(entry["batch"], 1))
                body.MergeFrom(pb.CommandSend(is_chunk=entry["chunks"] > 0, **txn))
                connection.session.send(body, data)
                self._wire.flush(connection)
                if step["one_by_one"]:
                    await self._wire.settle()
        await self._wire.settle(step["delay_ms"] / 1000 + _TICK_S if step["delay_ms"] else 0)

    async def _do_subscribe(self, step: dict[str, Any]) -> None:
        connection = self._consumers[step["consumer"]] = await self._wire.open()
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
            read_compacted=step["compacted"],
        )
        _add_schema(body, step)
        if not step["durable"]:
            body.start_message_id.CopyFrom(EARLIEST if step["position"] == "Earliest" else LATEST)
        await self._wire.send(connection, body)
        await self._settle_failover(connection)
        if connection.usable and step["permits"]:
            await self._wire.send(connection, pb.CommandFlow(consumer_id=1, messagePermits=step["permits"]))

    async def _settle_failover(self, connection: Connection) -> None:
        if connection.kind == "Failover":
            await self._wire.settle(_FAILOVER_S)

    async def _with(self, step: dict[str, Any], use: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
        connection = self._consumers.get(step["consumer"])
        if connection is not None and connection.usable:
            await use(connection)

    async def _with_command(self, step: dict[str, Any], body: Any) -> None:
        await self._with(step, lambda connection: self._wire.send(connection, body))

    async def _do_flow(self, step: dict[str, Any]) -> None:
        await self._with_command(step, pb.CommandFlow(consumer_id=1, messagePermits=step["permits"]))

    async def _do_ack(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._acknowledge(connection, step))

    async def _acknowledge(self, connection: Connection, step: dict[str, Any]) -> None:
        if not connection.held:
            return
        joined = pb.Subscription(topic=connection.target, subscription=connection.subscription)
        txn = await self._join(step, partial(pb.CommandAddSubscriptionToTxn, subscription=[joined]))
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
        await self._wire.send(connection, body)

    async def _do_redeliver(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._redeliver(connection, step["which"]))

    async def _redeliver(self, connection: Connection, which: int | None) -> None:
        body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
        if which is not None and connection.held:
            body.message_ids.append(list(connection.held.values())[which % len(connection.held)].id)
        await self._wire.send(connection, body)

    async def _do_seek(self, step: dict[str, Any]) -> None:
        await self._with(step, lambda connection: self._seek(connection, step))

    async def _seek(self, connection: Connection, step: dict[str, Any]) -> None:
        body = pb.CommandSeek(consumer_id=1)
        stored = self._wire.stored.get(connection.target, [])
        if step["to"] == "time":
            body.message_publish_time = self._start_ms + step["which"]
        elif step["to"] == "entry" and stored:
            body.message_id.CopyFrom(stored[step["which"] % len(stored)])
        else:
            body.message_id.CopyFrom(LATEST if step["to"] == "latest" else EARLIEST)
        await self._wire.send(connection, body)

    async def _do_unsubscribe(self, step: dict[str, Any]) -> None:
        await self._with_command(step, pb.CommandUnsubscribe(consumer_id=1, force=step["force"]))

    async def _do_last_message_id(self, step: dict[str, Any]) -> None:
        await self._with_command(step, pb.CommandGetLastMessageId(consumer_id=1))

    async def _do_consumer_stats(self, step: dict[str, Any]) -> None:
        await self._with_command(step, pb.CommandConsumerStats(consumer_id=1))

    async def _do_close_consumer(self, step: dict[str, Any]) -> None:
        connection = self._consumers.get(step["consumer"])
        if connection is not None:
            await self._close(connection, pb.CommandCloseConsumer(consumer_id=1), step["how"])
            await self._settle_failover(connection)

    async def _do_close_producer(self, step: dict[str, Any]) -> None:
        connection = self._producers.get(step["producer"])
        if connection is not None:
            await self._close(connection, pb.CommandCloseProducer(producer_id=1), step["how"])

    async def _close(self, connection: Connection, body: Any, how: str) -> None:
        if not connection.alive:
            return
        if how == "command":
            if connection.usable:
                connection.usable = False
                await self._wire.send(connection, body)
                connection.usable = False
            return
        self._wire.end(connection)
        await self._wire.settle()

    async def _do_rest(self, step: dict[str, Any]) -> None:
        number, partition = step["target"]
        stored = self._wire.stored.get(self._name((number, partition)), [])
        path, body = step["path"], step.get("body")
        path = path.replace("{time}", str(self._start_ms + step.get("which", 0)))
        if body in ("{entry}", "{after}"):
            found = stored[step["which"] % len(stored)] if stored else EARLIEST
            excluded = {"excluded": True} if body == "{after}" else {}
            body = {"ledgerId": _signed(found.ledgerId), "entryId": _signed(found.entryId), **excluded}
        separator = "" if not path or path.startswith("?") else "/"
        await self._rest(step["method"], f"{self._path(number, partition)}{separator}{path}", body)
        await self._wire.settle()

    async def _do_compact(self, step: dict[str, Any]) -> None:
        path = f"{self._path(*step['target'])}/compaction"
        await self._rest("PUT", path)
        for _ in range(_COMPACTION_TRIES):
            await self._wire.settle()
            status = (await asyncio.to_thread(self._call, "GET", path, None))[1]
            if not isinstance(status, dict) or status.get("status") != "RUNNING":
                break

    async def _do_schema(self, step: dict[str, Any]) -> None:
        await self._rest(step["method"], f"schemas/{self._path(*step['target']).partition('/')[2]}/{step['path']}")
        await self._wire.settle()

    async def _do_get_schema(self, step: dict[str, Any]) -> None:
        assert self._queries is not None
        body = pb.CommandGetSchema(topic=self._name(step["target"]))
        if step["version"] is not None:
            body.schema_version = step["version"].to_bytes(8, "big")
        await self._wire.send(self._queries, body)

    async def _do_policy(self, step: dict[str, Any]) -> None:
        path = f"namespaces/{self._namespace}" if step["target"] is None else self._path(*step["target"])
        await self._rest(step["method"], f"{path}/{step['path']}", step["body"])
        await self._wire.settle(_POLICY_S)


def _add_schema(body: Any, step: dict[str, Any]) -> None:
    if step["schema"] is not None:
        body.schema.CopyFrom(SCHEMAS[step["schema"]])


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
