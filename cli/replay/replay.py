"""`pcli replay`: the clients of a capture, played against a live broker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust, Token, security
from pcli.cli.common.options import Captures, ConnectionFilter, DecodeAs, OnlyStream, decode_as_ports

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
        typer.Option("--to", metavar="URL", help="The broker: pulsar://host:6650. Two compare two. [one of its own]"),
    ] = None,
    admin: Annotated[
        list[str] | None,
        typer.Option("--admin", metavar="URL", help="Its REST interface: http://host:8080; one for each --to."),
    ] = None,
    speed: Annotated[
        _Speed, typer.Option("--speed", help="As in the capture, ten times as fast, or as causality allows.")
    ] = _Speed.most,
    filter_: ConnectionFilter = "",
    only_stream: OnlyStream = None,
    map_topic: Annotated[
        list[str] | None,
        typer.Option("--map-topic", metavar="REGEX=REPL", help="Rename topics: '/old/=/new/'; again for more."),
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", min=1, help="Play it so often.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be played; connect to nobody.")] = False,
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write the result here, as JSON.")] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the broker of its own; again for more."),
    ] = None,
    side: Annotated[
        _Side, typer.Option("--side", help="Who is played: the clients to a broker, or the broker to live clients.")
    ] = _Side.client,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="With --side broker: listen here; 0: any. [6650]")
    ] = None,
    decode_as: DecodeAs = None,
    token: Token = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Play the clients of a capture against a broker, and compare every answer with the captured one.

    pcli replay talk.pcapng

    pcli replay talk.pcapng --to pulsar://localhost:6650 --admin http://localhost:8080 --report result.json

    pcli replay talk.pcapng --to pulsar://old:6650 --to pulsar://new:6650

    pcli replay talk.pcapng --side broker --port 6650

    Without --to a broker of its own is prepared from the capture. Exit code: 0 every answer is equal or explained by a
    rule, 1 not every one, 2 there is nothing that can be played. See docs/replay.md.
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
        decode_as=decode_as_ports(decode_as),
        security=security(token, tls_trust, tls_cert, tls_key),
    ).run(dry=dry_run)
