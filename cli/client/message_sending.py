"""The producer of `pcli produce`. It sends payloads in blocks, one turn of the client engine per block.

Rules of this file
1. If the input is a pipe, a block consists of the lines that are available. Generated messages form blocks of 1000, or
   of 4 MB.
2. While the producer's queue is full, no input is read.
3. When the broker refuses a message, the command reads no more input, prints the message's number (from 1), and ends.
4. After Ctrl-C the command reads no more input and waits for the receipts of the messages that it has sent.
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
    from pcli.cli.client.produce import ProduceOptions
    from pcli.replay.client.asyncio_client import Client
    from pcli.replay.client.producer.outgoing_message import OutgoingMessage
    from pcli.replay.client.settings import ProducerSettings
    from pcli.replay.service_url import Security


@dataclass(slots=True)
class ProduceRun:
    """The run of `produce`."""

    options: ProduceOptions
    security: Security

    def run(self) -> None:
        """Send all messages and print their number.

        Raises LocalError for invalid options, and RemoteError for broker errors.
        """
        given = self.options
        if sum(map(bool, (given.file, given.messages, given.size))) > 1:
            raise LocalError("use only one of --file, -m and --size")
        if sum(map(bool, (given.key, given.key_ranges, given.key_delimiter, given.json))) > 1:
            raise LocalError("use only one of -k, -K, --key-range and --json")
        if (given.key_delimiter or given.json) and (given.messages or given.size):
            raise LocalError("-K and --json describe lines of stdin or --file, not -m or --size")
        settings, make = self._settings(), self._maker()
        source = self._source()

        async def main(client: Client, stop: StopRequest) -> None:
            producer = await stop.until_stopped(client.produce(given.topic, settings))
            meter = Meter("sent", printed=False)
            sender = _Sender(client, producer, make, meter, on_failure=stop.request)
            with meter.shown():
                blocks = paced(source(), given.rate)
                try:
                    while payloads := await stop.until_stopped(anext(blocks, None)):
                        await stop.until_stopped(sender.send(payloads))
                finally:
                    await sender.finish(stop)

        run_client(given.url, self.security, main)

    # -- messages ----------------------------------------------------------------------------------------------

    def _source(self) -> Callable[[], AsyncIterator[list[bytes]]]:
        """Return a function that yields blocks of payloads. A file is opened by this call, not by the first block."""
        given = self.options
        if given.size is not None:
            size = given.size
            return lambda: listed(numbered(size, given.number), size)
        if given.messages:
            texts = [text.encode(errors="surrogateescape") for text in given.messages]
            repeated = itertools.islice(itertools.cycle(texts), given.number or len(texts))
            return lambda: listed(repeated, max(map(len, texts)))
        from pcli.cli.client.async_streams import Source

        lines = Source(given.file or "-")
        return lambda: first(lines.lines(), given.number)

    def _maker(self) -> Callable[[bytes], OutgoingMessage]:
        from pcli.cli.client.key_ranges import keys_in, ranges_of
        from pcli.replay.client.producer.outgoing_message import OutgoingMessage

        given = self.options
        properties = dict(_pair(text) for text in given.properties or ()) or None
        if given.key_delimiter:
            from pcli.cli.client.message_lines import keyed_line_parser

            return keyed_line_parser(given.key_delimiter, properties)
        if given.json:
            from pcli.cli.client.message_lines import json_line_parser

            return json_line_parser(properties)
        if given.key_ranges:
            keys = itertools.cycle(keys_in(ranges_of(given.key_ranges)))
            return lambda payload: OutgoingMessage(payload, key=next(keys), properties=properties)
        if given.key or properties:
            return lambda payload: OutgoingMessage(payload, key=given.key or None, properties=properties)
        return OutgoingMessage

    # -- sending --------------------------------------------------------------------------------------------

    def _settings(self) -> ProducerSettings:
        from pcli.replay.client.settings import ProducerSettings

        given = self.options
        fields: dict[str, Any] = {"compressionType": given.compression, "producerName": given.producer_name}
        if given.sequence_id is not None:
            fields["initialSequenceId"] = given.sequence_id - 1
        if given.compression != "NONE":
            fields["compressMinMsgBodySize"] = 0  # the option also applies to small messages
        return ProducerSettings(**fields, **_batching(given.batch))


class _Sender:
    """A sender of payloads with one producer. It collects the results."""

    def __init__(
        self,
        client: Client,
        producer: Any,
        make: Callable[[bytes], OutgoingMessage],
        meter: Meter,
        *,
        on_failure: Callable[[], None],
    ) -> None:
        from pcli.replay.client.connection.errors import ClientFailure

        self._client = client
        self._producer = producer
        self._make = make
        self._meter = meter
        self._on_failure = on_failure
        self._room = asyncio.Event()
        self._refusal = ClientFailure
        self._failures: dict[int, ClientFailure] = {}
        self._handed = 0
        producer.on_room = self._room.set

    async def send(self, payloads: list[bytes]) -> None:
        """Send all payloads, in one turn unless the producer's queue is full.

        Raises LocalError for a malformed line.
        """
        send, received = self._producer.send, self._received
        left = [self._message(number, payload) for number, payload in enumerate(payloads, self._handed + 1)]
        end = self._handed + len(payloads)
        while left:
            self._room.clear()
            first = number = end - len(left) + 1
            with self._client.turn():
                for number, message in enumerate(left, first):
                    if not send(message, partial(received, number)):
                        break
                else:
                    number += 1
            left = left[number - first :]
            if left:
                await self._room.wait()
        self._handed = end
        await asyncio.sleep(0)

    def _message(self, number: int, payload: bytes) -> OutgoingMessage:
        try:
            return self._make(payload)
        except LocalError as error:
            raise LocalError(f"line {number:,}: {error.text}") from None

    def _received(self, number: int, result: Any) -> None:
        if result.__class__ is self._refusal:
            self._failures[number] = result
            self._on_failure()
        else:
            self._meter.count += 1

    async def finish(self, stop: StopRequest) -> None:
        """Wait for pending messages. Raises LocalError or RemoteError if one was refused."""
        await stop.finish(self._client.call(self._producer.flush))
        if self._failures:
            number, refusal = min(self._failures.items())
            raise replace(refusal, message=f"message {number:,}: {refusal.message}").to_error()


def _batching(text: str) -> dict[str, Any]:
    """Return the batching settings from ``N,BYTES,MS``. Each number may be omitted. If N is 0, batching is off."""
    words = text.split(",")
    names = ("batchingMaxMessages", "batchingMaxBytes", "batchingMaxPublishDelayMicros")
    if len(words) > len(names) or not all(word.strip().isascii() and (word.strip() or "0").isdigit() for word in words):
        raise LocalError(f"--batch {text}: write N,BYTES,MS, for example 1000,131072,1; missing numbers are defaults")
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
