"""`pcli capture`: a live recording."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["capture"]


def capture(
    interface: Annotated[str, typer.Option("-i", "--interface", help="Interface to listen on, e.g. lo or any.")],
    write: Annotated[str, typer.Option("-w", "--write", metavar="FILE", help="File to write.")],
    capture_filter: Annotated[
        str, typer.Option("-f", "--capture-filter", help="A BPF filter.")
    ] = "tcp port 6650 or tcp port 6651",
    ring: Annotated[
        list[str] | None, typer.Option("-b", "--ring", help="Ring of files: filesize:KB, files:N, duration:S.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option("-a", "--autostop", help="Stop by itself: duration:S.")] = None,
) -> None:
    """Record live traffic with tcpdump, dumpcap or scapy, with a running count; Ctrl-C ends it.

    pcli capture -i lo -w pulsar.pcapng -a duration:60
    """
    import sys

    from pcli.cli.output import fail, say
    from pcli.replay.recording import record

    duration = 0.0
    for rule in stop or ():
        name, _, value = rule.partition(":")
        try:
            duration = float(value)
        except ValueError:
            duration = -1
        if name != "duration" or duration <= 0:
            fail(f"-a {rule}: write duration:SECONDS")
    for rule in ring or ():
        name, _, value = rule.partition(":")
        if name not in ("filesize", "files", "duration") or not value.isdigit():
            fail(f"-b {rule}: write filesize:KB, files:N or duration:SECONDS")

    live = sys.stderr.isatty()

    def count(packets: int) -> None:
        if live:
            print(f"\r{packets} packets", end="", file=sys.stderr, flush=True)

    done = record(interface, write, capture_filter=capture_filter, ring=ring or [], duration=duration, on_count=count)
    if live:
        print("\r", end="", file=sys.stderr)
    lost = "unknown" if done.dropped is None else str(done.dropped)
    say(f"{done.packets} packets written to {write} by {done.program}, {lost} dropped by the kernel")
