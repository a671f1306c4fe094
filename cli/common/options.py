"""Options that several commands share: tshark's letters for what reads captures."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.output import fail

__all__ = [
    "Captures",
    "ConnectionFilter",
    "DecodeAs",
    "Files",
    "Filter",
    "LogKind",
    "MoreFiles",
    "OnlyStream",
    "Output",
    "ShowSecrets",
    "System",
    "TextOrJson",
    "decode_as_ports",
    "named_files",
]


class TextOrJson(StrEnum):
    """Forms of ``-T`` where there are two."""

    text = "text"
    json = "json"


class LogKind(StrEnum):
    """What ``--log`` shows of live connections."""

    frames = "frames"
    events = "events"
    quiet = "quiet"


Files = Annotated[
    list[str] | None,
    typer.Option("-r", "--read", metavar="FILE", help="Capture to read: pcap or pcapng, also .gz, .zst; - is stdin."),
]
MoreFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE…]", help="More captures: parts of one recording are put in order."),
]
Output = Annotated[TextOrJson, typer.Option("-T", "--format", help="text or json.")]
Filter = Annotated[
    str,
    typer.Option("-Y", "--filter", metavar="FILTER", help="Only frames that match: pulsar.type == 'SEND'."),
]
Captures = Annotated[
    list[str], typer.Argument(metavar="CAPTURE…", help="Captures; parts of one recording are put in order.")
]
ConnectionFilter = Annotated[
    str, typer.Option("-Y", "--filter", metavar="FILTER", help="Only connections with a frame that matches.")
]
OnlyStream = Annotated[
    int | None, typer.Option("--only-stream", metavar="N", min=0, help="Only this connection (tcp.stream).")
]
DecodeAs = Annotated[
    list[str] | None,
    typer.Option("-d", "--decode-as", metavar="tcp.port==N[,PROTO]", help="Read this port as pulsar (or as other)."),
]
ShowSecrets = Annotated[bool, typer.Option("--show-secrets", help="Show credentials; they are hidden otherwise.")]
System = Annotated[
    bool, typer.Option("--system", help="Show the traffic of the broker's own client too (system topics, replication).")
]

_RULE = re.compile(r"(?:tcp\.port\s*==\s*)?(\d{1,5})(?:\s*,\s*(\w*))?", re.ASCII)
_DECODERS = ("pulsar", "other", "data")


def named_files(read: list[str] | None, more: list[str] | None) -> list[str]:
    """What `Files` and `MoreFiles` name together."""
    return [*(read or ()), *(more or ())]


def decode_as_ports(rules: list[str] | None) -> dict[int, str]:
    """``-d tcp.port==7000,pulsar``, ``-d 7000``: port to protocol; a wrong rule ends the command."""
    ports = {}
    for rule in rules or ():
        match = _RULE.fullmatch(rule.strip())
        number, protocol = (int(match[1]), (match[2] or "pulsar").lower()) if match else (0, "")
        if not 0 < number < 65536 or protocol not in _DECODERS:
            fail(f"-d {rule}: write {_right_form(rule)}")
        ports[number] = "pulsar" if protocol == "pulsar" else "other"
    return ports


def _right_form(rule: str) -> str:
    """How a rule is written that was written wrongly; with its own port where it has one."""
    meant = re.fullmatch(r"[^\d,]*?=?\s*(\d{1,5})\s*(?:,\s*(\w*))?\s*", rule, re.ASCII)
    number = int(meant[1]) if meant else 0
    if meant is None or not 0 < number < 65536 or meant[2] not in (None, "", *_DECODERS):
        return "tcp.port==7000,pulsar or tcp.port==8080,other"
    return f"tcp.port=={number},{meant[2] or 'pulsar'}"
