"""`pcli broker`: runs a mini-broker for Pulsar clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pcli.cli.common.completion import complete_setting
from pcli.cli.common.metrics_options import DEFAULT_TOP, Prometheus, TopObjects
from pcli.cli.common.options import LogKind, Scripts, TextOrJson, option
from pcli.cli.common.otlp_options import OtlpOptions
from pcli.minibroker.versions import DEFAULT, NAMES

_PORT: Final[dict[str, Any]] = {"metavar": "PORT", "min": 0, "max": 65535}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of `broker`."""

    local: Annotated[bool, option("--local", "Run the embedded broker; this is the default.", show_default=False)] = (
        True
    )
    port: Annotated[
        int | None, option("--port", "Port of the binary protocol; 0 selects any free port. [6650]", **_PORT)
    ] = None
    http_port: Annotated[
        int | None, option("--http-port", "Port of the REST API; 0 selects any free port. [8080]", **_PORT)
    ] = None
    tls_cert: Annotated[
        str, option("--tls-cert PEM", "Certificate of the broker. Opens the TLS ports.", rich_help_panel="TLS")
    ] = ""
    tls_key: Annotated[
        str, option("--tls-key PEM", "Private key of the certificate. [the file of --tls-cert]", rich_help_panel="TLS")
    ] = ""
    tls_trust: Annotated[
        str, option("--tls-trust PEM", "Trusted certificates that verify clients.", rich_help_panel="TLS")
    ] = ""
    tls_require_client_cert: Annotated[
        bool,
        option("--tls-require-client-cert", "Refuse clients without a trusted certificate.", rich_help_panel="TLS"),
    ] = False
    tls_port: Annotated[
        int | None,
        option(
            "--tls-port",
            "Port of the binary protocol over TLS (pulsar+ssl); 0 selects any free port. [6651]",
            rich_help_panel="TLS",
            **_PORT,
        ),
    ] = None
    tls_http_port: Annotated[
        int | None,
        option(
            "--tls-http-port",
            "Port of the REST API over TLS (https); 0 selects any free port. [8443]",
            rich_help_panel="TLS",
            **_PORT,
        ),
    ] = None
    pulsar: Annotated[str, option("--pulsar VERSION", f"Version of Pulsar to reproduce: {' or '.join(NAMES)}.")] = (
        DEFAULT.name
    )
    bind: Annotated[str, option("--bind ADDRESS", "Address to listen on. [127.0.0.1]")] = ""
    insecure: Annotated[
        bool, option("--insecure", "Listen on an address of the network although clients need no credentials.")
    ] = False
    advertised_address: Annotated[str, option("--advertised-address HOST", "Host name in lookup responses.")] = ""
    settings: Annotated[
        list[str] | None,
        option("--set NAME=VALUE", "Setting of broker.conf. Repeatable.", autocompletion=complete_setting),
    ] = None
    conf: Annotated[str, option("--conf FILE", "File with settings, such as broker.conf.")] = ""
    topics: Annotated[list[str] | None, option("--topic NAME[:PARTITIONS]", "Topic to create. Repeatable.")] = None
    max_backlog: Annotated[str, option("--max-backlog SIZE", "Limit of the stored data, for example 512M or 2G.")] = ""
    data: Annotated[
        str,
        option(
            "--data DIR",
            "Store all state in this directory. A response is sent after its change is on the disk.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    no_sync: Annotated[
        bool,
        option(
            "--no-sync",
            "Do not wait for the disk: faster, but a loss of power can lose confirmed messages.",
            rich_help_panel="Data directory",
        ),
    ] = False
    check: Annotated[
        str,
        option(
            "--check DIR",
            "Check a data directory and exit, with code 1 if it is damaged.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    export: Annotated[
        str,
        option(
            "--export DIR",
            "Write the state and the messages of a data directory as JSON lines (-o FILE or stdout) and exit.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    import_: Annotated[
        str,
        option(
            "--import FILE",
            "Create the data directory --data from an export and exit.",
            rich_help_panel="Data directory",
        ),
    ] = ""
    out: Annotated[str, option("-o FILE", "File for --export.", rich_help_panel="Data directory")] = ""
    log: Annotated[
        LogKind | None,
        option(
            "--log",
            "frames: print frames; events: print connections and errors; quiet: print nothing. "
            "[events on a terminal, otherwise quiet]",
        ),
    ] = None
    filter: Annotated[str, option("-Y --filter FILTER", "Print only matching frames of --log.")] = ""
    capture: Annotated[str, option("--capture OUT.pcapng", "Capture all connections to this file.")] = ""
    scripts: Scripts = None
    faults: Annotated[list[str] | None, option("--fault 'DO … on FILTER'", "Inject a fault. Repeatable.")] = None
    latency: Annotated[str, option("--latency TIME", "Delay all output to clients by this time, for example 3ms.")] = ""
    prometheus: Prometheus = ""
    top: TopObjects = DEFAULT_TOP
    browse: Annotated[
        bool, option("--browse", "Browse the traffic in full screen, as pcli browse; q stops the broker.")
    ] = False
    ready_file: Annotated[
        str,
        option(
            "--ready-file FILE",
            "Write the URLs to this file as JSON when the broker accepts connections.",
            rich_help_panel="Tests of programs",
        ),
    ] = ""
    ready_json: Annotated[
        bool,
        option(
            "--ready-json",
            "Print one line of JSON when the broker accepts connections, with its URLs, ports, process id and version, "
            "and nothing else.",
            rich_help_panel="Tests of programs",
        ),
    ] = False
    exit_with_parent: Annotated[
        bool,
        option(
            "--exit-with-parent",
            "Stop when the process ends that started the broker, or when it closes the pipe to stdin. On Windows only "
            "the latter is possible.",
            rich_help_panel="Tests of programs",
        ),
    ] = False
    output: Annotated[
        TextOrJson,
        option("-T --format", "json and ndjson: an object with the URLs, then an object for each line of --log."),
    ] = "text"
    dispatchers: Annotated[
        bool, option("--dispatchers", "List the dispatchers and their settings without starting a broker.")
    ] = False

    @property
    def prints_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output != "text" or self.ready_json


def broker(options: BrokerOptions, otlp: OtlpOptions) -> None:
    """Run a mini-broker that behaves like Pulsar 4.2.4 or 5.0.1, until Ctrl-C. Without --data, its state is in memory.

    pcli broker

    pcli broker --port 0 --topic orders --topic jobs:4 --log frames -Y 'pulsar.type == "ACK"'

    pcli broker --data ./pulsar-data

    pcli broker --export ./pulsar-data -o messages.ndjson

    pcli broker --set maxUnackedMessagesPerConsumer=50 --capture orders.pcapng

    pcli broker --tls-cert broker.pem --tls-key broker.key

    pcli broker --fault "drop after=2 times=1 on pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'"

    pcli broker --port 0 --http-port 0 --ready-json --exit-with-parent

    pcli broker --fault "delay ms=200 on pulsar.type == 'SEND_RECEIPT'"

    The actions of a fault are drop, delay, duplicate, reorder, corrupt, error (error=TopicNotFound) and close. See
    docs/mini-broker.md.
    """
    from pcli.cli.servers.broker_process import BrokerRun, list_dispatchers

    if options.dispatchers:
        list_dispatchers(options.output)
    elif not _data_command(options):
        BrokerRun(options, otlp).run()


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
