"""`pcli top`: shows current topics, subscriptions and consumers, as a live page or once as text."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from pcli.cli.common.connection_options import Admin
from pcli.cli.common.metrics_options import DEFAULT_TOP, Cluster, Prometheus, TopObjects, metrics_collector
from pcli.cli.common.option_groups import CaptureFiles, Credentials, ReadAs
from pcli.cli.common.options import CaptureFilter, Interface, PacketNumbers, Segments, option
from pcli.cli.common.output import Exit, write_line
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.common.admin_api import AdminApi
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.cli.top.capture_source import CaptureSource
    from pcli.cli.top.rows import Snapshot
    from pcli.codec.observe.metrics.collector import MetricsCollector


def top(
    captures: CaptureFiles,
    *,
    interface: Interface = "",
    capture_filter: CaptureFilter = "",
    broker: Annotated[
        str, option("--broker URL", "Show a broker's statistics from its web service: http://localhost:8080.")
    ] = "",
    namespace: Annotated[
        list[str] | None,
        option("--namespace TENANT/NS", "Namespace to show with --broker. Repeatable. [public/default]"),
    ] = None,
    interval: Annotated[float, option("--interval SECONDS", "Time between two updates.", min=0.1)] = 1.0,
    speed: Annotated[
        str, option("--speed X|max", "With -r: factor of the original speed; max: show the final state.")
    ] = "1",
    once: Annotated[
        bool, option("--once", "Print the state once as text; with -r, the state at the end of the capture.")
    ] = False,
    segments: Segments = False,
    prometheus: Prometheus = "",
    top_objects: TopObjects = DEFAULT_TOP,
    cluster: Cluster = "",
    packet_numbers: PacketNumbers = False,
    read_as: ReadAs,
    admin: Admin = "",
    credentials: Credentials,
) -> None:
    """Show topics, subscriptions and consumers live: permits, unacked messages, backlog, rates, findings.

    pcli top -i eth0

    pcli top -r orders.pcapng --speed max

    pcli top -i eth0 --prometheus 9464

    --prometheus also serves these values as metrics. Without a terminal, top then shows no page and serves the metrics
    until Ctrl-C or SIGTERM. See docs/monitoring.md.
    """
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.cli.diagnosis.broker_query import admin_api
    from pcli.cli.top.broker_source import BrokerSource

    files = captures.names
    reading = CaptureReading(
        files=files,
        interface=interface,
        capture_filter=capture_filter,
        options=read_as.options(live=bool(interface)),
        silent=True,
    )
    proof = credentials.security()
    broker_source = BrokerSource(broker, namespace or ["public/default"], proof) if broker else None
    packets = PacketIndex() if packet_numbers else None
    if prometheus and broker:
        raise LocalError("--prometheus requires -r or -i: a broker serves its own metrics at /metrics")
    if prometheus and once:
        raise LocalError("--prometheus serves metrics until it is stopped: omit --once")
    metrics = metrics_collector(top_objects, cluster, segments=segments) if prometheus else None
    with ExitStack() as stack:
        endpoint = None
        if metrics is not None:
            from pcli.cli.common.metrics_endpoint import MetricsEndpoint

            endpoint = stack.enter_context(MetricsEndpoint(prometheus, metrics.read))
        source = _choose(
            reading,
            broker_source,
            _parse_speed(speed),
            once=once,
            segments=segments,
            packets=packets,
            api=admin_api(admin, proof),
            metrics=metrics,
        )
        if endpoint is None:
            raise typer.Exit(_run(source, interval, once=once, segments=segments))
        live = cast("CaptureSource", source)
        if not _has_terminal():
            raise typer.Exit(_serve(live, interval, endpoint.url))
        raise typer.Exit(_run(live, interval, once=False, segments=segments, endpoint=endpoint.url))


class _Source(Protocol):
    """A source of snapshots."""

    @property
    def title(self) -> str:
        """The name of the source."""

    def poll(self) -> Snapshot:
        """Return the current state. Only the first poll raises a PcliError."""

    def close(self) -> Exit:
        """Stop and return the exit code."""


def _parse_speed(text: str) -> float:
    """Return the factor of ``--speed``, or 0 for ``max``. Raises LocalError for any other string."""
    if text == "max":
        return 0.0
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise LocalError(f"--speed {text}: write a number above 0, or max")
    return speed


def _choose(
    reading: CaptureReading,
    broker: _Source | None,
    speed: float,
    *,
    once: bool,
    segments: bool,
    packets: PacketIndex | None,
    api: AdminApi | None,
    metrics: MetricsCollector | None,
) -> _Source:
    """Return the source that the options specify. Raises LocalError unless there is exactly one source."""
    given = [bool(reading.files), bool(reading.interface), broker is not None]
    if sum(given) != 1:
        raise LocalError("use exactly one of -r FILE, -i IFACE and --broker URL")
    if broker is not None:
        if packets is not None:
            raise LocalError("--packet-numbers requires -r or -i: a broker reports no packets")
        if segments:
            raise LocalError("--segments requires -r or -i: the topics of a broker are classic topics")
        if api is not None:
            raise LocalError("--admin requires -r or -i: it compares the findings of a capture with a broker")
        return broker
    if once and reading.interface:
        raise LocalError("--once requires -r or --broker: a live interface has no end")
    from pcli.cli.top.capture_source import CaptureSource

    speed = 0.0 if once or reading.interface else speed
    return CaptureSource(reading, speed, whole=once, packets=packets, api=api, metrics=metrics)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _serve(source: CaptureSource, interval: float, url: str) -> Exit:
    """Serve metrics without a page until a signal arrives. Return the exit code; raise the error of the input."""
    from pcli.cli.common.signals import StopEvent
    from pcli.cli.diagnosis.capture_diagnosis import repeat

    def look() -> None:
        source.refresh()
        if source.fault is not None:
            raise source.fault

    try:
        source.refresh()
        stop = StopEvent()
        write_line(f"metrics URL  {url}")
        sys.stdout.flush()
        repeat(look, stop, interval)
    finally:
        code = source.close()
    return code


def _run(source: _Source, interval: float, *, once: bool, segments: bool, endpoint: str = "") -> Exit:
    """Show the page until the user quits, or print it once. Return the exit code.

    ``endpoint`` is the URL of the metrics, if they are served. They are also updated while the page is paused.

    Raises LocalError if the page has no terminal.
    """
    if once:
        _print_page(source.poll(), segments=segments)
        return source.close()
    if not _has_terminal():
        raise LocalError("top requires a terminal; --once prints the state as text")
    try:
        from pcli.cli.top.live_page import TopPage
    except ModuleNotFoundError:
        raise LocalError("the live page requires pulsar-pcli[tui]; --once does not") from None
    first = source.poll()
    if endpoint:
        from pcli.cli.diagnosis.capture_diagnosis import repeat

        threading.Thread(
            target=repeat, args=(cast("CaptureSource", source).refresh, threading.Event()), daemon=True
        ).start()
    title = f"{source.title}  {endpoint}".rstrip()
    TopPage(source.poll, interval, title, first, segments=segments).run()
    return source.close()


def _print_page(snapshot: Snapshot, *, segments: bool) -> None:
    """Print the rows and, below them, the findings."""
    from pcli.cli.common.text_tables import print_rows
    from pcli.cli.top.rows import COLUMNS, make_rows, ordered, record
    from pcli.codec.observe.text_format import printable

    rows = [record(row) for row in ordered(make_rows(snapshot, None, segments=segments), "n")]
    print_rows(rows, "text", {name: name for name in COLUMNS})
    for finding in snapshot.findings:
        write_line(f"{finding.severity}: {snapshot.finding_text(finding)}")
    for line in snapshot.broker:
        write_line(printable(line))
    if snapshot.note:
        write_line(printable(snapshot.note))
