"""Options that several commands share. A letter has the same meaning as in tshark."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pcli.cli.common.completion import complete_filter
from pcli.cli.common.times import TimeFormat

__all__ = [
    "CaptureFilter",
    "Captures",
    "ConnectionFilter",
    "Filter",
    "Interface",
    "LogKind",
    "NoColor",
    "OnlyStream",
    "Output",
    "PacketNumbers",
    "PrivateKey",
    "ShowSecrets",
    "System",
    "TextOrJson",
    "TimeOption",
    "filter_option",
]


TextOrJson = Literal["text", "json", "ndjson"]
"""Values of ``-T`` in commands that print text or JSON."""


LogKind = Literal["frames", "events", "quiet"]
"""Values of ``--log``, which selects what is printed about live connections."""


Interface = Annotated[
    str, typer.Option("-i", "--interface", metavar="IFACE", help="Capture live from this interface, until Ctrl-C.")
]
CaptureFilter = Annotated[
    str,
    typer.Option("-f", "--capture-filter", metavar="BPF", help="Capture filter of -i, for example 'tcp port 6650'."),
]


def filter_option(text: str) -> Any:
    """Return the option -Y with this help."""
    return typer.Option("-Y", "--filter", metavar="FILTER", help=text, autocompletion=complete_filter)


Output = Annotated[
    TextOrJson,
    typer.Option("-T", "--format", help="Output format: text, json (one document) or ndjson (one object per line)."),
]
Filter = Annotated[str, filter_option("Show only frames that match, for example pulsar.type == 'SEND'.")]
Captures = Annotated[
    list[str],
    typer.Argument(metavar="CAPTURE", help="Captures. The files of a rotated capture are read in order."),
]
ConnectionFilter = Annotated[str, filter_option("Use only connections that have a matching frame.")]
OnlyStream = Annotated[
    int | None, typer.Option("--only-stream", metavar="N", min=0, help="Use only this connection (tcp.stream).")
]
Scripts = Annotated[
    list[str] | None,
    typer.Option(
        "-s", "--script", metavar="FILE.py", help="Call the functions of a Python script for frames. Repeatable."
    ),
]
ShowSecrets = Annotated[bool, typer.Option("--show-secrets", help="Show credentials, which are hidden by default.")]
System = Annotated[
    bool,
    typer.Option("--system", help="Include the traffic of the broker's internal client (system topics, replication)."),
]
PacketNumbers = Annotated[
    bool, typer.Option("--packet-numbers", help="Show the packet number (Wireshark's frame.number) of each frame.")
]

NoColor = Annotated[bool, typer.Option("--no-color", help="Do not colour the output; same as NO_COLOR=1.")]
PrivateKey = Annotated[
    list[str] | None,
    typer.Option("--private-key", metavar="PEM", help="Decrypt payloads with this private key. Repeatable."),
]
TimeOption = Annotated[
    TimeFormat,
    typer.Option(
        "-t",
        "--time",
        help="Time of a frame. r: seconds since the first frame; a: local time; ad: local date and time; d or dd: "
        "seconds since the previous (or previously shown) frame; e: seconds since 1970.",
    ),
]
