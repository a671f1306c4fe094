"""`pcli capture`: a live recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from pcli.codec.errors import LocalError

__all__ = ["capture", "ring_limits", "stop_after"]

_RING_LIMITS: Final = ("filesize", "files", "duration")
"""What dumpcap's -b knows and we pass on."""


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
    import signal
    import sys

    from pcli.cli.common.output import say
    from pcli.replay.recording import record

    duration, limits = stop_after(stop or ()), ring_limits(ring or ())
    # `timeout 60 pcli capture` ends like Ctrl-C: the capture program must not stay behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    live = sys.stderr.isatty()

    def count(packets: int) -> None:
        if live:
            print(f"\r{packets} packets", end="", file=sys.stderr, flush=True)

    done = record(interface, write, capture_filter=capture_filter, ring=limits, duration=duration, on_count=count)
    if live:
        print("\r", end="", file=sys.stderr)
    lost = "unknown" if done.dropped is None else str(done.dropped)
    say(f"{done.packets} packets written to {write} by {done.program}, {lost} dropped by the kernel")


def stop_after(rules: Sequence[str]) -> float:
    """Seconds until a recording stops by itself, from the values of -a: the last one counts, and 0 is for ever.

    LocalError when a value is not ``duration:SECONDS``.
    """
    seconds = 0.0
    for rule in rules:
        name, _, value = rule.partition(":")
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0.0
        if name != "duration" or not 0 < seconds < float("inf"):
            raise LocalError(f"-a {rule}: write duration:SECONDS")
    return seconds


def ring_limits(rules: Sequence[str]) -> list[str]:
    """The values of -b, each a known limit with a whole number above 0; else LocalError."""
    for rule in rules:
        name, _, value = rule.partition(":")
        if name not in _RING_LIMITS or not (value.isascii() and value.isdigit() and int(value)):
            raise LocalError(f"-b {rule}: write filesize:KB, files:N or duration:SECONDS")
    return list(rules)
