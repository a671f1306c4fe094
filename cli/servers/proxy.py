"""`pcli proxy`: runs a proxy that shows and captures traffic between clients and a broker, and injects faults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust
from pcli.cli.common.metrics_options import DEFAULT_TOP, Prometheus, TopObjects
from pcli.cli.common.option_groups import Credentials
from pcli.cli.common.options import LogKind, Scripts, TextOrJson, option
from pcli.cli.common.otlp_options import OtlpOptions

if TYPE_CHECKING:
    from pcli.cli.servers.live_addons import LiveAddons


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The options of `proxy`."""

    to: Annotated[str, option("--to HOST:PORT", "Broker address; pulsar+ssl://HOST:PORT for TLS.")]
    listen: Annotated[int, option("--listen PORT", "Port for clients; 0 selects any free port.", min=0, max=65535)]
    bind: Annotated[str, option("--bind ADDRESS", "Address to listen on.")] = "127.0.0.1"
    insecure: Annotated[
        bool, option("--insecure", "Listen on an address of the network, for clients without credentials.")
    ] = False
    advertised_address: Annotated[str, option("--advertised-address HOST", "Host name in lookup responses.")] = ""
    http_listen: Annotated[int | None, option("--http-listen PORT", "Port for HTTP lookups.", min=0, max=65535)] = None
    http_to: Annotated[str, option("--http-to URL", "Web service of the broker: http://HOST:8080.")] = ""
    write: Annotated[str, option("-w --write OUT.pcapng", "Capture all bytes to this file, decrypted.")] = ""
    log: Annotated[
        LogKind, option("--log", "frames: print frames; events: print connections and errors; quiet: print nothing.")
    ] = "frames"
    filter: Annotated[str, option("-Y --filter FILTER", "Print only matching frames of --log.")] = ""
    diagnose: Annotated[bool, option("--diagnose", "Print findings on stderr as they arise; see docs/diagnose.md.")] = (
        False
    )
    prometheus: Prometheus = ""
    top: TopObjects = DEFAULT_TOP
    browse: Annotated[
        bool, option("--browse", "Browse the traffic in full screen, as pcli browse; q stops the proxy.")
    ] = False
    output: Annotated[
        TextOrJson,
        option("-T --format", "json and ndjson: an object with the URLs, then an object for each line of --log."),
    ] = "text"
    faults: Annotated[list[str] | None, option("--fault 'DO … on FILTER'", "Inject a fault. Repeatable.")] = None
    byte_faults: Annotated[
        list[str] | None,
        option("--bytes 'WORD=VALUE …'", "Inject faults into the byte stream: latency=50ms jitter=20ms. Repeatable."),
    ] = None
    scripts: Scripts = None
    control: Annotated[
        int | None,
        option(
            "--control PORT",
            "Change faults at run time over HTTP, with the API of Toxiproxy, on this port of 127.0.0.1.",
            min=0,
            max=65535,
        ),
    ] = None
    seed: Annotated[int | None, option("--seed N", "Seed of the random choices of --bytes.")] = None
    listen_cert: Annotated[str, option("--listen-cert PEM", "Certificate for TLS connections of clients.")] = ""
    listen_key: Annotated[str, option("--listen-key PEM", "Private key of --listen-cert.")] = ""
    keylog: Annotated[
        str, option("--keylog FILE", "Append the secrets of all TLS connections to this key log file.")
    ] = ""
    tls_trust: TlsTrust = ""
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""


def proxy(options: ProxyOptions, otlp: OtlpOptions) -> None:
    """Run a proxy that shows and captures the traffic between clients and a broker and injects faults, until Ctrl-C.

    pcli proxy --listen 6660 --to localhost:6650

    pcli proxy --listen 6660 --to localhost:6650 -w capture.pcapng -Y 'pulsar.type == "ACK"'

    pcli proxy --listen 6660 --to localhost:6650 --fault "drop times=1 on pulsar.type == 'SEND_RECEIPT'"

    pcli proxy --listen 6660 --to localhost:6650 --bytes 'latency=50ms jitter=20ms from=broker' --log quiet

    pcli proxy --listen 6660 --to pulsar+ssl://broker:6651 --tls-trust ca.pem

    pcli proxy --listen 6660 --to localhost:6650 --log quiet --otlp http://localhost:4318

    pcli proxy --listen 6660 --to localhost:6650 --log quiet --prometheus 9464

    The actions of a fault are drop, delay, duplicate, reorder, corrupt, error (error=TopicNotFound) and close. The
    words of --bytes are latency, jitter, bandwidth, slice, gap, reset, limit_data, timeout, reset_peer, slow_close,
    probability and from. See docs/proxy.md.
    """
    from pcli.cli.servers.live_addons import LiveAddons

    with LiveAddons(options.scripts or []) as addons, otlp.exporting(addons.taps):
        (_browse if options.browse else _run)(options, addons, otlp.cluster)


def _arguments(options: ProxyOptions, addons: LiveAddons) -> dict[str, Any]:
    """Return the arguments of Proxy, without its taps."""
    from pcli.codec.faults import Fault
    from pcli.replay.proxy import ByteFault

    tls = Credentials(tls_trust=options.tls_trust, tls_cert=options.tls_cert, tls_key=options.tls_key)
    return {
        "to": options.to,
        "listen": options.listen,
        "bind": options.bind,
        "insecure": options.insecure,
        "advertised_address": options.advertised_address,
        "http_listen": options.http_listen,
        "http_to": options.http_to,
        "capture": options.write or None,
        "control": options.control,
        "seed": options.seed,
        "listen_cert": options.listen_cert,
        "listen_key": options.listen_key,
        "key_log": options.keylog,
        "security": tls.security(),
        "faults": [*addons.faults, *(Fault.parse(text) for text in options.faults or ())],
        "byte_faults": [ByteFault(text) for text in options.byte_faults or ()],
    }


def _browse(options: ProxyOptions, addons: LiveAddons, cluster: str) -> None:
    """Run the proxy and browse its traffic until the user quits."""
    from pcli.cli.browse.live_sources import temporary_capture
    from pcli.cli.browse.live_view import browse_server, check_terminal
    from pcli.cli.servers.live_diagnosis import live_diagnosis
    from pcli.replay.proxy import Proxy

    check_terminal()
    arguments = _arguments(options, addons)
    with (
        temporary_capture(options.write) as path,
        live_diagnosis(options.prometheus, options.top, cluster, prints=False) as (doctors, _),
        Proxy(**arguments | {"capture": path, "taps": [*doctors, *addons.taps]}) as running,
    ):
        browse_server(path, f"{running.service_url} → {options.to}", running)


def _run(options: ProxyOptions, addons: LiveAddons, cluster: str) -> None:
    """Run the proxy. Raises LocalError if an option or a file is invalid."""
    from pcli.cli.common.output import say
    from pcli.cli.common.signals import StopEvent
    from pcli.cli.servers.live_diagnosis import live_diagnosis
    from pcli.cli.servers.server_output import open_log, print_urls
    from pcli.codec.errors import LocalError
    from pcli.replay.proxy import Proxy
    from pcli.replay.sources.lazy_file import reason_of

    stop, json = StopEvent(), options.output != "text"
    shown = open_log(options.log, options.filter, stop, json=json)
    logs = [shown] if shown is not None else []
    with live_diagnosis(options.prometheus, options.top, cluster, prints=options.diagnose) as (doctors, metrics):
        running = Proxy(**_arguments(options, addons), taps=[*logs, *doctors, *addons.taps], on_note=say)
        with running:
            more = {"http_url": running.http_url, "control_url": running.control_url, **metrics}
            urls = {"service_url": running.service_url, **{name: url for name, url in more.items() if url}}
            print_urls("proxy", {**urls, "pid": os.getpid()}, json=json)
            stop.wait()
    if shown is not None and shown.broken:
        raise BrokenPipeError
    for fault in (*running.faults, *running.byte_faults):
        say(repr(fault))
    if running.capture_failure is not None:
        raise LocalError(f"-w {options.write} ended early: {reason_of(running.capture_failure)}")
