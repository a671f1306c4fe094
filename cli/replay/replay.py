"""`pcli replay`: replays the clients of a capture against a broker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.completion import complete_setting, complete_topic
from pcli.cli.common.connection_options import Basic, TlsCert, TlsKey, TlsTrust, Token, security
from pcli.cli.common.options import Captures, ConnectionFilter, DecodeAs, KeyLogFile, OnlyStream, PacketNumbers
from pcli.cli.common.reading_options import read_options

__all__ = ["replay"]


class _Speed(StrEnum):
    real = "1"
    ten = "10"
    most = "max"


class _Side(StrEnum):
    client = "client"
    broker = "broker"


def replay(
    capture: Captures,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="URL", help="Broker URL. Give two URLs to compare two brokers. [a mini-broker in memory]"
        ),
    ] = None,
    admin: Annotated[
        list[str] | None,
        typer.Option("--admin", metavar="URL", help="Web service URL of the broker; one for each --to."),
    ] = None,
    speed: Annotated[
        _Speed, typer.Option("--speed", help="Original speed, ten times that speed, or as fast as causality permits.")
    ] = _Speed.most,
    filter_: ConnectionFilter = "",
    only_stream: OnlyStream = None,
    map_topic: Annotated[
        list[str] | None,
        typer.Option(
            "--map-topic",
            metavar="REGEX=REPL",
            help="Rename topics: '/old/=/new/'. Repeatable.",
            autocompletion=complete_topic,
        ),
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", min=1, help="Number of repetitions.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan without connecting.")] = False,
    report: Annotated[
        str, typer.Option("--report", metavar="FILE", help="Write the result to this file as JSON.")
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of the mini-broker. Repeatable.",
            autocompletion=complete_setting,
        ),
    ] = None,
    side: Annotated[
        _Side, typer.Option("--side", help="Side to replay: the clients, or the broker for live clients.")
    ] = _Side.client,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port of --side broker; 0 selects any free port. [6650]"
        ),
    ] = None,
    packet_numbers: PacketNumbers = False,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    token: Token = "",
    basic: Basic = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Replay the clients of a capture against a broker, and compare each response with the captured response.

    pcli replay capture.pcapng

    pcli replay capture.pcapng --to pulsar://localhost:6650 --admin http://localhost:8080 --report result.json

    pcli replay capture.pcapng --to pulsar://old:6650 --to pulsar://new:6650

    pcli replay capture.pcapng --side broker --port 6650

    Without --to, the command prepares a mini-broker from the capture. Exit codes: 0 if every response is equal or
    explained by a rule, 1 if not, 2 if nothing can be replayed. See docs/replay.md.
    """
    from pcli.cli.replay.replay_session import Run

    Run(
        captures=capture,
        to=to or [],
        admin=admin or [],
        speed=0.0 if speed is _Speed.most else float(speed.value),
        filter=filter_,
        only=only_stream,
        topics=map_topic or [],
        repeat=repeat,
        report=report,
        settings=set_ or [],
        side=side.value,
        port=port,
        options=read_options(decode_as, keylog),
        security=security(token, basic, tls_trust, tls_cert, tls_key),
        packet_numbers=packet_numbers,
    ).run(dry=dry_run)
