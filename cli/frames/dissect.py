"""`pcli dissect`: shows the Pulsar frames of a capture."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pcli.cli.common.completion import complete_field
from pcli.cli.common.option_groups import CaptureFiles, ReadAs
from pcli.cli.common.options import (
    CaptureFilter,
    Filter,
    Interface,
    NoColor,
    PacketNumbers,
    PrivateKey,
    Scripts,
    ShowSecrets,
    System,
    TimeOption,
    option,
)

_Format = Literal["text", "tree", "json", "ndjson", "fields"]


def dissect(
    captures: CaptureFiles,
    *,
    interface: Interface = "",
    capture_filter: CaptureFilter = "",
    filter_: Filter = "",
    output: Annotated[
        _Format,
        option(
            "-T --format",
            "text: one line per frame; tree: all fields; json: an array; ndjson: one object per line; "
            "fields: the columns of -e.",
        ),
    ] = "text",
    field: Annotated[
        list[str] | None, option("-e --field FIELD", "Column of -T fields. Repeatable.", autocompletion=complete_field)
    ] = None,
    layout: Annotated[
        list[str] | None,
        option(
            "-E NAME=VALUE",
            "Layout of -T fields: separator=/t (or only the separator), header=y, quote=d, occurrence=f|l|a, "
            "aggregator=, (between several values).",
        ),
    ] = None,
    count: Annotated[int, option("-c --count N", "Stop after frame number N (pulsar.number); 0: no limit.", min=0)] = 0,
    time: TimeOption = "r",
    hexdump: Annotated[bool, option("-x --hex", "Show the bytes of each frame.")] = False,
    verbose: Annotated[bool, option("-V --verbose", "Show every field; same as -T tree.")] = False,
    both_passes: Annotated[
        bool, option("-2 --two-pass", "Read the captures twice, so that requests have pulsar.answer_in.")
    ] = False,
    write: Annotated[str, option("-w --write OUT.pcapng", "Write the packets of the matching frames.")] = "",
    script: Scripts = None,
    packet_numbers: PacketNumbers = False,
    read_as: ReadAs,
    payload: Annotated[bool, option("--payload", "Show payloads, decompressed and decoded.")] = False,
    private_key: PrivateKey = None,
    show_secrets: ShowSecrets = False,
    system: System = False,
    no_color: NoColor = False,
    line_buffered: Annotated[
        bool, option("-l --line-buffered", "Write each line at once, for pipes, as in tshark.")
    ] = False,
) -> None:
    """Show the Pulsar frames of a capture or a live interface, one line per frame.

    pcli dissect -r capture.pcapng

    pcli dissect -r capture.pcap -Y 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0'

    pcli dissect -r capture.pcap -T fields -e pulsar.number -e pulsar.consumer_name -e pulsar.message_id
    """
    from pcli.cli.common.capture_reading import CaptureReading, contents_for, opened_contents
    from pcli.cli.frames.dissect_output import DissectOutput

    shown = opened_contents(private_key or []) if payload or private_key else None
    reading = CaptureReading(
        contents=shown or (opened_contents([]) if script else contents_for(*(field or ()))),
        rewindable=bool(write),
        carriers=verbose or output == "tree",
        files=captures.names,
        interface=interface,
        capture_filter=capture_filter,
        filter=filter_,
        options=read_as.options(live=bool(interface)),
        system=system,
        both_passes=both_passes,
        count=count,
    )
    output_ = DissectOutput(
        reading,
        output="tree" if verbose else output,
        fields=field or [],
        layout=layout or [],
        time=time,
        hexdump=hexdump,
        payload=payload,
        contents=shown,
        secrets=show_secrets,
        color=not no_color,
        packet_numbers=packet_numbers,
        line_buffered=line_buffered,
    )
    addons = []
    if script:
        from pcli.cli.common.addons import Addon

        addons = [Addon(path) for path in script]
    output_.run(write, addons)
    raise typer.Exit(reading.finish() or any(addon.failed for addon in addons))
