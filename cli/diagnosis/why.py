"""`pcli why`: shows the history of one object of a capture in about ten lines, and its findings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.completion import complete_object
from pcli.cli.common.connection_options import Admin, Basic, TlsCert, TlsKey, TlsTrust, Token, security
from pcli.cli.common.options import (
    DecodeAs,
    Files,
    KeyLogFile,
    MoreFiles,
    NoColor,
    PacketNumbers,
    named_files,
)
from pcli.cli.common.reading_options import read_options
from pcli.cli.common.times import epoch_ns
from pcli.cli.stats.capture_state import At

__all__ = ["why"]


class _Format(StrEnum):
    text = "text"
    json = "json"


class _Kind(StrEnum):
    consumer = "consumer"
    subscription = "subscription"
    producer = "producer"
    topic = "topic"
    connection = "connection"
    message = "message"


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Consumer, subscription, producer or topic; a connection as tcp.stream or ADDRESS:PORT; a message as "
            "LEDGER:ENTRY.",
            autocompletion=complete_object,
        ),
    ],
    read: Files = None,
    more: MoreFiles = None,
    kind: Annotated[
        _Kind | None, typer.Option("--kind", help="Find only objects of this kind, if several have the name.")
    ] = None,
    at: At = "",
    output: Annotated[_Format, typer.Option("-T", "--format", help="Output format.")] = _Format.text,
    packet_numbers: PacketNumbers = False,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    no_color: NoColor = False,
    admin: Admin = "",
    token: Token = "",
    basic: Basic = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
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
        history_output.Question(name, kind.value if kind is not None else "", at, until_ns),
        files=named_files(read, more),
        options=read_options(decode_as, keylog),
        output=output.value,
        color=not no_color,
        packet_numbers=packet_numbers,
        api=admin_api(admin, security(token, basic, tls_trust, tls_cert, tls_key)),
    )
    raise typer.Exit(code)
