"""`pcli trace`: shows the lifecycles of messages, each as a timeline."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pcli.cli.common.option_groups import CaptureFiles, ReadAs
from pcli.cli.common.options import NoColor, PacketNumbers, PrivateKey, filter_option, option

_Format = Literal["text", "json", "ndjson", "mermaid"]


def trace(
    captures: CaptureFiles,
    *,
    message_id: Annotated[
        str, option("--message-id LEDGER:ENTRY[:PARTITION[:BATCH]]", "Select the message with this id.")
    ] = "",
    key: Annotated[str, option("--key KEY", "Select messages with this key, including those in batches.")] = "",
    sequence: Annotated[
        str, option("--sequence PRODUCER:N", "Select messages with this producer and sequence id.")
    ] = "",
    payload_contains: Annotated[
        str, option("--payload-contains TEXT", "Select messages whose payload contains this text.")
    ] = "",
    unacked: Annotated[bool, option("--unacked", "Select messages that are not completely acknowledged.")] = False,
    redelivered: Annotated[bool, option("--redelivered", "Select messages that were redelivered.")] = False,
    slower_than: Annotated[
        float | None,
        option(
            "--slower-than MS",
            "Select messages that took more than MS milliseconds from the first to the last step.",
            min=0,
        ),
    ] = None,
    filter_: Annotated[str, filter_option("Select messages that have a matching frame.")] = "",
    slowest: Annotated[
        int, option("--slowest N", "Show only the N slowest messages, slowest first; 0: show all.", min=0)
    ] = 0,
    output: Annotated[
        _Format,
        option("-T --format", "text: timelines; json: an array; ndjson: one object per line; mermaid: a diagram."),
    ] = "text",
    count: Annotated[int, option("-c --count N", "Stop after N messages; 0: show all.", min=0)] = 0,
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
