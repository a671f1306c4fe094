"""`pcli broker`: runs a mini-broker for Pulsar clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from pcli.cli.common.completion import complete_setting
from pcli.cli.common.options import LogKind, Scripts, TextOrJson

__all__ = ["BrokerOptions", "broker"]

_PORT: Final[dict[str, Any]] = {"metavar": "PORT", "min": 0, "max": 65535}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of `broker`."""

    local: Annotated[
        bool, typer.Option("--local", help="Run the embedded broker; this is the default.", show_default=False)
    ] = True
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            **_PORT,
            help="Port of the binary protocol; 0 selects any free port. [6650]",
        ),
    ] = None
    http_port: Annotated[
        int | None,
        typer.Option(
            "--http-port",
            **_PORT,
            help="Port of the REST API; 0 selects any free port. [8080]",
        ),
    ] = None
    tls_cert: Annotated[
        str,
        typer.Option(
            "--tls-cert", metavar="PEM", help="Certificate of the broker. Opens the TLS ports.", rich_help_panel="TLS"
        ),
    ] = ""
    tls_key: Annotated[
        str,
        typer.Option(
            "--tls-key",
            metavar="PEM",
            help="Private key of the certificate. [the file of --tls-cert]",
            rich_help_panel="TLS",
        ),
    ] = ""
    tls_trust: Annotated[
        str,
        typer.Option(
            "--tls-trust", metavar="PEM", help="Trusted certificates that verify clients.", rich_help_panel="TLS"
        ),
    ] = ""
    tls_require_client_cert: Annotated[
        bool,
        typer.Option(
            "--tls-require-client-cert", help="Refuse clients without a trusted certificate.", rich_help_panel="TLS"
        ),
    ] = False
    tls_port: Annotated[
        int | None,
        typer.Option(
            "--tls-port",
            **_PORT,
            help="Port of the binary protocol over TLS (pulsar+ssl); 0 selects any free port. [6651]",
            rich_help_panel="TLS",
        ),
    ] = None
    tls_http_port: Annotated[
        int | None,
        typer.Option(
            "--tls-http-port",
            **_PORT,
            help="Port of the REST API over TLS (https); 0 selects any free port. [8443]",
            rich_help_panel="TLS",
        ),
    ] = None
    bind: Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Address to listen on. [127.0.0.1]")] = ""
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen on an address of the network although clients need no credentials."),
    ] = False
    advertised_address: Annotated[
        str, typer.Option("--advertised-address", metavar="HOST", help="Host name in lookup responses.")
    ] = ""
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of broker.conf. Repeatable.",
            autocompletion=complete_setting,
        ),
    ] = None
    conf: Annotated[str, typer.Option("--conf", metavar="FILE", help="File with settings, such as broker.conf.")] = ""
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME[:PARTITIONS]", help="Topic to create. Repeatable."),
    ] = None
    max_backlog: Annotated[
        str, typer.Option("--max-backlog", metavar="SIZE", help="Limit of the stored data, for example 512M or 2G.")
    ] = ""
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Store all state in this directory. A response is sent after its change is on the disk.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    no_sync: Annotated[
        bool,
        typer.Option(
            "--no-sync",
            help="Do not wait for the disk: faster, but a loss of power can lose confirmed messages.",
            rich_help_panel="Data directory",
        ),
    ] = False
    check: Annotated[
        str,
        typer.Option(
            "--check",
            metavar="DIR",
            help="Check a data directory and exit, with code 1 if it is damaged.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    export: Annotated[
        str,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Write the state and the messages of a data directory as JSON lines (-o FILE or stdout) and exit.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    import_: Annotated[
        str,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Create the data directory --data from an export and exit.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    out: Annotated[
        str, typer.Option("-o", metavar="FILE", help="File for --export.", rich_help_panel="Data directory")
    ] = ""
    log: Annotated[
        LogKind | None,
        typer.Option(
            "--log",
            help="frames: print frames; events: print connections and errors; quiet: print nothing. "
            "[events on a terminal, otherwise quiet]",
        ),
    ] = None
    filter: Annotated[
        str, typer.Option("-Y", "--filter", metavar="FILTER", help="Print only matching frames of --log.")
    ] = ""
    capture: Annotated[
        str, typer.Option("--capture", metavar="OUT.pcapng", help="Capture all connections to this file.")
    ] = ""
    scripts: Scripts = None
    faults: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="'DO … on FILTER'", help="Inject a fault. Repeatable."),
    ] = None
    latency: Annotated[
        str,
        typer.Option("--latency", metavar="TIME", help="Delay all output to clients by this time, for example 3ms."),
    ] = ""
    browse: Annotated[
        bool, typer.Option("--browse", help="Browse the traffic in full screen, as pcli browse; q stops the broker.")
    ] = False
    ready_file: Annotated[
        str,
        typer.Option(
            "--ready-file",
            metavar="FILE",
            help="Write the URLs to this file as JSON when the broker accepts connections.",
        ),
    ] = ""
    output: Annotated[
        TextOrJson,
        typer.Option(
            "-T", "--format", help="json and ndjson: an object with the URLs, then an object for each line of --log."
        ),
    ] = "text"
    dispatchers: Annotated[
        bool, typer.Option("--dispatchers", help="List the dispatchers and their settings without starting a broker.")
    ] = False

    @property
    def prints_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output != "text"


def broker(options: BrokerOptions) -> None:
    """Run a mini-broker that behaves like Apache Pulsar 4.2.4, until Ctrl-C. Without --data, its state is in memory.

    pcli broker

    pcli broker --port 0 --topic orders --topic jobs:4 --log frames -Y 'pulsar.type == "ACK"'

    pcli broker --data ./pulsar-data

    pcli broker --export ./pulsar-data -o messages.ndjson

    pcli broker --set maxUnackedMessagesPerConsumer=50 --capture orders.pcapng

    pcli broker --tls-cert broker.pem --tls-key broker.key

    pcli broker --fault "drop after=2 times=1 on pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'"

    pcli broker --fault "delay ms=200 on pulsar.type == 'SEND_RECEIPT'"

    The actions of a fault are drop, delay, duplicate, reorder, corrupt, error (error=TopicNotFound) and close. See
    docs/mini-broker.md.
    """
    from pcli.cli.servers.broker_process import BrokerRun, list_dispatchers

    if options.dispatchers:
        list_dispatchers(options.output)
    elif not _data_command(options):
        BrokerRun(options).run()


def _data_command(options: BrokerOptions) -> bool:
    """Execute --check, --export or --import. Return False if none is given."""
    from pcli.cli.servers import data_directory
    from pcli.codec.errors import LocalError

    check, export, import_ = options.check, options.export, options.import_
    if sum(map(bool, (check, export, import_))) > 1:
        raise LocalError("--check, --export and --import exclude each other")
    if options.out and not export:
        raise LocalError("-o requires --export DIR")
    if check:
        data_directory.check(check, options.output)
    elif export:
        data_directory.export(export, options.out)
    elif import_:
        data_directory.import_(import_, options.data)
    return bool(check or export or import_)
