"""`pcli follow`: shows the frames of one connection, consumer, producer, message, request or scalable topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pcli.cli.common.option_groups import CaptureFiles, ReadAs
from pcli.cli.common.options import NoColor, PacketNumbers, System, TimeOption, option

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe import Facts

_Format = Literal["text", "mermaid"]


def follow(
    captures: CaptureFiles,
    *,
    stream: Annotated[int | None, option("--stream N", "Follow a TCP connection (tcp.stream).", min=0)] = None,
    consumer: Annotated[str, option("--consumer NAME", "Follow a consumer, on all its connections.")] = "",
    producer: Annotated[str, option("--producer NAME", "Follow a producer, on all its connections.")] = "",
    message_id: Annotated[
        str,
        option("--message-id LEDGER:ENTRY", "Follow a message: its SEND, receipt, deliveries and acknowledgements."),
    ] = "",
    request: Annotated[
        int | None, option("--request ID", "Follow a request and its response; use with --stream.")
    ] = None,
    topic: Annotated[
        str,
        option("--topic TOPIC", "Follow a scalable topic: changes of its layout, assignments, clients of segments."),
    ] = "",
    output: Annotated[
        _Format, option("-T --format", "text: one line per frame; mermaid: a sequence diagram.")
    ] = "text",
    time: TimeOption = "r",
    packet_numbers: PacketNumbers = False,
    read_as: ReadAs,
    system: System = False,
    no_color: NoColor = False,
) -> None:
    """Show the frames of one connection, consumer, producer, message, request or scalable topic.

    pcli follow -r capture.pcap --consumer worker-0

    pcli follow -r capture.pcap --topic topic://public/default/orders

    pcli follow -r capture.pcap --message-id 7:0 -T mermaid
    """
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.input_notes import numbers_text
    from pcli.cli.common.output import Exit, fail, say, write_line
    from pcli.cli.frames.frame_lines import text_writer
    from pcli.codec.observe.output.sequence_diagram import mermaid_lines

    chosen = [stream is not None and request is None, bool(consumer), bool(producer), bool(message_id), bool(topic)]
    if sum([*chosen, request is not None]) != 1:
        ways = "--stream, --consumer, --producer, --message-id, --topic, or --request (with --stream)"
        fail(f"choose what to follow: {ways}")
    files = captures.names
    reading = CaptureReading(files=files, options=read_as.options(), system=system, rewindable=bool(message_id))
    found = _conversation(
        reading,
        stream=stream,
        consumer=consumer,
        producer=producer,
        message_id=message_id,
        request=request,
        topic=topic,
    )
    count = 0
    streams: set[int] = set()
    if output == "mermaid":
        lines = list(mermaid_lines(found))
        count = len(lines) - 2
        for one in lines if count else []:
            write_line(one)
    else:
        line_of = text_writer(reading, time, color=not no_color, packet_numbers=packet_numbers)
        for facts in found:
            count += 1
            streams.add(facts.frame.stream.number)
            write_line(line_of(facts))
    code = reading.finish()
    if request is not None and len(streams) > 1:
        where = numbers_text("stream", sorted(streams))
        say(f"{len(streams)} clients used this id, on {where}: use --stream to choose a connection")
    if not count:
        fail("the capture contains no such frame", Exit.NO)
    raise typer.Exit(code)


def _conversation(
    reading: CaptureReading,
    *,
    stream: int | None = None,
    consumer: str = "",
    producer: str = "",
    message_id: str = "",
    request: int | None = None,
    topic: str = "",
) -> Iterator[Facts]:
    """Yield the facts of the frames that belong together.

    One argument selects the frames; ``stream`` can restrict ``request``.
    """
    from pcli.codec.observe import follow
    from pcli.codec.wire import MessageId

    if stream is not None and request is None:
        return (facts for facts in reading.facts() if facts.frame.stream.number == stream)
    if message_id:
        # Two passes are needed, because the message id of a SEND is in the later SEND_RECEIPT.
        wanted = MessageId.parse(message_id)
        numbers = follow.about_message(reading.facts(), wanted)
        return (facts for facts in reading.facts() if facts.frame.number in numbers)
    if consumer:
        belongs = follow.of_consumer(consumer)
    elif producer:
        belongs = follow.of_producer(producer)
    elif topic:
        belongs = follow.of_scalable_topic(topic)
    else:
        assert request is not None
        belongs = follow.of_request(request)
    return (
        facts for facts in reading.facts() if belongs(facts) and (stream is None or facts.frame.stream.number == stream)
    )
