"""`pcli dissect`: a capture as a readable conversation."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.options import (
    DecodeAs,
    Files,
    Filter,
    MoreFiles,
    ShowSecrets,
    System,
    decode_as_ports,
    named_files,
)
from pcli.cli.common.times import TimeFormat

__all__ = ["dissect"]


class _Format(StrEnum):
    text = "text"
    tree = "tree"
    ndjson = "ndjson"
    fields = "fields"


def dissect(
    read: Files = None,
    more: MoreFiles = None,
    interface: Annotated[str, typer.Option("-i", "--interface", help="Read live from this interface.")] = "",
    filter_: Filter = "",
    output: Annotated[
        _Format, typer.Option("-T", "--format", help="text: a line a frame; ndjson: an object a line; fields: see -e.")
    ] = _Format.text,
    field: Annotated[
        list[str] | None, typer.Option("-e", "--field", help="A column of -T fields; again for more.")
    ] = None,
    layout: Annotated[
        list[str] | None,
        typer.Option("-E", help="Columns: separator=/t (or just the separator), header=y, quote=d, occurrence=f|l|a."),
    ] = None,
    count: Annotated[int, typer.Option("-c", "--count", min=0, help="Stop after frame number N (pulsar.number).")] = 0,
    time: Annotated[
        TimeFormat,
        typer.Option(
            "-t", "--time", help="r since the first frame, a clock, ad date, d/dd since the last frame, e epoch."
        ),
    ] = TimeFormat.r,
    hexdump: Annotated[bool, typer.Option("-x", "--hex", help="Show the bytes of each frame.")] = False,
    verbose: Annotated[bool, typer.Option("-V", "--verbose", help="Show every field: the same as -T tree.")] = False,
    both_passes: Annotated[
        bool,
        typer.Option("-2", "--two-pass", help="Read twice: requests know their answers (pulsar.answer_in)."),
    ] = False,
    write: Annotated[
        str, typer.Option("-w", "--write", metavar="OUT.pcapng", help="Write the packets of the matching frames.")
    ] = "",
    decode_as: DecodeAs = None,
    payload: Annotated[bool, typer.Option("--payload", help="Show payloads, opened and decoded.")] = False,
    private_key: Annotated[
        list[str] | None, typer.Option("--private-key", metavar="PEM", help="Open encrypted payloads with this key.")
    ] = None,
    show_secrets: ShowSecrets = False,
    system: System = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, also on a terminal.")] = False,
) -> None:
    """Show a capture, or a live interface, as Pulsar's frames: one line a frame.

    pcli dissect -r capture.pcapng

    pcli dissect -r capture.pcap -Y 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0'

    pcli dissect -r capture.pcap -T fields -e pulsar.number -e pulsar.consumer_name -e pulsar.message_id
    """
    from pcli.cli.common.capture_reading import Reading, contents_for, opened_contents
    from pcli.cli.frames.dissect_output import Printing

    shown = opened_contents(private_key or []) if payload or private_key else None
    reading = Reading(
        contents=shown or contents_for(*(field or ())),
        rewindable=bool(write),
        files=named_files(read, more),
        interface=interface,
        filter=filter_,
        decode_as=decode_as_ports(decode_as),
        system=system,
        both_passes=both_passes,
        count=count,
    )
    printing = Printing(
        reading,
        output=_Format.tree.value if verbose else output.value,
        fields=field or [],
        layout=layout or [],
        time=time,
        hexdump=hexdump,
        payload=payload,
        contents=shown,
        secrets=show_secrets,
        color=not no_color,
    )
    printing.run(write)
    raise typer.Exit(reading.finish())
