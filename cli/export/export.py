"""`pcli export`: exports message lifecycles as spans to a backend of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.common.option_groups import CaptureFiles, ReadAs
from pcli.cli.common.options import CaptureFilter, Interface, Jobs, PrivateKey, filter_option, option
from pcli.cli.common.otlp_options import OtlpOptions

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Tap


def export(
    captures: CaptureFiles,
    *,
    interface: Interface = "",
    capture_filter: CaptureFilter = "",
    proxy: Annotated[
        str, option("--proxy HOST:PORT", "Relay between clients and this broker; pulsar+ssl://HOST:PORT for TLS.")
    ] = "",
    listen: Annotated[
        int, option("--listen PORT", "Port of --proxy for clients; 0 selects any free port.", min=0, max=65535)
    ] = 0,
    otlp: OtlpOptions,
    filter_: Annotated[str, filter_option("Export messages that have a matching frame.")] = "",
    private_key: PrivateKey = None,
    jobs: Jobs = None,
    read_as: ReadAs,
) -> None:
    """Export the lifecycles of messages as spans, with findings, to a backend of OpenTelemetry.

    pcli export -r capture.pcap --otlp http://localhost:4318

    pcli export -r capture.pcap --otlp http://localhost:4317 --sample 0.1

    pcli export -i eth0 -f 'tcp port 6650' --otlp http://localhost:4318 -Y 'pulsar.topic == "orders"'

    pcli export --proxy localhost:6650 --listen 6660 --otlp http://localhost:4318

    A message with traceparent, B3 or Jaeger headers in its properties joins the trace of the application. See
    docs/export.md.
    """
    from pcli.cli.export.capture_export import CaptureExport
    from pcli.codec.errors import LocalError

    if not otlp.otlp:
        raise LocalError("--otlp URL is missing: for example --otlp http://localhost:4318")
    if sum((bool(captures.names), bool(interface), bool(proxy))) != 1:
        raise LocalError("use exactly one of -r FILE, -i IFACE and --proxy HOST:PORT")
    if proxy:
        _relay(proxy, listen, otlp, filter_)
        return
    run = CaptureExport(
        otlp, captures.names, interface, capture_filter, read_as.options(live=bool(interface)), filter_,
        private_key or [], jobs,
    )  # fmt: skip
    raise typer.Exit(run.run())


def _relay(broker: str, listen: int, otlp: OtlpOptions, filter_: str) -> None:
    """Export what a proxy relays until Ctrl-C."""
    import os

    from pcli.cli.common.output import say
    from pcli.cli.common.signals import StopEvent
    from pcli.cli.servers.server_output import print_urls
    from pcli.replay.proxy import Proxy

    stop = StopEvent()
    taps: list[Tap] = []
    with otlp.exporting(taps, filter_), Proxy(to=broker, listen=listen, taps=taps, on_note=say) as running:
        print_urls("proxy", {"service_url": running.service_url, "pid": os.getpid()}, json=False)
        stop.wait()
