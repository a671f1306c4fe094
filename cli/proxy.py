"""`pcli proxy`: a tap between clients and a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.connecting import TlsCert, TlsKey, TlsTrust
from pcli.cli.options import LogKind, TextOrJson

__all__ = ["proxy"]


def proxy(
    to: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT", help="The broker; pulsar+ssl://HOST:PORT for one behind TLS.")
    ],
    listen: Annotated[
        int, typer.Option("--listen", min=0, max=65535, metavar="PORT", help="Where clients come; 0: any port.")
    ],
    bind: Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Listen at this address.")] = "127.0.0.1",
    advertised_address: Annotated[
        str, typer.Option("--advertised-address", metavar="HOST", help="The host that clients are told to go to.")
    ] = "",
    http_listen: Annotated[
        int | None,
        typer.Option("--http-listen", min=0, max=65535, metavar="PORT", help="Where clients with http:// URLs come."),
    ] = None,
    http_to: Annotated[
        str, typer.Option("--http-to", metavar="URL", help="The broker's web service: http://HOST:8080.")
    ] = "",
    write: Annotated[
        str, typer.Option("-w", "--write", metavar="OUT.pcapng", help="Record every byte, in the clear.")
    ] = "",
    log: Annotated[LogKind, typer.Option("--log", help="Show every frame, or who comes and goes.")] = LogKind.frames,
    filter_: Annotated[
        str, typer.Option("-Y", "--filter", metavar="FILTER", help="Of --log only what matches: pulsar.type == 'SEND'.")
    ] = "",
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Say on stderr what is wrong, as it arises; docs/diagnose.md.")
    ] = False,
    output: Annotated[
        TextOrJson, typer.Option("-T", "--format", help="json: an object with the URLs, then one a line of --log.")
    ] = TextOrJson.text,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="'DO … on FILTER'", help="Let something go wrong; again for more."),
    ] = None,
    bytes_: Annotated[
        list[str] | None,
        typer.Option("--bytes", metavar="'WORD=VALUE …'", help="A bad line: latency=50ms jitter=20ms; again for more."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Makes the chances of --bytes the same again.")
    ] = None,
    listen_cert: Annotated[
        str, typer.Option("--listen-cert", metavar="PEM", help="Speak TLS to clients, with this certificate.")
    ] = "",
    listen_key: Annotated[str, typer.Option("--listen-key", metavar="PEM", help="Its private key.")] = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Stand between clients and a broker: show, record and disturb what they say, until Ctrl-C.

    pcli proxy --listen 6660 --to localhost:6650

    pcli proxy --listen 6660 --to localhost:6650 -w talk.pcapng -Y 'pulsar.type == "ACK"'

    pcli proxy --listen 6660 --to localhost:6650 --fault "drop times=1 on pulsar.type == 'SEND_RECEIPT'"

    pcli proxy --listen 6660 --to localhost:6650 --bytes 'latency=50ms jitter=20ms from=broker' --log quiet

    pcli proxy --listen 6660 --to pulsar+ssl://broker:6651 --tls-trust ca.pem

    A fault can drop, delay, duplicate, corrupt, error (error=TopicNotFound) or close. The words of --bytes are latency,
    jitter, bandwidth, slice, gap, reset, probability and from. See docs/proxy.md.
    """
    from pcli.cli.connecting import security
    from pcli.cli.proxy_run import run

    run(
        stated={
            "to": to,
            "listen": listen,
            "bind": bind,
            "advertised_address": advertised_address,
            "http_listen": http_listen,
            "http_to": http_to,
            "capture": write or None,
            "seed": seed,
            "listen_cert": listen_cert,
            "listen_key": listen_key,
            "security": security("", tls_trust, tls_cert, tls_key),
        },
        log=log.value,
        filter_=filter_,
        json=output is TextOrJson.json,
        faults=fault or [],
        byte_faults=bytes_ or [],
        diagnose=diagnose,
    )
