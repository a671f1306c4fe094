"""The process of `pcli broker`: a mini-broker that is configured by options and runs until it is stopped."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pcli.cli import __version__
from pcli.cli.common.output import complete_file, json_text, say
from pcli.cli.common.signals import StopEvent
from pcli.cli.servers.live_addons import LiveAddons
from pcli.cli.servers.live_diagnosis import live_diagnosis
from pcli.cli.servers.parent_watch import stop_with_parent
from pcli.cli.servers.server_output import open_log, print_urls
from pcli.codec.errors import LocalError
from pcli.minibroker.versions import version_of

if TYPE_CHECKING:
    from pcli.cli.common.otlp_options import OtlpOptions
    from pcli.cli.servers.broker import BrokerOptions
    from pcli.codec.capture.tap import Tap
    from pcli.minibroker import MiniBroker
    from pcli.minibroker.settings import Settings


@dataclass(frozen=True, slots=True)
class BrokerRun:
    """The run of `broker`."""

    options: BrokerOptions
    otlp: OtlpOptions

    def run(self) -> None:
        """Start the broker, print the URLs, and wait for a signal. Raises LocalError if an option is invalid."""
        given = self.options
        if given.no_sync and not given.data:
            raise LocalError("--no-sync requires --data DIR")
        if given.browse and (given.ready_json or given.exit_with_parent):
            raise LocalError("--browse is for a terminal: it cannot be used with --ready-json or --exit-with-parent")
        if given.ready_json and (given.filter or given.log not in (None, "quiet")):
            raise LocalError("--ready-json prints one line: it cannot be used with --log or -Y")
        with LiveAddons(given.scripts or []) as addons, self.otlp.exporting(addons.taps):
            if given.browse:
                self._browse(addons)
            else:
                self._serve(addons)

    def _serve(self, addons: LiveAddons) -> None:
        """Run the broker until a signal arrives."""
        given = self.options
        stop = StopEvent()
        if given.exit_with_parent:
            stop_with_parent(stop)
        quiet = given.prints_json or not sys.stdout.isatty()
        kind = given.log or ("frames" if given.filter else "quiet" if quiet else "events")
        log = open_log(kind, given.filter, stop, json=given.prints_json)
        gc.disable()
        logs = [log] if log is not None else []
        with live_diagnosis(given.prometheus, given.top, self.otlp.cluster, prints=False) as (doctors, metrics):
            broker = self._broker(given.capture, [*logs, *doctors], addons)
            if given.no_sync:
                say(f"{given.data}: --no-sync: confirmed messages can be lost if the machine loses power")
            self._remove_ready_file()
            with broker:
                self._announce(broker, metrics)
                gc.freeze()  # modules and tables remain, so that no collection needs to visit them
                gc.enable()
                stop.wait()
                self._remove_ready_file()
        if log is not None and log.broken:
            raise BrokenPipeError
        for fault in broker.faults:
            say(repr(fault))
        if broker.capture_failure is not None:
            raise broker.capture_failure

    def _browse(self, addons: LiveAddons) -> None:
        """Run the broker and browse its traffic until the user quits."""
        from pcli.cli.browse.live_sources import temporary_capture
        from pcli.cli.browse.live_view import browse_server, check_terminal

        check_terminal()
        with (
            temporary_capture(self.options.capture) as path,
            live_diagnosis(self.options.prometheus, self.options.top, self.otlp.cluster, prints=False) as (doctors, _),
            self._broker(path, doctors, addons) as broker,
        ):
            browse_server(path, f"broker {broker.service_url}  {broker.http_url}")

    def _broker(self, capture: str, taps: Sequence[Tap], addons: LiveAddons) -> MiniBroker:
        from pcli.minibroker import MiniBroker
        from pcli.minibroker.embedded.argument_parsing import size_of

        given = self.options
        faults = []
        if given.faults:
            from pcli.codec.faults import Fault

            faults = [Fault.parse(text) for text in given.faults]
        settings = self._settings()
        self._apply_tls(settings)
        return MiniBroker(
            port=settings.brokerServicePort if given.port is None else given.port,
            http_port=settings.webServicePort if given.http_port is None else given.http_port,
            bind=given.bind or settings.bindAddress,
            insecure=given.insecure,
            advertised_address=given.advertised_address,
            conf=settings,
            topics=given.topics or [],
            capture=capture or None,
            max_backlog=size_of("--max-backlog", given.max_backlog) if given.max_backlog else None,
            data=given.data or None,
            sync=not given.no_sync,
            faults=[*addons.faults, *faults],
            latency=given.latency,
            taps=[*taps, *addons.taps],
            max_log=0,
        )

    def _apply_tls(self, settings: Settings) -> None:
        """Change the settings that the TLS options override. Raises LocalError if a certificate is missing."""
        given = self.options
        ports = (given.tls_port, given.tls_http_port)
        if given.tls_cert:
            settings.tlsCertificateFilePath = settings.tlsKeyFilePath = given.tls_cert
            if settings.brokerServicePortTls < 0:
                settings.brokerServicePortTls = 6651
            if settings.webServicePortTls < 0:
                settings.webServicePortTls = 8443
        elif not settings.tlsCertificateFilePath and (
            given.tls_key or given.tls_trust or given.tls_require_client_cert or ports != (None, None)
        ):
            raise LocalError("TLS requires a certificate: give --tls-cert")
        settings.tlsKeyFilePath = given.tls_key or settings.tlsKeyFilePath
        settings.tlsTrustCertsFilePath = given.tls_trust or settings.tlsTrustCertsFilePath
        settings.tlsRequireTrustedClientCertOnConnect |= given.tls_require_client_cert
        if given.tls_port is not None:
            settings.brokerServicePortTls = given.tls_port
        if given.tls_http_port is not None:
            settings.webServicePortTls = given.tls_http_port

    def _settings(self) -> Settings:
        from pcli.minibroker.settings import Settings

        given = self.options
        version = version_of(given.pulsar)
        if not given.conf:
            return Settings.from_pairs(given.settings or [], Settings.of_version(version))
        from pcli.replay.sources.lazy_file import reason_of

        try:
            text = Path(given.conf).read_text(encoding="utf-8")
        except OSError as fault:
            raise LocalError(f"--conf {given.conf}: {reason_of(fault)}") from None
        except UnicodeDecodeError:
            raise LocalError(f"--conf {given.conf}: not UTF-8 text") from None
        try:
            base = Settings.from_file(text, version)
        except LocalError as fault:
            raise LocalError(f"--conf {given.conf}: {fault.text}") from None
        return Settings.from_pairs(given.settings or [], base)

    def _remove_ready_file(self) -> None:
        """Remove the ready file. It must exist only while clients can connect."""
        if self.options.ready_file and Path(self.options.ready_file).is_file():
            Path(self.options.ready_file).unlink()

    def _announce(self, broker: MiniBroker, metrics: dict[str, str]) -> None:
        """Print the URLs, and write them to the ready file."""
        given = self.options
        urls = _ready(broker, version_of(given.pulsar).name) | metrics
        if given.ready_file:
            path = Path(given.ready_file)
            from pcli.replay.sources.lazy_file import reason_of

            try:
                # A program that waits for the file must not read an incomplete file.
                with complete_file(path) as part:
                    part.write_text(json_text(urls) + "\n")
            except OSError as fault:
                raise LocalError(f"--ready-file {given.ready_file}: {reason_of(fault)}") from None
        print_urls("broker", urls, json=given.prints_json)


def _ready(broker: MiniBroker, pulsar: str) -> dict[str, Any]:
    """Return the URLs of a running broker, their ports by the names of the options, its process id and its versions."""
    named = {
        "service_url": ("port", broker.service_url),
        "http_url": ("http_port", broker.http_url),
        "service_url_tls": ("tls_port", broker.service_url_tls),
        "http_url_tls": ("tls_http_port", broker.http_url_tls),
    }
    urls = {name: url for name, (_, url) in named.items() if url}
    ports = {port: urlsplit(url).port for port, url in named.values() if url}
    return {**urls, **ports, "pid": os.getpid(), "version": __version__, "pulsar": pulsar}


def list_dispatchers(output: str) -> None:
    """Print the table of dispatchers."""
    from pcli.cli.common.text_tables import print_rows
    from pcli.minibroker.capabilities import dispatcher_rows

    rows: list[dict[str, Any]] = dispatcher_rows()
    if output != "text":
        print_rows(rows, output, {})
        return
    titles = ("class", "subscriptions", "topics", "setting", "since", "until", "file")
    shown = [
        {name: ", ".join(row[name]) if isinstance(row[name], list) else row[name] for name in titles} for row in rows
    ]
    print_rows(shown, output, {name: name for name in titles})
