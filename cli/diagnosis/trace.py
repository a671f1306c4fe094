"""`pcli trace`: shows the lifecycles of messages, each as a timeline."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pcli.cli.common.option_groups import CaptureFiles, ReadAs
from pcli.cli.common.options import NoColor, PacketNumbers, PrivateKey, filter_option

__all__ = ["trace"]


_Format = Literal["text", "json", "ndjson", "mermaid"]


def trace(
    captures: CaptureFiles,
    *,
    message_id: Annotated[
        str,
        typer.Option(
            "--message-id", metavar="LEDGER:ENTRY[:PARTITION[:BATCH]]", help="Select the message with this id."
        ),
    ] = "",
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="Select messages with this key, including those in batches.")
    ] = "",
    sequence: Annotated[
        str,
        typer.Option("--sequence", metavar="PRODUCER:N", help="Select messages with this producer and sequence id."),
    ] = "",
    payload_contains: Annotated[
        str,
        typer.Option("--payload-contains", metavar="TEXT", help="Select messages whose payload contains this text."),
    ] = "",
    unacked: Annotated[
        bool, typer.Option("--unacked", help="Select messages that are not completely acknowledged.")
    ] = False,
    redelivered: Annotated[bool, typer.Option("--redelivered", help="Select messages that were redelivered.")] = False,
    slower_than: Annotated[
        float | None,
        typer.Option(
            "--slower-than",
            metavar="MS",
            min=0,
            help="Select messages that took more than MS milliseconds from the first to the last step.",
        ),
    ] = None,
    filter_: Annotated[str, filter_option("Select messages that have a matching frame.")] = "",
    slowest: Annotated[
        int,
        typer.Option(
            "--slowest", metavar="N", min=0, help="Show only the N slowest messages, slowest first; 0: show all."
        ),
    ] = 0,
    output: Annotated[
        _Format,
        typer.Option(
            "-T", "--format", help="text: timelines; json: an array; ndjson: one object per line; mermaid: a diagram."
        ),
    ] = "text",
    count: Annotated[
        int, typer.Option("-c", "--count", metavar="N", min=0, help="Stop after N messages; 0: show all.")
    ] = 0,
    packet_numbers: PacketNumbers = False,
    private_key: PrivateKey = None,
    read_as: ReadAs,
    no_color: NoColor = False,
) -> None:
    """Show the lifecycles of messages: sent, stored, delivered, acknowledged, with frames and times.

    pcli trace -r capture.pcap --unacked

    pcli trace -r capture.pcap --message-id 7:12

    pcli trace -r capture.pcap --key order-17 -T mermaid

    pcli trace -r capture.pcap --slowest 10
    """
    from pcli.cli.common.capture_reading import CaptureReading, contents_for, opened_contents
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.cli.diagnosis import lifecycle_search

    opens = bool(payload_contains or private_key)
    reading = CaptureReading(
        files=captures.names,
        options=read_as.options(),
        system=True,
        contents=opened_contents(private_key or []) if opens else contents_for(filter_),
    )
    wanted = lifecycle_search.wanted(
        message_id, sequence, unacked=unacked, redelivered=redelivered, slower_ms=slower_than
    )  # fmt: skip
    marks = lifecycle_search.marks(wanted, filter_, key, payload_contains)
    search = lifecycle_search.Search(reading, wanted, marks, PacketIndex() if packet_numbers else None)
    raise typer.Exit(lifecycle_search.show(search, output, slowest=slowest, count=count, color=not no_color))
