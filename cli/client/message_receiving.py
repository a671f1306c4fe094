"""How `pcli consume` runs: messages are taken in blocks, printed, and only then acknowledged.

Rules of this file
1. A message is acknowledged when it is printed. Who ends it with Ctrl-C loses nothing and gets nothing twice.
2. A subscription that is there already begins where it stands; ``--from`` with an id or a time moves it there,
   ``earliest`` and ``latest`` only say where a new one begins. A reader always begins there: without it, at the end.
3. ``--exit-at-end``: nothing is there, and the broker knows of nothing behind it. What it knows of but does not send
   (others have it, or it is acknowledged) is waited for a little while.
4. A subscription that can't go on (its topic is gone, a batch came to a queue of 0) ends it with the reason.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.client.client_session import Meter, run_client
from pcli.cli.common.signals import StopRequest
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.client.async_streams import Output
    from pcli.replay.client.ids import Id
    from pcli.replay.client.incoming import Incoming
    from pcli.replay.client.refusal import Refusal
    from pcli.replay.client.shell import Client
    from pcli.replay.service import Security

__all__ = ["Run"]

_BLOCK: Final = 1000
"""Messages that are printed at once."""

_PAUSE: Final = 0.1
"""Seconds without a message after which the end is asked for."""

_PATIENCE: Final = 3.0
"""Seconds that what never comes is waited for."""


@dataclass(slots=True)
class Run:
    """Everything that `consume` was told."""

    topic: str
    url: str
    security: Security
    subscription: str
    type: str
    reader: bool
    number: int
    exit_at_end: bool
    start: str
    key_ranges: list[str]
    format: str
    json: bool
    no_ack: bool
    nack_every: int
    receiver_queue: int

    def run(self) -> None:
        """Print all that is wanted. LocalError and RemoteError for what can't be."""
        self._check()
        from pcli.cli.client.async_streams import Output
        from pcli.cli.client.message_format import json_writer, writer
        from pcli.cli.client.starting_position import starting_point

        write = json_writer if self.json else writer(self.format)
        start = starting_point(self.start) if self.start else None
        settings = self._reader_settings(start) if self.reader else self._settings(start)

        # A reader begins at its id by itself; everybody else is moved there, and to times.
        goal = start if isinstance(start, int) or (not self.reader and _is_place(start)) else None

        async def main(client: Client, stop: StopRequest) -> None:
            source = await stop.unless(client.read(settings) if self.reader else client.subscribe(settings))
            if goal is not None:
                await stop.unless(client.ask(lambda done: source.seek(goal, done)))
            meter = Meter("received", printed=True)
            taker = _Taker(client, source, self, write, meter)
            with meter.shown():
                await taker.run(Output(), stop)

        run_client(self.url, self.security, main)

    def _check(self) -> None:
        if self.reader == bool(self.subscription):
            raise LocalError("say -s NAME for a subscription, or --reader to do without one: one of them")
        if self.reader and (self.no_ack or self.nack_every):
            raise LocalError("a reader acknowledges nothing: --no-ack and --nack-every are for subscriptions")
        if self.no_ack and self.nack_every:
            raise LocalError("--no-ack leaves messages alone, --nack-every refuses some: one of them")
        if self.key_ranges and not self.reader and self.type != "Key_Shared":
            raise LocalError("--key-range is for readers and for -t Key_Shared")

    def _settings(self, start: Id | int | None) -> Any:
        from pcli.cli.client.key_ranges import ranges_of
        from pcli.replay.client.consumer_settings import ConsumerSettings, KeySharedPolicy
        from pcli.replay.client.ids import EARLIEST

        ranges = ranges_of(self.key_ranges)
        return ConsumerSettings(
            topicNames=(self.topic,),
            subscriptionName=self.subscription,
            subscriptionType=self.type,  # type: ignore[arg-type]
            subscriptionInitialPosition="Earliest" if start == EARLIEST else "Latest",
            keySharedPolicy=KeySharedPolicy(ranges=ranges) if ranges else None,
            receiverQueueSize=self.receiver_queue,
            resetIncludeHead=_is_place(start),
        )

    def _reader_settings(self, start: Id | int | None) -> Any:
        from pcli.cli.client.key_ranges import ranges_of
        from pcli.replay.client.consumer_settings import ReaderSettings
        from pcli.replay.client.ids import EARLIEST, LATEST

        return ReaderSettings(
            topicName=self.topic,
            startMessageId=EARLIEST if isinstance(start, int) else start or LATEST,
            resetIncludeHead=_is_place(start),
            keyHashRanges=ranges_of(self.key_ranges),
            receiverQueueSize=self.receiver_queue,
        )


def _is_place(start: Id | int | None) -> bool:
    """Whether it names a message."""
    from pcli.replay.client.ids import EARLIEST, LATEST

    return start is not None and not isinstance(start, int) and start not in (EARLIEST, LATEST)


class _Taker:
    """Takes messages from a consumer or a reader, and prints them."""

    def __init__(self, client: Client, source: Any, run: Run, write: Callable[[Incoming], bytes], meter: Meter) -> None:
        self._client = client
        self._source = source
        self._run = run
        self._write = write
        self._meter = meter
        self._take = source.read_next if run.reader else source.receive
        self._there = asyncio.Event()
        self._fault: Refusal | None = None
        consumer = source.consumer if run.reader else source
        consumer.on_message, consumer.on_fault = self._there.set, self._failed

    def _failed(self, refusal: Refusal) -> None:
        self._fault = refusal
        self._there.set()

    async def run(self, output: Output, stop: StopRequest) -> None:
        """Until the end, or until somebody wants it."""
        wanted = self._run.number
        while not stop.requested and not (wanted and self._meter.count >= wanted):
            self._there.clear()
            messages = self._block(min(_BLOCK, wanted - self._meter.count) if wanted else _BLOCK)
            if messages:
                await self._print(messages, output, stop)
            elif self._fault is not None:
                raise self._fault.to_error()
            elif await stop.unless(self._ended()):
                return

    async def _print(self, messages: list[Incoming], output: Output, stop: StopRequest) -> None:
        """Print and acknowledge; when that is ended in the middle, those that are out as a whole."""
        pieces = [self._write(message) for message in messages]
        try:
            await stop.unless(output.write(b"".join(pieces)))
        finally:
            ends = itertools.accumulate(map(len, pieces))
            printed = messages[: bisect.bisect_right(list(ends), output.written)]
            self._meter.count += len(printed)
            self._meter.bytes += sum(message.size for message in printed)
            self._acknowledge(printed)
        await asyncio.sleep(0)

    def _block(self, most: int) -> list[Incoming]:
        messages: list[Incoming] = []
        take = self._take
        with self._client.turn():
            while len(messages) < most and (message := take()) is not None:
                messages.append(message)
        return messages

    def _acknowledge(self, messages: list[Incoming]) -> None:
        run, source = self._run, self._source
        if run.reader or run.no_ack:
            return
        before = self._meter.count - len(messages)
        with self._client.turn():
            for number, message in enumerate(messages, before + 1):
                if run.nack_every and number % run.nack_every == 0:
                    source.negative_acknowledge(message.id, message.redelivery_count)
                else:
                    source.acknowledge(message.id)

    async def _ended(self) -> bool:
        """Wait for messages; True: there will be none, and that is what was asked for."""
        if not self._run.exit_at_end:
            await self._there.wait()
            return False
        if await self._comes(_PAUSE):
            return False
        more = await self._client.ask(self._source.has_message_available)
        return not (more and await self._comes(_PATIENCE))

    async def _comes(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._there.wait()
        except TimeoutError:
            return False
        return True
