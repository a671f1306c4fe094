"""How `pcli produce` runs: payloads in blocks, one turn of the engine for each.

Rules of this file
1. Payloads come in lists: those of a pipe as many as it has, made ones by the thousand, or by 4 MB.
2. When the producer has no room, nothing is read until it has.
3. The first message that was not taken is said, by its number from 1, and ends the command: no more is read.
4. After Ctrl-C nothing more is read; what was sent is waited for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pcli.cli.client.client_session import Meter, run_client
from pcli.cli.client.payload_blocks import first, listed, numbered, paced
from pcli.cli.common.signals import StopRequest
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.client.outgoing import Outgoing
    from pcli.replay.client.producer_settings import ProducerSettings
    from pcli.replay.client.shell import Client
    from pcli.replay.service import Security

__all__ = ["Run"]


@dataclass(slots=True)
class Run:
    """Everything that `produce` was told."""

    topic: str
    url: str
    security: Security
    file: str
    messages: list[str]
    size: int | None
    number: int | None
    rate: float
    key: str
    key_ranges: list[str]
    properties: list[str]
    batch: str
    compression: str
    sequence_id: int | None
    producer_name: str

    def run(self) -> None:
        """Send all, and say how many. LocalError and RemoteError for what can't be."""
        if sum(map(bool, (self.file, self.messages, self.size))) > 1:
            raise LocalError("messages come from --file, from -m or by --size: from one of them")
        if self.key and self.key_ranges:
            raise LocalError("a key is given by -k, or chosen by --key-range")
        settings, make = self._settings(), self._maker()
        source = self._source()

        async def main(client: Client, stop: StopRequest) -> None:
            producer = await stop.unless(client.produce(self.topic, settings))
            meter = Meter("sent", printed=False)
            sender = _Sender(client, producer, make, meter, on_failure=stop.request)
            with meter.shown():
                blocks = paced(source(), self.rate)
                try:
                    while payloads := await stop.unless(anext(blocks, None)):
                        await stop.unless(sender.send(payloads))
                finally:
                    await sender.finish(stop)

        run_client(self.url, self.security, main)

    # -- what is sent ----------------------------------------------------------------------------------------------

    def _source(self) -> Callable[[], AsyncIterator[list[bytes]]]:
        """Payloads in lists, as many as are wanted. A file is opened now."""
        if self.size is not None:
            size = self.size
            return lambda: listed(numbered(size, self.number), size)
        if self.messages:
            texts = [text.encode(errors="surrogateescape") for text in self.messages]
            repeated = itertools.islice(itertools.cycle(texts), self.number or len(texts))
            return lambda: listed(repeated, max(map(len, texts)))
        from pcli.cli.client.async_streams import Source

        lines = Source(self.file or "-")
        return lambda: first(lines.lines(), self.number)

    def _maker(self) -> Callable[[bytes], Outgoing]:
        from pcli.cli.client.key_ranges import keys_in, ranges_of
        from pcli.replay.client.outgoing import Outgoing

        properties = dict(_pair(text) for text in self.properties) or None
        if self.key_ranges:
            keys = itertools.cycle(keys_in(ranges_of(self.key_ranges)))
            return lambda payload: Outgoing(payload, key=next(keys), properties=properties)
        if self.key or properties:
            return lambda payload: Outgoing(payload, key=self.key or None, properties=properties)
        return Outgoing

    # -- how it is sent --------------------------------------------------------------------------------------------

    def _settings(self) -> ProducerSettings:
        from pcli.replay.client.producer_settings import ProducerSettings

        fields: dict[str, Any] = {"compressionType": self.compression, "producerName": self.producer_name}
        if self.sequence_id is not None:
            fields["initialSequenceId"] = self.sequence_id - 1
        if self.compression != "NONE":
            fields["compressMinMsgBodySize"] = 0  # who asks for it wants to see it, also on small messages
        return ProducerSettings(**fields, **_batching(self.batch))


class _Sender:
    """Hands payloads to the producer, and hears what became of them."""

    def __init__(
        self,
        client: Client,
        producer: Any,
        make: Callable[[bytes], Outgoing],
        meter: Meter,
        *,
        on_failure: Callable[[], None],
    ) -> None:
        from pcli.replay.client.refusal import Refusal

        self._client = client
        self._producer = producer
        self._make = make
        self._meter = meter
        self._on_failure = on_failure
        self._room = asyncio.Event()
        self._refusal = Refusal
        self._failures: dict[int, Refusal] = {}
        self._handed = 0
        producer.on_room = self._room.set

    async def send(self, payloads: list[bytes]) -> None:
        """All of these, in one turn unless there is no room."""
        send, make, heard = self._producer.send, self._make, self._heard
        left = payloads
        end = self._handed + len(payloads)
        while left:
            self._room.clear()
            first = number = end - len(left) + 1
            with self._client.turn():
                for number, payload in enumerate(left, first):
                    if not send(make(payload), partial(heard, number)):
                        break
                else:
                    number += 1
            left = left[number - first :]
            if left:
                await self._room.wait()
        self._handed = end
        await asyncio.sleep(0)

    def _heard(self, number: int, result: Any) -> None:
        if result.__class__ is self._refusal:
            self._failures[number] = result
            self._on_failure()
        else:
            self._meter.count += 1

    async def finish(self, stop: StopRequest) -> None:
        """Wait for what is on its way. LocalError, RemoteError: a message was not taken."""
        await stop.finish(self._client.ask(self._producer.flush))
        if self._failures:
            number, refusal = min(self._failures.items())
            raise replace(refusal, message=f"message {number:,}: {refusal.message}").to_error()


def _batching(text: str) -> dict[str, Any]:
    """``N,BYTES,MS``, each of which may be missing; 0 messages: no batches."""
    words = text.split(",")
    names = ("batchingMaxMessages", "batchingMaxBytes", "batchingMaxPublishDelayMicros")
    if len(words) > len(names) or not all(word.strip().isascii() and (word.strip() or "0").isdigit() for word in words):
        raise LocalError(f"--batch {text}: write N,BYTES,MS as 1000,131072,1; what is missing stays as it is")
    found = {name: int(word) for name, word in zip(names, words) if word.strip()}
    if found.get("batchingMaxMessages") in (0, 1):
        return {"batchingEnabled": False}
    if "batchingMaxPublishDelayMicros" in found:
        found["batchingMaxPublishDelayMicros"] *= 1000
    return found


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise LocalError(f"-p {text}: write key=value")
    return key, value
