"""How `pcli proxy` runs: from its options to a proxy, until somebody stops it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pcli.cli.live_run import open_log, stop_event
from pcli.cli.output import json_text, say, write_line
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.diagnose_tap import DiagnosisTap

__all__ = ["run"]


def run(
    stated: dict[str, Any],
    *,
    log: str,
    filter_: str,
    json: bool,
    faults: list[str],
    byte_faults: list[str],
    diagnose: bool,
) -> None:
    """``stated``: arguments of Proxy. LocalError for whatever can't be, and for a recording that ended early."""
    from pcli.codec.faults import Fault
    from pcli.replay.lazy_file import reason_of
    from pcli.replay.proxy import ByteFault, Proxy

    stop = stop_event()
    shown = open_log(log, filter_, stop, json=json)
    doctor = _doctor() if diagnose else None
    proxy = Proxy(
        **stated,
        faults=[Fault.parse(text) for text in faults],
        byte_faults=[ByteFault(text) for text in byte_faults],
        taps=[tap for tap in (shown, doctor) if tap is not None],
        on_note=say,
    )
    with proxy:
        _tell(proxy.service_url, proxy.http_url, json=json)
        if doctor is not None:
            doctor.watch(stop)
        stop.wait()
    if doctor is not None:
        doctor.finish()
    if shown is not None and shown.broken:
        raise BrokenPipeError
    for fault in (*proxy.faults, *proxy.byte_faults):
        say(repr(fault))
    if proxy.capture_failure is not None:
        raise LocalError(f"-w {stated['capture']} ended early: {reason_of(proxy.capture_failure)}")


def _doctor() -> DiagnosisTap:
    from pcli.cli.diagnose_tap import DiagnosisTap

    return DiagnosisTap()


def _tell(service_url: str, http_url: str, *, json: bool) -> None:
    """Say where it is."""
    if json:
        urls = {"service_url": service_url, **({"http_url": http_url} if http_url else {})}
        write_line(json_text({**urls, "pid": os.getpid()}))
    else:
        write_line(f"proxy service URL  {service_url}")
        if http_url:
            write_line(f"web service URL    {http_url}")
    sys.stdout.flush()
