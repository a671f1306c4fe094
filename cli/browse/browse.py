"""`pcli browse`: browses the frames of captures in a full-screen application."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.browse.live_view import check_terminal
from pcli.cli.common.completion import complete_field
from pcli.cli.common.connection_options import TlsTrust
from pcli.cli.common.option_groups import CaptureFiles, Credentials, ReadAs
from pcli.cli.common.options import (
    CaptureFilter,
    Filter,
    Interface,
    PrivateKey,
    ShowSecrets,
    System,
    TimeOption,
    option,
)
from pcli.cli.common.output import Exit, fail
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.sources import Source


def browse(
    captures: CaptureFiles,
    *,
    interface: Interface = "",
    capture_filter: CaptureFilter = "",
    broker: Annotated[
        str, option("--broker URL", "Show the traffic of clients that connect to this broker through a built-in proxy.")
    ] = "",
    listen: Annotated[int, option("--listen PORT", "Port of the proxy of --broker. [any]", min=0, max=65535)] = 0,
    follow: Annotated[bool, option("--follow", "Follow a capture file that is still being written.")] = False,
    filter_: Filter = "",
    field: Annotated[
        list[str] | None,
        option(
            "-e --field COLUMN",
            "Column of the list: number, packet, time, connection, client, type, length, latency, info, or a "
            "field (see pcli fields). Repeatable.",
            autocompletion=complete_field,
        ),
    ] = None,
    time: TimeOption = "r",
    read_as: ReadAs,
    payload: Annotated[bool, option("--payload", "Show payloads, decompressed and decoded.")] = False,
    private_key: PrivateKey = None,
    show_secrets: ShowSecrets = False,
    system: System = False,
    tls_trust: TlsTrust = "",
    web: Annotated[
        bool, option("--web", "Serve the application to a web browser of this machine, until Ctrl-C.")
    ] = False,
    port: Annotated[int, option("--port N", "Port of --web. [any]", min=0, max=65535)] = 0,
    no_cache: Annotated[
        bool, option("--no-cache", "Build a temporary index, instead of keeping it for the next time.")
    ] = False,
) -> None:
    """Browse the frames of captures: a list, the tree of a frame and its bytes, as in termshark.

    pcli browse -r capture.pcapng

    pcli browse --follow -r growing.pcapng

    pcli browse --broker pulsar://localhost:6650 --listen 6660

    pcli browse -r capture.pcapng --web --port 8000

    pcli browse -r capture.pcap -Y 'pulsar.topic contains "orders"' -e number -e time -e type -e pulsar.consumer_name
    """
    check_terminal(web=web)
    from pcli.cli.browse.frame_list import DEFAULT_COLUMNS
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.live_sources import follow_broker, follow_capture, follow_interface
    from pcli.cli.browse.sources import open_files
    from pcli.cli.common.capture_reading import CaptureReading, opened_contents
    from pcli.codec.observe import compile_filter
    from pcli.replay.sources.capture_sources import open_inputs

    files = captures.names
    _check_columns(field or [])
    if filter_:
        compile_filter(filter_)
    if sum([bool(files), bool(interface), bool(broker)]) > 1:
        fail("use one of -r FILE, -i IFACE and --broker URL")
    if "-" in files:
        fail("-: browse reads keys from the terminal: write the capture to a file first")
    if follow and len(files) != 1:
        fail("--follow requires one capture file")
    if web:
        for one in open_inputs(files) if files else ():
            one.file.close()
        _serve(files or [interface], port, broker=bool(broker))
        return
    live = follow or bool(interface or broker)
    contents = opened_contents(private_key or [])
    reading_options = read_as.options(live=live)
    options = BrowseOptions(
        title=" ".join(files) or interface,
        filter=filter_,
        time=time,
        columns=field or list(DEFAULT_COLUMNS),
        system=system,
        payload=payload,
        secrets=show_secrets,
        follow=live,
    )
    if interface:
        with follow_interface(interface, capture_filter, reading_options, contents) as source:
            raise typer.Exit(_run(source, options))
    if broker:
        security = Credentials(tls_trust=tls_trust).security()
        with follow_broker(broker, listen, security, reading_options, contents) as (source, proxy):
            options.title, options.proxy = f"{proxy.service_url} → {broker}", proxy
            raise typer.Exit(_run(source, options))
    if follow:
        raise typer.Exit(_run(follow_capture(files[0], reading_options, contents), options))
    reading = CaptureReading(files=files, capture_filter=capture_filter, options=reading_options)
    raise typer.Exit(_run(open_files(reading, contents, cache=not no_cache), options))


def _serve(inputs: list[str], port: int, *, broker: bool) -> None:
    """Serve the command without ``--web`` and ``--port`` to web browsers."""
    if broker:
        fail("--web requires -r or -i: each page would run a proxy of its own")
    try:
        from pcli.cli.browse.web_server import serve
    except ModuleNotFoundError:
        raise LocalError("browse --web requires pulsar-pcli[tui]") from None
    if not inputs[0]:
        fail("no capture to read: give files with -r, or an interface with -i")
    serve(served_arguments(sys.argv[1:]), f"pcli browse {' '.join(inputs)}", port)


def served_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of a command line without ``--web`` and ``--port N``."""
    kept: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word == "--port":
            skip = True
        elif word != "--web" and not word.startswith("--port="):
            kept.append(word)
    return kept


def _check_columns(names: list[str]) -> None:
    from pcli.cli.browse.browse_app import columns_error

    error = columns_error(" ".join(names))
    if error:
        raise LocalError(f"-e: {error}")


def _run(source: Source, options: BrowseOptions) -> Exit:
    """Show the application until the user quits. Return the exit code."""
    from pcli.cli.browse.browse_app import BrowseApp
    from pcli.cli.browse.live_view import end_with_web_server

    if source.is_empty:
        return source.close() or Exit.NO
    end_with_web_server()
    try:
        BrowseApp(source.frames, options, source.build, source.inputs).run()
    finally:
        code = source.close()
    return code
