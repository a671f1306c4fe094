"""`pcli browse`: browses the frames of captures in a full-screen application."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.common.completion import complete_field
from pcli.cli.common.options import (
    DecodeAs,
    Files,
    Filter,
    KeyLogFile,
    MoreFiles,
    PrivateKey,
    ShowSecrets,
    System,
    TimeOption,
    named_files,
)
from pcli.cli.common.output import Exit, fail
from pcli.cli.common.reading_options import read_options
from pcli.cli.common.times import TimeFormat
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.sources import Source

__all__ = ["browse"]


def browse(
    read: Files = None,
    more: MoreFiles = None,
    filter_: Filter = "",
    field: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            "--field",
            metavar="COLUMN",
            help="Column of the list: number, packet, time, connection, client, type, length, latency, info, or a "
            "field (see pcli fields). Repeatable.",
            autocompletion=complete_field,
        ),
    ] = None,
    time: TimeOption = TimeFormat.r,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    payload: Annotated[bool, typer.Option("--payload", help="Show payloads, decompressed and decoded.")] = False,
    private_key: PrivateKey = None,
    show_secrets: ShowSecrets = False,
    system: System = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Build a temporary index, instead of keeping it for the next time.")
    ] = False,
) -> None:
    """Browse the frames of captures: a list, the tree of a frame and its bytes, as in termshark.

    pcli browse -r capture.pcapng

    pcli browse -r capture.pcap -Y 'pulsar.topic contains "orders"' -e number -e time -e type -e pulsar.consumer_name
    """
    _check_terminal()
    from pcli.cli.browse.frame_list import DEFAULT_COLUMNS
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.sources import open_files
    from pcli.cli.common.capture_reading import CaptureReading, opened_contents
    from pcli.codec.observe import compile_filter

    files = named_files(read, more)
    _check_columns(field or [])
    if filter_:
        compile_filter(filter_)
    if "-" in files:
        fail("-: browse reads keys from the terminal: write the capture to a file first")
    contents = opened_contents(private_key or [])
    reading = CaptureReading(files=files, options=read_options(decode_as, keylog))
    options = BrowseOptions(
        " ".join(files), filter_, time, field or list(DEFAULT_COLUMNS), system, payload, show_secrets
    )
    raise typer.Exit(_run(open_files(reading, contents, cache=not no_cache), options))


def _check_terminal() -> None:
    """Raise LocalError if Textual is not installed, or if there is no terminal of a sufficient size."""
    try:
        import numpy  # noqa: F401
        import textual  # noqa: F401
    except ModuleNotFoundError:
        raise LocalError("browse requires pulsar-pcli[tui]") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocalError("browse requires a terminal; pcli dissect prints frames as text")
    from pcli.cli.browse.frame_views import size_error

    error = size_error(*os.get_terminal_size(sys.stdout.fileno()))
    if error:
        raise LocalError(error)


def _check_columns(names: list[str]) -> None:
    from pcli.cli.browse.browse_app import columns_error

    error = columns_error(" ".join(names))
    if error:
        raise LocalError(f"-e: {error}")


def _run(source: Source, options: BrowseOptions) -> Exit:
    """Show the application until the user quits. Return the exit code."""
    from pcli.cli.browse.browse_app import BrowseApp

    if source.is_empty:
        return source.close() or Exit.NO
    try:
        BrowseApp(source.frames, options, source.build, source.inputs).run()
    finally:
        code = source.close()
    return code
