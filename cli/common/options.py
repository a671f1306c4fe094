"""Options that several commands share. A letter has the same meaning as in tshark."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pcli.cli.common.completion import complete_filter
from pcli.cli.common.times import TimeFormat

TextOrJson = Literal["text", "json", "ndjson"]
"""Values of ``-T`` in commands that print text or JSON."""


LogKind = Literal["frames", "events", "quiet"]
"""Values of ``--log``, which selects what is printed about live connections."""


def option(words: str, text: str, **more: Any) -> Any:
    """Return an option from its words in the help (``-e --field FIELD``), its help, and further settings of typer."""
    names = [word for word in words.split() if word.startswith("-")]
    metavar = " ".join(words.split()[len(names) :])
    if metavar:
        more["metavar"] = metavar
    if "min" in more:
        more.setdefault("callback", _number)
    return typer.Option(*names, help=text, **more)


def _number(value: Any) -> Any:
    """Return the value of an option with a range. Raises BadParameter if it is NaN, which no comparison excludes."""
    if value != value:
        raise typer.BadParameter(f"'{value}' is not a number.")
    return value


def argument(metavar: str, text: str, **more: Any) -> Any:
    """Return an argument from its name in the help, its help, and further settings of typer."""
    return typer.Argument(metavar=metavar, help=text, **more)


def filter_option(text: str) -> Any:
    """Return the option -Y with this help."""
    return option("-Y --filter FILTER", text, autocompletion=complete_filter)


Interface = Annotated[str, option("-i --interface IFACE", "Capture live from this interface, until Ctrl-C.")]
CaptureFilter = Annotated[str, option("-f --capture-filter BPF", "Capture filter of -i, for example 'tcp port 6650'.")]
Jobs = Annotated[
    int | None, option("-j --jobs N", "Number of processes for large captures; by default one for each core.", min=1)
]
Output = Annotated[
    TextOrJson, option("-T --format", "Output format: text, json (one document) or ndjson (one object per line).")
]
Filter = Annotated[str, filter_option("Show only frames that match, for example pulsar.type == 'SEND'.")]
At = Annotated[
    str,
    option(
        "--at TIME", "Show the state at this time: seconds since 1970 or ISO 8601. Default: the end of the capture."
    ),
]
Captures = Annotated[list[str], argument("CAPTURE", "Captures. The files of a rotated capture are read in order.")]
ConnectionFilter = Annotated[str, filter_option("Use only connections that have a matching frame.")]
OnlyStream = Annotated[int | None, option("--only-stream N", "Use only this connection (tcp.stream).", min=0)]
Scripts = Annotated[
    list[str] | None, option("-s --script FILE.py", "Call the functions of a Python script for frames. Repeatable.")
]
ShowSecrets = Annotated[bool, option("--show-secrets", "Show credentials, which are hidden by default.")]
System = Annotated[
    bool, option("--system", "Include the traffic of the broker's internal client (system topics, replication).")
]
Segments = Annotated[bool, option("--segments", "Show each segment of scalable topics, not their sums.")]
PacketNumbers = Annotated[
    bool, option("--packet-numbers", "Show the packet number (Wireshark's frame.number) of each frame.")
]

NoColor = Annotated[bool, option("--no-color", "Do not colour the output; same as NO_COLOR=1.")]
PrivateKey = Annotated[
    list[str] | None, option("--private-key PEM", "Decrypt payloads with this private key. Repeatable.")
]
TimeOption = Annotated[
    TimeFormat,
    option(
        "-t --time",
        "Time of a frame. r: seconds since the first frame; a: local time; ad: local date and time; d or dd: "
        "seconds since the previous (or previously shown) frame; e: seconds since 1970.",
    ),
]
