"""`pcli why`: shows the history of one object of a capture in about ten lines, and its findings."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pcli.cli.common.completion import complete_object
from pcli.cli.common.connection_options import Admin
from pcli.cli.common.option_groups import CaptureFiles, Credentials, ReadAs
from pcli.cli.common.options import At, NoColor, PacketNumbers, argument, option
from pcli.cli.common.times import epoch_ns

_Format = Literal["text", "json"]


_Kind = Literal["consumer", "subscription", "producer", "topic", "connection", "message"]


def why(
    name: Annotated[
        str,
        argument(
            "NAME",
            "Consumer, subscription, producer or topic; a connection as tcp.stream or ADDRESS:PORT; a message as "
            "LEDGER:ENTRY.",
            autocompletion=complete_object,
        ),
    ],
    captures: CaptureFiles,
    *,
    kind: Annotated[_Kind | None, option("--kind", "Find only objects of this kind, if several have the name.")] = None,
    at: At = "",
    output: Annotated[_Format, option("-T --format", "Output format.")] = "text",
    packet_numbers: PacketNumbers = False,
    read_as: ReadAs,
    no_color: NoColor = False,
    admin: Admin = "",
    credentials: Credentials,
) -> None:
    """Show what happened to one object: its history in about ten lines, its state, and its findings.

    pcli why lazy -r capture.pcap

    pcli why orders/billing -r capture.pcap --at 2026-11-20T18:15:11Z

    pcli why 10.0.0.7:44836 -r capture.pcap

    pcli why 7:12 -r capture.pcap -T json

    pcli why orders/billing -r capture.pcap --admin http://localhost:8080
    """
    from pcli.cli.diagnosis import history_output
    from pcli.cli.diagnosis.broker_query import admin_api

    until_ns = epoch_ns("--at", at) if at else None
    code = history_output.run(
        history_output.Question(name, kind if kind is not None else "", at, until_ns),
        files=captures.names,
        options=read_as.options(),
        output=output,
        color=not no_color,
        packet_numbers=packet_numbers,
        api=admin_api(admin, credentials.security()),
    )
    raise typer.Exit(code)
