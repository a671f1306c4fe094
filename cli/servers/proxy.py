"""`pcli proxy`: runs a proxy that shows and captures traffic between clients and a broker, and injects faults."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust
from pcli.cli.common.option_groups import Credentials
from pcli.cli.common.options import LogKind, Scripts, TextOrJson

if TYPE_CHECKING:
    from pcli.cli.servers.diagnosis_tap import DiagnosisTap
    from pcli.cli.servers.live_addons import LiveAddons

__all__ = ["proxy"]


def proxy(
    to: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT", help="Broker address; pulsar+ssl://HOST:PORT for TLS.")
    ],
    listen: Annotated[
        int,
        typer.Option("--listen", min=0, max=65535, metavar="PORT", help="Port for clients; 0 selects any free port."),
    ],
    bind: Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen on an address of the network, for clients without credentials."),
    ] = False,
    advertised_address: Annotated[
        str, typer.Option("--advertised-address", metavar="HOST", help="Host name in lookup responses.")
    ] = "",
    http_listen: Annotated[
        int | None,
        typer.Option("--http-listen", min=0, max=65535, metavar="PORT", help="Port for HTTP lookups."),
    ] = None,
    http_to: Annotated[
        str, typer.Option("--http-to", metavar="URL", help="Web service of the broker: http://HOST:8080.")
    ] = "",
    write: Annotated[
        str, typer.Option("-w", "--write", metavar="OUT.pcapng", help="Capture all bytes to this file, decrypted.")
    ] = "",
    log: Annotated[
        LogKind,
        typer.Option("--log", help="frames: print frames; events: print connections and errors; quiet: print nothing."),
    ] = "frames",
    filter_: Annotated[
        str, typer.Option("-Y", "--filter", metavar="FILTER", help="Print only matching frames of --log.")
    ] = "",
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Print findings on stderr as they arise; see docs/diagnose.md.")
    ] = False,
    browse: Annotated[
        bool, typer.Option("--browse", help="Browse the traffic in full screen, as pcli browse; q stops the proxy.")
    ] = False,
    output: Annotated[
        TextOrJson,
        typer.Option(
            "-T", "--format", help="json and ndjson: an object with the URLs, then an object for each line of --log."
        ),
    ] = "text",
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="'DO … on FILTER'", help="Inject a fault. Repeatable."),
    ] = None,
    bytes_: Annotated[
        list[str] | None,
        typer.Option(
            "--bytes",
            metavar="'WORD=VALUE …'",
            help="Inject faults into the byte stream: latency=50ms jitter=20ms. Repeatable.",
        ),
    ] = None,
    script: Scripts = None,
    control: Annotated[
        int | None,
        typer.Option(
            "--control",
            min=0,
            max=65535,
            metavar="PORT",
            help="Change faults at run time over HTTP, with the API of Toxiproxy, on this port of 127.0.0.1.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Seed of the random choices of --bytes.")
    ] = None,
    listen_cert: Annotated[
        str, typer.Option("--listen-cert", metavar="PEM", help="Certificate for TLS connections of clients.")
    ] = "",
    listen_key: Annotated[str, typer.Option("--listen-key", metavar="PEM", help="Private key of --listen-cert.")] = "",
    keylog: Annotated[
        str,
        typer.Option(
            "--keylog", metavar="FILE", help="Append the secrets of all TLS connections to this key log file."
        ),
    ] = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Run a proxy that shows and captures the traffic between clients and a broker and injects faults, until Ctrl-C.

    pcli proxy --listen 6660 --to localhost:6650

    pcli proxy --listen 6660 --to localhost:6650 -w capture.pcapng -Y 'pulsar.type == "ACK"'

    pcli proxy --listen 6660 --to localhost:6650 --fault "drop times=1 on pulsar.type == 'SEND_RECEIPT'"

    pcli proxy --listen 6660 --to localhost:6650 --bytes 'latency=50ms jitter=20ms from=broker' --log quiet

    pcli proxy --listen 6660 --to pulsar+ssl://broker:6651 --tls-trust ca.pem

    The actions of a fault are drop, delay, duplicate, reorder, corrupt, error (error=TopicNotFound) and close. The
    words of --bytes are latency, jitter, bandwidth, slice, gap, reset, limit_data, timeout, reset_peer, slow_close,
    probability and from. See docs/proxy.md.
    """
    from pcli.cli.servers.live_addons import LiveAddons

    stated: dict[str, Any] = {
        "to": to,
        "listen": listen,
        "bind": bind,
        "insecure": insecure,
        "advertised_address": advertised_address,
        "http_listen": http_listen,
        "http_to": http_to,
        "capture": write or None,
        "control": control,
        "seed": seed,
        "listen_cert": listen_cert,
        "listen_key": listen_key,
        "key_log": keylog,
        "security": Credentials(tls_trust=tls_trust, tls_cert=tls_cert, tls_key=tls_key).security(),
    }
    with LiveAddons(script or []) as addons:
        if browse:
            _browse(stated, faults=fault or [], byte_faults=bytes_ or [], addons=addons)
            return
        _run(
            stated=stated,
            log=log,
            filter_=filter_,
            json=output != "text",
            faults=fault or [],
            byte_faults=bytes_ or [],
            addons=addons,
            diagnose=diagnose,
        )


def _browse(stated: dict[str, Any], *, faults: list[str], byte_faults: list[str], addons: LiveAddons) -> None:
    """Run the proxy and browse its traffic until the user quits."""
    from pcli.cli.browse.live_sources import temporary_capture
    from pcli.cli.browse.live_view import browse_server, check_terminal
    from pcli.codec.faults import Fault
    from pcli.replay.proxy import ByteFault, Proxy

    check_terminal()
    made = {
        "faults": [*addons.faults, *(Fault.parse(text) for text in faults)],
        "byte_faults": [ByteFault(text) for text in byte_faults],
        "taps": addons.taps,
    }
    with (
        temporary_capture(stated["capture"] or "") as path,
        Proxy(**stated | made | {"capture": path}) as proxy,
    ):
        browse_server(path, f"{proxy.service_url} → {stated['to']}", proxy)


def _run(
    stated: dict[str, Any],
    *,
    log: str,
    filter_: str,
    json: bool,
    faults: list[str],
    byte_faults: list[str],
    addons: LiveAddons,
    diagnose: bool,
) -> None:
    """Run the proxy. ``stated`` contains arguments of Proxy. Raises LocalError if an option or a file is invalid."""
    from pcli.cli.common.output import say
    from pcli.cli.common.signals import StopEvent
    from pcli.cli.servers.server_output import open_log, print_urls
    from pcli.codec.errors import LocalError
    from pcli.codec.faults import Fault
    from pcli.replay.proxy import ByteFault, Proxy
    from pcli.replay.sources.lazy_file import reason_of

    stop = StopEvent()
    shown = open_log(log, filter_, stop, json=json)
    doctor = _doctor() if diagnose else None
    proxy = Proxy(
        **stated,
        faults=[*addons.faults, *(Fault.parse(text) for text in faults)],
        byte_faults=[ByteFault(text) for text in byte_faults],
        taps=[tap for tap in (shown, doctor, *addons.taps) if tap is not None],
        on_note=say,
    )
    with proxy:
        more = {"http_url": proxy.http_url, "control_url": proxy.control_url}
        urls = {"service_url": proxy.service_url, **{name: url for name, url in more.items() if url}}
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
