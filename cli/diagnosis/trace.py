"""`pcli trace`: the life of messages, each as a small timeline."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.options import DecodeAs, Files, MoreFiles, decode_as_ports, named_files

__all__ = ["trace"]


class _Format(StrEnum):
    text = "text"
    json = "json"
    mermaid = "mermaid"


def trace(
    read: Files = None,
    more: MoreFiles = None,
    message_id: Annotated[
        str, typer.Option("--message-id", metavar="LEDGER:ENTRY[:PARTITION[:BATCH]]", help="The message with this id.")
    ] = "",
    key: Annotated[str, typer.Option("--key", help="Messages with this key, also inside batches.")] = "",
    sequence: Annotated[
        str, typer.Option("--sequence", metavar="PRODUCER:N", help="What this producer sent under sequence id N.")
    ] = "",
    payload_contains: Annotated[
        str, typer.Option("--payload-contains", metavar="TEXT", help="Messages with this in their payload, opened.")
    ] = "",
    unacked: Annotated[bool, typer.Option("--unacked", help="Messages that are not acknowledged in full.")] = False,
    redelivered: Annotated[bool, typer.Option("--redelivered", help="Messages that were delivered again.")] = False,
    slower_than: Annotated[
        float | None, typer.Option("--slower-than", metavar="MS", min=0, help="From the first step to the last.")
    ] = None,
    filter_: Annotated[
        str, typer.Option("-Y", "--filter", metavar="FILTER", help="Messages with a frame that matches.")
    ] = "",
    slowest: Annotated[
        int, typer.Option("--slowest", metavar="N", min=0, help="Only the N that took longest, longest first.")
    ] = 0,
    output: Annotated[
        _Format, typer.Option("-T", "--format", help="text, json (an object a message) or mermaid (a diagram).")
    ] = _Format.text,
    count: Annotated[int, typer.Option("-c", "--count", min=0, help="Stop after N messages; 0: show all.")] = 0,
    private_key: Annotated[
        list[str] | None, typer.Option("--private-key", metavar="PEM", help="Open encrypted payloads with this key.")
    ] = None,
    decode_as: DecodeAs = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, also on a terminal.")] = False,
) -> None:
    """Show what became of messages: sent, stored, delivered, acknowledged, with frames, times and doubts.

    pcli trace -r capture.pcap --unacked

    pcli trace -r capture.pcap --message-id 7:12

    pcli trace -r capture.pcap --key order-17 -T mermaid

    pcli trace -r capture.pcap --slowest 10
    """
    from pcli.cli.common.capture_reading import CaptureReading, contents_for, opened_contents
    from pcli.cli.diagnosis import lifecycle_search

    opens = bool(payload_contains or private_key)
    reading = CaptureReading(
        files=named_files(read, more),
        decode_as=decode_as_ports(decode_as),
        system=True,
        contents=opened_contents(private_key or []) if opens else contents_for(filter_),
    )
    wanted = lifecycle_search.wanted(
        message_id, sequence, unacked=unacked, redelivered=redelivered, slower_ms=slower_than
    )  # fmt: skip
    marks = lifecycle_search.marks(wanted, filter_, key, payload_contains)
    search = lifecycle_search.Search(reading, wanted, marks)
    raise typer.Exit(lifecycle_search.show(search, output.value, slowest=slowest, count=count, color=not no_color))
