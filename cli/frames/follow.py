"""`pcli follow`: one conversation alone."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.common.options import DecodeAs, Files, MoreFiles, System, decode_as_ports, named_files
from pcli.cli.common.times import TimeFormat

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import Reading
    from pcli.codec.observe import Facts

__all__ = ["follow"]


class _Format(StrEnum):
    text = "text"
    mermaid = "mermaid"


def follow(
    read: Files = None,
    more: MoreFiles = None,
    stream: Annotated[int | None, typer.Option("--stream", min=0, help="A TCP connection (tcp.stream).")] = None,
    consumer: Annotated[str, typer.Option("--consumer", metavar="NAME", help="A consumer, across connections.")] = "",
    producer: Annotated[str, typer.Option("--producer", metavar="NAME", help="A producer, across connections.")] = "",
    message_id: Annotated[
        str, typer.Option("--message-id", metavar="LEDGER:ENTRY", help="A message: sent, delivered, acknowledged.")
    ] = "",
    request: Annotated[
        int | None, typer.Option("--request", metavar="ID", help="A request and its answer; with --stream.")
    ] = None,
    output: Annotated[
        _Format, typer.Option("-T", "--format", help="text: lines; mermaid: a sequence diagram.")
    ] = _Format.text,
    time: Annotated[TimeFormat, typer.Option("-t", "--time", help="As in dissect.")] = TimeFormat.r,
    decode_as: DecodeAs = None,
    system: System = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, also on a terminal.")] = False,
) -> None:
    """Show one conversation: of a connection, a consumer, a producer, a message or a request.

    pcli follow -r capture.pcap --consumer worker-0

    pcli follow -r capture.pcap --message-id 7:0 -T mermaid
    """
    from pcli.cli.common.capture_reading import Reading
    from pcli.cli.common.output import Exit, fail, say, write_line
    from pcli.cli.frames.dissect_output import text_writer
    from pcli.codec.observe.output.sequence_diagram import mermaid_lines

    chosen = [stream is not None and request is None, bool(consumer), bool(producer), bool(message_id)]
    if sum([*chosen, request is not None]) != 1:
        fail("one of --stream, --consumer, --producer, --message-id, --request (with --stream) says what to follow")
    files = named_files(read, more)
    reading = Reading(files=files, decode_as=decode_as_ports(decode_as), system=system, rewindable=bool(message_id))
    found = _conversation(
        reading, stream=stream, consumer=consumer, producer=producer, message_id=message_id, request=request
    )
    count = 0
    streams: set[int] = set()
    if output is _Format.mermaid:
        lines = list(mermaid_lines(found))
        count = len(lines) - 2
        for one in lines if count else []:
            write_line(one)
    else:
        line_of = text_writer(reading, time, color=not no_color)
        for facts in found:
            count += 1
            streams.add(facts.frame.stream.number)
            write_line(line_of(facts))
    code = reading.finish()
    if request is not None and len(streams) > 1:
        say(f"several clients used this id, on streams {', '.join(map(str, sorted(streams)))}: --stream shows one")
    if not count:
        fail("no frame of that conversation is in the capture", Exit.NO)
    raise typer.Exit(code)


def _conversation(
    reading: Reading,
    *,
    stream: int | None = None,
    consumer: str = "",
    producer: str = "",
    message_id: str = "",
    request: int | None = None,
) -> Iterator[Facts]:
    """Facts of the frames that belong together.

    One of the arguments says what holds them together; ``stream`` may narrow ``request``.
    """
    from pcli.codec.observe import follow
    from pcli.codec.wire import MessageId

    if stream is not None and request is None:
        return (facts for facts in reading.facts() if facts.frame.stream.number == stream)
    if message_id:
        # Two passes: a SEND is known to be about the message only when its receipt comes.
        wanted = MessageId.parse(message_id)
        numbers = follow.about_message(reading.facts(), wanted)
        return (facts for facts in reading.facts() if facts.frame.number in numbers)
    if consumer:
        belongs = follow.of_consumer(consumer)
    elif producer:
        belongs = follow.of_producer(producer)
    else:
        assert request is not None
        belongs = follow.of_request(request)
    return (
        facts for facts in reading.facts() if belongs(facts) and (stream is None or facts.frame.stream.number == stream)
    )
