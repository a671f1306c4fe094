"""`pcli proxy`: a tap between clients and a broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust
from pcli.cli.common.options import LogKind, TextOrJson

if TYPE_CHECKING:
    from pcli.cli.servers.diagnosis_tap import DiagnosisTap

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
    from pcli.cli.common.connection_options import security

    _run(
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


def _run(
    stated: dict[str, Any],
    *,
    log: str,
    filter_: str,
    json: bool,
    faults: list[str],
    byte_faults: list[str],
    diagnose: bool,
) -> None:
    """``stated``: arguments of Proxy. LocalError for whatever can't be, and for a recording that ended early."""
    from pcli.cli.common.output import say
    from pcli.cli.common.signals import stop_event
    from pcli.cli.servers.server_output import open_log, print_urls
    from pcli.codec.errors import LocalError
    from pcli.codec.faults import Fault
    from pcli.replay.proxy import ByteFault, Proxy
    from pcli.replay.sources.lazy_file import reason_of

    stop = stop_event()
    shown = open_log(log, filter_, stop, json=json)
    doctor = _doctor() if diagnose else None
    proxy = Proxy(
        **stated,
        faults=[Fault.parse(text) for text in faults],
        byte_faults=[ByteFault(text) for text in byte_faults],
        taps=[tap for tap in (shown, doctor) if tap is not None],
        on_note=say,
    )
    with proxy:
        urls = {"service_url": proxy.service_url, **({"http_url": proxy.http_url} if proxy.http_url else {})}
        print_urls("proxy", {**urls, "pid": os.getpid()}, json=json)
        if doctor is not None:
            doctor.watch(stop)
        stop.wait()
    if doctor is not None:
        doctor.finish()
    if shown is not None and shown.broken:
        raise BrokenPipeError
    for fault in (*proxy.faults, *proxy.byte_faults):
        say(repr(fault))
    if proxy.capture_failure is not None:
        raise LocalError(f"-w {stated['capture']} ended early: {reason_of(proxy.capture_failure)}")


def _doctor() -> DiagnosisTap:
    from pcli.cli.servers.diagnosis_tap import DiagnosisTap

    return DiagnosisTap()
