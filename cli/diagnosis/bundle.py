"""`pcli bundle`: creates a redacted capture with its findings for an issue report."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.common.option_groups import CaptureFiles, ReadAs
from pcli.cli.common.options import ConnectionFilter, option


def bundle(
    output: Annotated[str, option("-o --output OUT.zip", "File to write.")],
    captures: CaptureFiles,
    *,
    filter_: ConnectionFilter = "",
    around: Annotated[
        int, option("--around N", "Include only frames near frame number N (pulsar.number); 0: include all.", min=0)
    ] = 0,
    window: Annotated[
        str,
        option(
            "--window FRAMES|TIME", "Extent of --around on each side: a number of frames, or a time (2s, 300ms). [500]"
        ),
    ] = "",
    keep_names: Annotated[
        bool, option("--keep-names", "Keep the names of topics, subscriptions, producers and consumers.")
    ] = False,
    read_as: ReadAs,
) -> None:
    """Create a zip file for an issue: the findings, and the capture without payloads, keys, names and secrets.

    pcli bundle -r capture.pcap -o issue.zip

    pcli bundle -r capture.pcap -o issue.zip --around 4711 --window 2s

    pcli bundle -r capture.pcap -o issue.zip -Y 'pulsar.topic contains "orders"'
    """
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.diagnosis.bundle_archive import Order, make
    from pcli.codec.errors import LocalError

    if window and not around:
        raise LocalError("--window requires --around")
    reading = CaptureReading(
        files=captures.names,
        filter=filter_,
        options=read_as.options(),
        system=True,
        rewindable=True,
    )
    raise typer.Exit(make(reading, Order(output, around=around, window=window, keep_names=keep_names)))
