"""The consumer of `pcli consume`. It receives messages in blocks, prints them, and acknowledges them.

Rules of this file
1. A message is acknowledged after it is printed, so that Ctrl-C neither loses nor repeats a message.
2. ``--from`` is the position of a new subscription or of a reader. If a durable subscription exists, the command fails:
   only ``--move-cursor`` moves the subscription's cursor, for all its consumers. Brokers have no command that tests
   whether a subscription exists. The test is a reader with the same name: if the subscription exists,
   PersistentTopic.getNonDurableSubscription refuses the reader.
3. ``--last N`` reads a little more than N entries from the end, and keeps the last N messages.
4. ``--exit-at-end`` ends the command when no message is queued and the broker has no more messages. If the broker has
   messages but does not deliver them (because they are pending at other consumers or acknowledged), the command waits a
   few seconds.
5. If the subscription fails (its topic is deleted, or a batch arrives at a receiver queue of 0), the command fails.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.client.client_session import Meter, run_client
from pcli.cli.common.signals import StopRequest
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.client.async_streams import Output
    from pcli.cli.client.consume import ConsumeOptions
    from pcli.replay.client.asyncio_client import Client
    from pcli.replay.client.connection.errors import ClientFailure
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage
    from pcli.replay.client.message_ids import ClientMessageId
    from pcli.replay.service_url import Security

_BLOCK: Final = 1000
"""Maximum number of messages in a block."""

_PAUSE: Final = 0.1
"""Seconds without a message after which the command queries the broker for more messages."""

_PATIENCE: Final = 3.0
"""Seconds to wait for messages that the broker has but does not deliver."""

_RETRY: Final = 0.2
"""Seconds after which the non-durable subscription of the existence test is certainly removed."""

_EXISTS: Final = "durable subscription with the same name"
"""Text in the broker's NotAllowedError if a reader has the name of an existing durable subscription."""


@dataclass(slots=True)
class ConsumeRun:
    """The run of `consume`."""

    options: ConsumeOptions
    security: Security

    def run(self) -> None:
        """Print the messages. Raises LocalError for invalid options, and RemoteError if the broker reports an error."""
        given = self.options
        self._check()
        from pcli.cli.client.async_streams import Output
        from pcli.cli.client.message_format import JsonArrayWriter, json_writer, writer
        from pcli.cli.client.starting_position import starting_position

        array = JsonArrayWriter() if given.output == "json" else None
        write = array or (json_writer if given.output == "ndjson" else writer(given.format))
        start = starting_position(given.start) if given.start else None
        settings = self._reader_settings(start) if given.uses_reader else self._settings(start)

        # A subscription can start at the first or last message; a reader can also start at an id. Other positions need
        # SEEK.
        goal = start if isinstance(start, int) or (not given.uses_reader and _is_place(start)) else None
        if given.move_cursor:
            goal = start

        async def main(client: Client, stop: StopRequest) -> None:
            nonlocal settings
            if given.start and not (given.uses_reader or given.move_cursor or given.scalable):
                await stop.until_stopped(self._refuse_existing(client))
            if given.last:
                settings = self._reader_settings(await stop.until_stopped(self._start_of_last(client)))
            source = await stop.until_stopped(
                client.read(settings) if given.uses_reader else client.subscribe(settings)
            )
            if goal is not None:
                await stop.until_stopped(client.call(lambda done: source.seek(goal, done)))
            meter = Meter("received", printed=True)
            receiver = _Receiver(client, source, self.options, write, meter)
            output = Output()
            with meter.shown():
                try:
                    await receiver.run(output, stop)
                finally:
                    if array is not None:
                        await output.write(array.end())

        run_client(given.url, self.security, main)

    def _check(self) -> None:
        given = self.options
        if given.scalable:
            self._check_scalable()
            return
        if given.kind != "stream":
            raise LocalError(f"--type {given.kind} requires a scalable topic (topic://)")
        if given.uses_reader == bool(given.subscription):
            raise LocalError("use either -s NAME for a subscription or --reader")
        if given.uses_reader and (given.no_ack or given.nack_every):
            raise LocalError("--no-ack and --nack-every require a subscription: a reader does not acknowledge")
        if given.no_ack and given.nack_every:
            raise LocalError("--no-ack and --nack-every cannot be combined")
        if given.key_ranges and not given.uses_reader and given.type != "Key_Shared":
            raise LocalError("--key-range requires --reader or --subscription-type Key_Shared")
        if given.last and (given.subscription or given.start):
            raise LocalError("--last cannot be combined with -s or --from")
        if given.move_cursor and (given.uses_reader or not given.start):
            raise LocalError("--move-cursor requires -s NAME and --from")

    def _check_scalable(self) -> None:
        given = self.options
        classic = {
            "--reader": given.reader, "--last": given.last, "--move-cursor": given.move_cursor,
            "--key-range": given.key_ranges, "--subscription-type": given.type != "Exclusive",
        }  # fmt: skip
        for option in (name for name, value in classic.items() if value):
            raise LocalError(f"{option} cannot be used with a scalable topic; see --type")
        if given.kind != "checkpoint" and not given.subscription:
            raise LocalError("use -s NAME for a subscription, or --type checkpoint to read without one")
        if given.kind != "queue" and given.nack_every:
            raise LocalError("--nack-every requires --type queue")
        if given.kind == "checkpoint" and given.no_ack:
            raise LocalError("--no-ack requires --type stream or queue: a checkpoint consumer has no cursor")
        if given.no_ack and given.nack_every:
            raise LocalError("--no-ack and --nack-every cannot be combined")
        if given.kind != "checkpoint" and given.start.strip().lower() not in ("", "earliest", "latest"):
            raise LocalError(f"--from {given.start}: a subscription of a scalable topic begins at earliest or latest")

    async def _refuse_existing(self, client: Client) -> None:
        """Raise LocalError if the durable subscription exists: --from would be ignored or move the cursor."""
        from pcli.codec.errors import PcliError
        from pcli.replay.client.message_ids import LATEST
        from pcli.replay.client.settings import ReaderSettings

        given = self.options
        if given.topic.startswith("non-persistent://"):
            return
        settings = ReaderSettings(topicName=given.topic, subscriptionName=given.subscription, startMessageId=LATEST)
        try:
            reader = await client.read(settings)
        except PcliError as error:
            text = str(error).lower()
            if _EXISTS in text and f"non-{_EXISTS}" not in text:
                raise LocalError(
                    f"--from {given.start}: the subscription {given.subscription} exists and has a cursor; "
                    "use --move-cursor to move it, or no --from"
                ) from None
            raise
        await client.call(reader.close)
        await asyncio.sleep(_RETRY)

    async def _start_of_last(self, client: Client) -> ClientMessageId:
        """Return the id of the N-th entry from the end if the last ledger has N entries, or else EARLIEST."""
        from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
        from pcli.replay.client.settings import ReaderSettings

        reader = await client.read(ReaderSettings(topicName=self.options.topic, startMessageId=LATEST))
        ids = await client.call(reader.last_message_ids)
        await client.call(reader.close)
        first = ids[0].entry - self.options.last + 1 if len(ids) == 1 else -1
        return ClientMessageId(ids[0].ledger, first) if first >= 0 else EARLIEST

    def _settings(self, start: ClientMessageId | int | None) -> Any:
        from pcli.cli.client.key_ranges import ranges_of
        from pcli.replay.client.message_ids import EARLIEST
        from pcli.replay.client.settings import ConsumerSettings, KeySharedPolicy

        given = self.options
        ranges = ranges_of(given.key_ranges or ())
        return ConsumerSettings(
            topicNames=(given.topic,),
            subscriptionName=given.subscription,
            subscriptionType=given.type,
            scalableType=given.kind,
            startMessageId=_first(start) if given.scalable and given.kind == "checkpoint" else None,
            subscriptionInitialPosition="Earliest" if start == EARLIEST else "Latest",
            keySharedPolicy=KeySharedPolicy(ranges=ranges) if ranges else None,
            receiverQueueSize=given.receiver_queue,
            resetIncludeHead=_is_place(start),
        )

    def _reader_settings(self, start: ClientMessageId | int | None) -> Any:
        from pcli.cli.client.key_ranges import ranges_of
        from pcli.replay.client.settings import ReaderSettings

        return ReaderSettings(
            topicName=self.options.topic,
            startMessageId=_first(start),
            resetIncludeHead=_is_place(start),
            keyHashRanges=ranges_of(self.options.key_ranges or ()),
            receiverQueueSize=self.options.receiver_queue,
        )


def _first(start: ClientMessageId | int | None) -> ClientMessageId:
    """Return the id at which a reader begins. For a time, SEEK follows."""
    from pcli.replay.client.message_ids import EARLIEST, LATEST

    return EARLIEST if isinstance(start, int) else start or LATEST


def _is_place(start: ClientMessageId | int | None) -> bool:
    """Whether the position is the id of a message."""
    from pcli.replay.client.message_ids import EARLIEST, LATEST

    return start is not None and not isinstance(start, int) and start not in (EARLIEST, LATEST)


class _Receiver:
    """A loop that receives messages from a consumer or a reader, and prints them."""

    def __init__(
        self,
        client: Client,
        source: Any,
        options: ConsumeOptions,
        write: Callable[[IncomingMessage], bytes],
        meter: Meter,
    ) -> None:
        self._client = client
        self._source = source
        self._options = options
        self._write = write
        self._meter = meter
        self._take = source.read_next if options.uses_reader else source.receive
        self._there = asyncio.Event()
        self._fault: ClientFailure | None = None
        consumer = source.consumer if options.uses_reader else source
        consumer.on_message, consumer.on_fault = self._there.set, self._failed

    def _failed(self, refusal: ClientFailure) -> None:
        self._fault = refusal
        self._there.set()

    async def run(self, output: Output, stop: StopRequest) -> None:
        """Run until the end of the messages, or until a stop is requested."""
        if self._options.last:
            await self._print(await stop.until_stopped(self._last_messages(self._options.last)), output, stop)
        wanted = self._options.number
        while not stop.requested and not (wanted and self._meter.count >= wanted):
            self._there.clear()
            messages = self._block(min(_BLOCK, wanted - self._meter.count) if wanted else _BLOCK)
            if messages:
                await self._print(messages, output, stop)
            elif self._fault is not None:
                raise self._fault.to_error()
            elif await stop.until_stopped(self._ended()):
                return

    async def _print(self, messages: list[IncomingMessage], output: Output, stop: StopRequest) -> None:
        """Print and acknowledge messages. After an interruption, acknowledge only completely printed messages."""
        outputs = [self._write(message) for message in messages]
        try:
            await stop.until_stopped(output.write(b"".join(outputs)))
        finally:
            ends = itertools.accumulate(map(len, outputs))
            printed = messages[: bisect.bisect_right(list(ends), output.written)]
            self._meter.count += len(printed)
            self._meter.bytes += sum(message.size for message in printed)
            self._acknowledge(printed)
        await asyncio.sleep(0)

    def _block(self, most: int) -> list[IncomingMessage]:
        messages: list[IncomingMessage] = []
        take = self._take
        with self._client.turn():
            while len(messages) < most and (message := take()) is not None:
                messages.append(message)
        return messages

    async def _last_messages(self, count: int) -> list[IncomingMessage]:
        """Read to the end of the topic. Return the last ``count`` messages."""
        kept: deque[IncomingMessage] = deque(maxlen=count)
        while True:
            self._there.clear()
            messages = self._block(_BLOCK)
            kept.extend(messages)
            if self._fault is not None:
                raise self._fault.to_error()
            if messages:
                continue
            if not await self._client.call(self._source.has_message_available) or not await self._arrives(_PATIENCE):
                return list(kept)

    def _acknowledge(self, messages: list[IncomingMessage]) -> None:
        options, source = self._options, self._source
        if not options.acknowledges:
            return
        before = self._meter.count - len(messages)
        with self._client.turn():
            for number, message in enumerate(messages, before + 1):
                if options.nack_every and number % options.nack_every == 0:
                    source.negative_acknowledge(message.id, message.redelivery_count)
                else:
                    source.acknowledge(message.id)

    async def _ended(self) -> bool:
        """Wait for messages. Return True if there are none and --exit-at-end is set."""
        if not self._options.exit_at_end:
            await self._there.wait()
            return False
        if await self._arrives(_PAUSE):
            return False
        more = await self._client.call(self._source.has_message_available)
        return not (more and await self._arrives(_PATIENCE))

    async def _arrives(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._there.wait()
        except TimeoutError:
            return False
        return True
