"""`pcli top`: topics, subscriptions and consumers as they are now, on a page that goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.connecting import TlsCert, TlsKey, TlsTrust, Token
from pcli.cli.options import DecodeAs, Files, MoreFiles, decode_as_ports, named_files

__all__ = ["top"]


def top(
    read: Files = None,
    more: MoreFiles = None,
    interface: Annotated[
        str, typer.Option("-i", "--interface", metavar="IFACE", help="Look at what passes an interface.")
    ] = "",
    broker: Annotated[
        str,
        typer.Option("--broker", metavar="URL", help="Ask a broker's web service instead: http://localhost:8080."),
    ] = "",
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", metavar="TENANT/NS", help="With --broker: of these; else public/default."),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two pages.")] = 1.0,
    speed: Annotated[
        str, typer.Option("--speed", metavar="X|max", help="With -r: how fast time passes; max: show the end.")
    ] = "1",
    once: Annotated[bool, typer.Option("--once", help="Print one page as text: of a file its end.")] = False,
    decode_as: DecodeAs = None,
    token: Token = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Topics, subscriptions and consumers live: permits, unacked, backlog, rates, and what is found wrong."""
    from pcli.cli.connecting import security
    from pcli.cli.reading import Reading
    from pcli.cli.top_broker import BrokerSource
    from pcli.cli.top_run import choose, parse_speed, run

    files = named_files(read, more)
    reading = Reading(files=files, interface=interface, decode_as=decode_as_ports(decode_as), silent=True)
    proof = security(token, tls_trust, tls_cert, tls_key)
    asked = BrokerSource(broker, namespace or ["public/default"], proof) if broker else None
    source = choose(reading, asked, parse_speed(speed), once=once)
    raise typer.Exit(run(source, interval, once=once))
