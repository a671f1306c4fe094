"""The process of `pcli broker`: a mini-broker that is configured by options and runs until it is stopped."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import complete_file, json_text, say
from pcli.cli.common.signals import StopEvent
from pcli.cli.servers.live_addons import LiveAddons
from pcli.cli.servers.server_output import open_log, print_urls
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.servers.live_log import LiveLog
    from pcli.minibroker import MiniBroker
    from pcli.minibroker.settings import Settings

__all__ = ["Run", "TlsOptions", "list_dispatchers"]


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The options of the TLS ports."""

    certificate: str
    key: str
    trust: str
    require_client_certificate: bool
    port: int | None
    http_port: int | None

    def apply(self, settings: Settings) -> None:
        """Change the settings that these options override. Raises LocalError if a certificate is missing."""
        if self.certificate:
            settings.tlsCertificateFilePath = settings.tlsKeyFilePath = self.certificate
            self._open_default_ports(settings)
        elif self != _NO_TLS and not settings.tlsCertificateFilePath:
            raise LocalError("TLS requires a certificate: give --tls-cert")
        settings.tlsKeyFilePath = self.key or settings.tlsKeyFilePath
        settings.tlsTrustCertsFilePath = self.trust or settings.tlsTrustCertsFilePath
        settings.tlsRequireTrustedClientCertOnConnect |= self.require_client_certificate
        if self.port is not None:
            settings.brokerServicePortTls = self.port
        if self.http_port is not None:
            settings.webServicePortTls = self.http_port

    @staticmethod
    def _open_default_ports(settings: Settings) -> None:
        if settings.brokerServicePortTls < 0:
            settings.brokerServicePortTls = 6651
        if settings.webServicePortTls < 0:
            settings.webServicePortTls = 8443


_NO_TLS: Final = TlsOptions("", "", "", require_client_certificate=False, port=None, http_port=None)


@dataclass(slots=True)
class Run:
    """The options of `broker`."""

    port: int | None
    http_port: int | None
    bind: str
    insecure: bool
    advertised_address: str
    settings: list[str]
    conf: str
    topics: list[str]
    max_backlog: str
    data: str
    sync: bool
    log: str
    """``frames``, ``events`` or ``quiet``.

    An empty value means ``frames`` if there is a filter, ``events`` if stdout is a terminal and the output is not JSON,
    and otherwise ``quiet``.
    """
    filter: str
    capture: str
    browse: bool
    """Whether to browse the traffic instead of printing it."""
    faults: list[str]
    scripts: list[str]
    latency: str
    ready_file: str
    json: bool
    tls: TlsOptions

    def run(self) -> None:
        """Start the broker, print the URLs, and wait for a signal. Raises LocalError if an option is invalid."""
        if not (self.data or self.sync):
            raise LocalError("--no-sync requires --data DIR")
        with LiveAddons(self.scripts) as addons:
            if self.browse:
                self._browse(addons)
            else:
                self._serve(addons)

    def _serve(self, addons: LiveAddons) -> None:
        """Run the broker until a signal arrives."""
        stop = StopEvent()
        kind = self.log or ("frames" if self.filter else "events" if sys.stdout.isatty() and not self.json else "quiet")
        log = open_log(kind, self.filter, stop, json=self.json)
        broker = self._broker(log, addons)
        if not self.sync:
            say(f"{self.data}: --no-sync: confirmed messages can be lost if the machine loses power")
        self._remove_ready_file()
        with broker:
            self._announce(broker)
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
        with temporary_capture(self.capture) as path:
            self.capture = path
            with self._broker(None, addons) as broker:
                browse_server(path, f"broker {broker.service_url}  {broker.http_url}")

    def _broker(self, log: LiveLog | None, addons: LiveAddons) -> MiniBroker:
        from pcli.minibroker import MiniBroker
        from pcli.minibroker.embedded.argument_parsing import size_of

        faults = []
        if self.faults:
            from pcli.codec.faults import Fault

            faults = [Fault.parse(text) for text in self.faults]
        settings = self._settings()
        self.tls.apply(settings)
        return MiniBroker(
            port=settings.brokerServicePort if self.port is None else self.port,
            http_port=settings.webServicePort if self.http_port is None else self.http_port,
            bind=self.bind or settings.bindAddress,
            insecure=self.insecure,
            advertised_address=self.advertised_address,
            conf=settings,
            topics=self.topics,
            capture=self.capture or None,
            max_backlog=size_of("--max-backlog", self.max_backlog) if self.max_backlog else None,
            data=self.data or None,
            sync=self.sync,
            faults=[*addons.faults, *faults],
            latency=self.latency,
            taps=[*([log] if log is not None else []), *addons.taps],
            max_log=0,
        )

    def _settings(self) -> Settings:
        from pcli.minibroker.settings import Settings

        if not self.conf:
            return Settings.from_pairs(self.settings)
        from pcli.replay.sources.lazy_file import reason_of

        try:
            text = Path(self.conf).read_text(encoding="utf-8")
        except OSError as fault:
            raise LocalError(f"--conf {self.conf}: {reason_of(fault)}") from None
        except UnicodeDecodeError:
            raise LocalError(f"--conf {self.conf}: not UTF-8 text") from None
        try:
            base = Settings.from_file(text)
        except LocalError as fault:
            raise LocalError(f"--conf {self.conf}: {fault.text}") from None
        return Settings.from_pairs(self.settings, base)

    def _remove_ready_file(self) -> None:
        """Remove the ready file. It must exist only while clients can connect."""
        if self.ready_file and Path(self.ready_file).is_file():
            Path(self.ready_file).unlink()

    def _announce(self, broker: MiniBroker) -> None:
        """Print the URLs, and write them to the ready file."""
        urls: dict[str, Any] = {"service_url": broker.service_url, "http_url": broker.http_url}
        if broker.service_url_tls:
            urls |= {"service_url_tls": broker.service_url_tls}
        if broker.http_url_tls:
            urls |= {"http_url_tls": broker.http_url_tls}
        urls["pid"] = os.getpid()
        if self.ready_file:
            path = Path(self.ready_file)
            from pcli.replay.sources.lazy_file import reason_of

            try:
                # A program that waits for the file must not read an incomplete file.
                with complete_file(path) as part:
                    part.write_text(json_text(urls) + "\n")
            except OSError as fault:
                raise LocalError(f"--ready-file {self.ready_file}: {reason_of(fault)}") from None
        print_urls("broker", urls, json=self.json)


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
