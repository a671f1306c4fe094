"""Options that several commands share. A letter has the same meaning as in tshark."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.completion import complete_filter
from pcli.cli.common.times import TimeFormat

__all__ = [
    "CaptureFilter",
    "Captures",
    "ConnectionFilter",
    "DecodeAs",
    "Files",
    "Filter",
    "Interface",
    "KeyLogFile",
    "LogKind",
    "MoreFiles",
    "NoColor",
    "OnlyStream",
    "Output",
    "PacketNumbers",
    "PrivateKey",
    "ShowSecrets",
    "System",
    "TextOrJson",
    "TimeOption",
    "named_files",
]


class TextOrJson(StrEnum):
    """Values of ``-T`` in commands that print text or JSON."""

    text = "text"
    json = "json"
    ndjson = "ndjson"


class LogKind(StrEnum):
    """Values of ``--log``, which selects what is printed about live connections."""

    frames = "frames"
    events = "events"
    quiet = "quiet"


Files = Annotated[
    list[str] | None,
    typer.Option(
        "-r",
        "--read",
        metavar="FILE",
        help="Capture to read: pcap or pcapng, optionally compressed (.gz, .zst, .xz, .bz2, .lz4); - is stdin.",
    ),
]
MoreFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="More captures. The files of a rotated capture are read in order."),
]
Interface = Annotated[
    str, typer.Option("-i", "--interface", metavar="IFACE", help="Capture live from this interface, until Ctrl-C.")
]
CaptureFilter = Annotated[
    str,
    typer.Option("-f", "--capture-filter", metavar="BPF", help="Capture filter of -i, for example 'tcp port 6650'."),
]
Output = Annotated[
    TextOrJson,
    typer.Option("-T", "--format", help="Output format: text, json (one document) or ndjson (one object per line)."),
]
Filter = Annotated[
    str,
    typer.Option(
        "-Y",
        "--filter",
        metavar="FILTER",
        help="Show only frames that match, for example pulsar.type == 'SEND'.",
        autocompletion=complete_filter,
    ),
]
Captures = Annotated[
    list[str],
    typer.Argument(metavar="CAPTURE", help="Captures. The files of a rotated capture are read in order."),
]
ConnectionFilter = Annotated[
    str,
    typer.Option(
        "-Y",
        "--filter",
        metavar="FILTER",
        help="Use only connections that have a matching frame.",
        autocompletion=complete_filter,
    ),
]
OnlyStream = Annotated[
    int | None, typer.Option("--only-stream", metavar="N", min=0, help="Use only this connection (tcp.stream).")
]
DecodeAs = Annotated[
    list[str] | None,
    typer.Option(
        "-d",
        "--decode-as",
        metavar="tcp.port==N[,PROTO]",
        help="Treat TCP port N as PROTO: pulsar (default), or other to ignore its traffic.",
    ),
]
KeyLogFile = Annotated[
    str,
    typer.Option(
        "--keylog",
        metavar="FILE",
        help="Decrypt TLS 1.2 and 1.3 with the secrets in this key log file (tshark: tls.keylog_file).",
    ),
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


def named_files(read: list[str] | None, more: list[str] | None) -> list[str]:
    """Return the files in `Files` and `MoreFiles`."""
    return [*(read or ()), *(more or ())]
