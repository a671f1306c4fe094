"""`pcli capture`: writes the packets of an interface to a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pcli.cli.common.options import option
from pcli.codec.errors import LocalError

_RING_LIMITS: Final = ("filesize", "files", "duration")
"""Supported limits of dumpcap's -b."""


def capture(
    interface: Annotated[str, option("-i --interface IFACE", "Interface to capture on, for example lo or any.")],
    write: Annotated[str, option("-w --write FILE", "File to write.")],
    capture_filter: Annotated[
        str, option("-f --capture-filter BPF", "Capture filter.")
    ] = "tcp port 6650 or tcp port 6651",
    ring: Annotated[
        list[str] | None,
        option("-b --ring LIMIT", "Ring buffer of files: filesize:KB, files:N or duration:SECONDS. Repeatable."),
    ] = None,
    stop: Annotated[list[str] | None, option("-a --autostop LIMIT", "Stop after duration:SECONDS.")] = None,
) -> None:
    """Capture live traffic to a file with tcpdump, dumpcap or scapy, until Ctrl-C.

    pcli capture -i lo -w pulsar.pcapng -a duration:60
    """
    import signal
    import sys

    from pcli.cli.common.output import say
    from pcli.replay.sources.live_recording import record

    duration, limits = stop_after(stop or ()), ring_limits(ring or ())
    # SIGTERM, for example from `timeout 60 pcli capture`, acts like Ctrl-C, so that the capture program also ends.
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
    """Return the seconds after which a capture stops, from the last value of -a; 0 means no limit.

    Raises LocalError if a value is not ``duration:SECONDS``.
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
    """Return the values of -b. Raises LocalError if a value is not a supported limit with a whole number above 0."""
    for rule in rules:
        name, _, value = rule.partition(":")
        if name not in _RING_LIMITS or not (value.isascii() and value.isdigit() and int(value)):
            raise LocalError(f"-b {rule}: write filesize:KB, files:N or duration:SECONDS")
    return list(rules)
