"""Producers and consumers of scalable topics with a real broker 5.0.1, while segments split and merge."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.request
from collections import Counter
from typing import Any

import pytest

from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings, ProducerSettings
from pcli.replay.service_url import ServiceUrl

pytestmark = pytest.mark.slow


class Topic:
    """A scalable topic, its REST operations, and what its consumers have received."""

    def __init__(self, broker: Any, name: str) -> None:
        self.url = ServiceUrl.parse(broker.service_url)
        self.name = f"topic://public/default/{name}"
        self._rest = f"{broker.http_url}/admin/v2/scalable/public/default/{name}"
        self.received: dict[str, list[tuple[str, int]]] = {"stream": [], "queue": []}
        """Key and number of each message, by kind of consumer."""
        self.ids: dict[str, list[str]] = {"stream": [], "queue": []}
        """Ids of these messages."""

    async def rest(self, method: str, path: str = "") -> bytes:
        def send() -> bytes:
            with urllib.request.urlopen(urllib.request.Request(self._rest + path, method=method), timeout=30) as answer:
                return bytes(answer.read())

        return await asyncio.to_thread(send)

    async def active(self) -> list[int]:
        """Return the active segments by range."""
        segments = json.loads(await self.rest("GET"))["segments"].values()
        ranges = {one["segmentId"]: one["hashRange"]["start"] for one in segments if one["active"]}
        return sorted(ranges, key=ranges.__getitem__)

    async def consume(self, kind: str, name: str, stop: asyncio.Event) -> None:
        """Receive and acknowledge until ``stop``."""
        settings = ConsumerSettings(
            topicNames=(self.name,), subscriptionName=kind, consumerName=name, scalableType=kind,  # type: ignore[arg-type]
            subscriptionInitialPosition="Earliest",
        )  # fmt: skip
        async with Client(self.url) as client:
            consumer = await client.subscribe(settings)
            there = asyncio.Event()
            consumer.on_message = there.set
            while not stop.is_set():
                there.clear()
                with client.turn():
                    while (message := consumer.receive()) is not None:
                        self.received[kind].append((message.content.key or "", int(message.data)))
                        self.ids[kind].append(str(message.id))
                        consumer.acknowledge(message.id)
                waits = [asyncio.ensure_future(one.wait()) for one in (there, stop)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for one in waits:
                    one.cancel()

    def have_different_ids(self) -> bool:
        """Return whether one kind has received a message that the other has not.

        A message whose receipt was lost when its segment was sealed is stored on a child again, with another id.
        """
        return set(self.ids["stream"]) != set(self.ids["queue"])

    async def change(self, chance: random.Random) -> None:
        """Split, merge or rebucket an active segment."""
        async with asyncio.timeout(60):
            while not await self._changed(chance):
                pass

    async def _changed(self, chance: random.Random) -> bool:
        """Return whether the broker has made a change. It refuses changes of segments that it has just rebucketed."""
        active = await self.active()
        at = chance.randrange(len(active))
        operation = chance.choice(("split", "split", "merge", "rebucket"))
        path = f"/split/{active[at]}"
        if operation == "merge" and len(active) > 1:
            at = min(at, len(active) - 2)
            path = f"/merge/{active[at]}/{active[at + 1]}"
        elif operation == "rebucket":
            path = f"/rebucket/{active[at]}?bucketCount={chance.choice((1, 4, 8))}"
        try:
            await self.rest("POST", path)
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (412, 500):
                raise
            return False
        return True


async def send_while(topic: Topic, script: Any) -> int:
    """Send messages until the script has ended; return their number."""
    failures: list[ClientFailure] = []

    def done(result: Any) -> None:
        failures.extend([result] if isinstance(result, ClientFailure) else [])

    async with Client(topic.url) as client:
        producer = await client.produce(topic.name, ProducerSettings())
        work, sent = asyncio.ensure_future(script), 0
        while not work.done():
            with client.turn():
                for _ in range(20):
                    message = OutgoingMessage(b"%d" % sent, key=f"k{sent % 37}")
                    sent += producer.send(message, done)
            await asyncio.sleep(0.01)
        await work
        await client.call(producer.flush)
    assert failures == []
    return sent


async def play(topic: Topic, seed: int) -> None:
    chance, end = random.Random(seed), asyncio.Event()
    await topic.rest("PUT", f"?numInitialSegments={chance.choice((1, 2))}")
    others: list[asyncio.Event] = []
    tasks = [asyncio.ensure_future(topic.consume(kind, f"{kind}-0", end)) for kind in ("stream", "queue", "queue")]

    async def script() -> None:
        await asyncio.sleep(1)
        for number in range(6):
            await topic.change(chance)
            await asyncio.sleep(chance.uniform(0.2, 1.5))
            if others and chance.random() < 0.4:
                others.pop().set()
            else:
                others.append(asyncio.Event())
                tasks.append(asyncio.ensure_future(topic.consume("stream", f"stream-{number + 1}", others[-1])))
            await asyncio.sleep(chance.uniform(0.2, 1.5))

    sent = await send_while(topic, script())
    # A consumer gets the children of each segment two seconds after it has read it. Under load, real brokers delivered
    # nothing for up to 18 seconds from a segment that had just been sealed, although its consumer had permits.
    async with asyncio.timeout(150):
        while any(len(set(found)) < sent for found in topic.received.values()) or topic.have_different_ids():
            await asyncio.sleep(0.1)
    for stop in (end, *others):
        stop.set()
    await asyncio.gather(*tasks)
    for kind, ids in topic.ids.items():
        assert [one for one, count in Counter(ids).items() if count > 1] == [], kind
    last: dict[str, int] = {}
    for key, number in dict.fromkeys(topic.received["stream"]):
        assert last.get(key, -1) < number
        last[key] = number


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_messages_are_received_once_and_in_order_over_changes_and_hand_overs(pulsar_5: Any, seed: int) -> None:
    run(play(Topic(pulsar_5, f"played-{seed}"), seed))
