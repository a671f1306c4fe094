"""`pcli top`: topics, subscriptions and consumers as they are now, on a page that goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust, Token
from pcli.cli.common.options import DecodeAs, Files, MoreFiles, decode_as_ports, named_files
from pcli.cli.common.output import Exit, write_line
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.top.rows import Snapshot

__all__ = ["top"]


def top(
    read: Files = None,
    more: MoreFiles = None,
    interface: Annotated[
        str, typer.Option("-i", "--interface", metavar="IFACE", help="Look at what passes an interface.")
    ] = "",
    broker: Annotated[
        str,
        typer.Option("--broker", metavar="URL", help="Ask a broker's web service instead: http://localhost:8080."),
    ] = "",
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", metavar="TENANT/NS", help="With --broker: of these; else public/default."),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two pages.")] = 1.0,
    speed: Annotated[
        str, typer.Option("--speed", metavar="X|max", help="With -r: how fast time passes; max: show the end.")
    ] = "1",
    once: Annotated[bool, typer.Option("--once", help="Print one page as text: of a file its end.")] = False,
    decode_as: DecodeAs = None,
    token: Token = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Topics, subscriptions and consumers live: permits, unacked, backlog, rates, and what is found wrong."""
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.connection_options import security
    from pcli.cli.top.broker_source import BrokerSource

    files = named_files(read, more)
    reading = CaptureReading(files=files, interface=interface, decode_as=decode_as_ports(decode_as), silent=True)
    proof = security(token, tls_trust, tls_cert, tls_key)
    asked = BrokerSource(broker, namespace or ["public/default"], proof) if broker else None
    source = _choose(reading, asked, _parse_speed(speed), once=once)
    raise typer.Exit(_run(source, interval, once=once))


class _Source(Protocol):
    """Where the figures come from."""

    @property
    def title(self) -> str:
        """What is looked at."""

    def poll(self) -> Snapshot:
        """The figures of now. PcliError, the first time only: there are none."""

    def close(self) -> Exit:
        """No more will be asked; the exit code."""


def _parse_speed(text: str) -> float:
    """``--speed``: times as fast as it was; 0 for ``max``. LocalError for anything else."""
    if text == "max":
        return 0.0
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise LocalError(f"--speed {text}: write a number above 0, or max")
    return speed


def _choose(reading: CaptureReading, broker: _Source | None, speed: float, *, once: bool) -> _Source:
    """The one source that was given. LocalError: there is none, or more than one."""
    given = [bool(reading.files), bool(reading.interface), broker is not None]
    if sum(given) != 1:
        raise LocalError("top takes one of -r FILE, -i IFACE and --broker URL")
    if broker is not None:
        return broker
    if once and reading.interface:
        raise LocalError("--once goes with -r and --broker: a live interface has no end")
    from pcli.cli.top.capture_source import CaptureSource

    return CaptureSource(reading, 0.0 if once or reading.interface else speed, whole=once)


def _run(source: _Source, interval: float, *, once: bool) -> Exit:
    """Show it until somebody quits, or print it once; the exit code. LocalError: there is no terminal."""
    if once:
        _print_page(source.poll())
        return source.close()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocalError("top needs a terminal; --once prints one page as text")
    try:
        from pcli.cli.top.live_page import TopPage
    except ModuleNotFoundError:
        raise LocalError("for the live page, install pulsar-pcli[tui]; --once needs nothing") from None
    first = source.poll()
    TopPage(source.poll, interval, source.title, first).run()
    return source.close()


def _print_page(snapshot: Snapshot) -> None:
    """The rows, and under them the findings."""
    from pcli.cli.common.text_tables import print_rows
    from pcli.cli.top.rows import COLUMNS, make_rows, ordered, record
    from pcli.codec.observe.text_format import printable

    rows = [record(row) for row in ordered(make_rows(snapshot, None), "n")]
    print_rows(rows, "text", {name: name for name in COLUMNS})
    for finding in snapshot.findings:
        write_line(f"{finding.severity}: {finding.rule}: {printable(finding.what)}")
    if snapshot.note:
        write_line(printable(snapshot.note))
