"""Live packets from scapy, used if neither dumpcap nor tcpdump is installed.

Scapy is slow and does not report lost packets.

Rules of this file
1. The interface is opened first, so that no file is created for an invalid interface.
2. Scapy's errors for an interface, a filter, missing permissions or a missing libpcap become CaptureErrors.
3. An error while a packet is written ends the recording. By default, scapy would log a warning and continue.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from ctypes.util import find_library
from pathlib import Path
from threading import Event
from typing import IO, Any, BinaryIO, Final, cast

from pcli.codec.errors import CaptureError
from pcli.replay.sources.lazy_file import reason_of

_ETH_P_ALL: Final = 3
"""All protocols, for a Linux packet socket (if_ether.h)."""
_ETHERNET: Final = 1
"""The pcap link type for interfaces that have none in scapy."""
_NO_LIBPCAP: Final = (
    "a capture filter with scapy needs libpcap: install libpcap0.8 (Debian, Ubuntu) or libpcap (Fedora, Alpine), or "
    "install tcpdump"
)


def has_scapy() -> bool:
    """Return whether scapy, an optional dependency, is installed."""
    return importlib.util.find_spec("scapy") is not None


def _listening(interface: str, capture_filter: str) -> Any:
    """Return scapy's socket on the interface. Raises CaptureError with scapy's reason."""
    import scapy.layers.all  # noqa: F401  (without its layers scapy can only guess at the link)
    from scapy.error import Scapy_Exception
    from scapy.interfaces import resolve_iface

    try:
        known = resolve_iface(interface)
        return known.l2listen()(type=_ETH_P_ALL, iface=known, filter=capture_filter or None)
    except OSError as error:
        raise CaptureError(f"{interface}: {reason_of(error)}") from None
    except (Scapy_Exception, ValueError) as error:
        if capture_filter and find_library("pcap") is None:
            raise CaptureError(f"{interface}: {_NO_LIBPCAP}") from None
        raise CaptureError(f"{interface}: {error}") from None


def record_with_scapy(
    interface: str, path: str, capture_filter: str, duration: float, on_count: Callable[[int], None]
) -> int:
    """Record to a pcap file for a duration (in seconds; 0 for no limit) or until Ctrl-C. Return the packet count."""
    from scapy.sendrecv import sniff

    packets = 0
    failed: list[OSError] = []

    def keep(packet: Any) -> None:
        nonlocal packets
        try:
            writer.write(packet)
        except OSError as error:
            failed.append(error)
            return
        packets += 1
        on_count(packets)

    with closing(_listening(interface, capture_filter)) as socket:
        try:
            with Path(path).open("wb") as file:
                writer = _writer(file, socket)
                sniff(
                    opened_socket=socket,
                    prn=keep,
                    store=False,
                    timeout=duration or None,
                    stop_filter=lambda _packet: bool(failed),
                )
        except OSError as error:
            failed.append(error)
    if failed:
        raise CaptureError(f"{path}: {reason_of(failed[0])} ({packets} packets written)")
    return packets


@contextmanager
def open_with_scapy(interface: str, capture_filter: str) -> Iterator[BinaryIO]:
    """Yield a live capture as a file that grows until the block ends. A thread of scapy writes pcap to a pipe."""
    from scapy.error import Scapy_Exception
    from scapy.sendrecv import AsyncSniffer

    closed, started = Event(), Event()

    def keep(packet: Any) -> None:
        try:
            writer.write(packet)
        except OSError:  # the reader has closed the pipe
            closed.set()

    with closing(_listening(interface, capture_filter)) as socket:
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            with os.fdopen(reading, "rb", buffering=0) as file:
                writer = _writer(pipe, socket)
                sniffer = AsyncSniffer(
                    opened_socket=socket,
                    prn=keep,
                    store=False,
                    started_callback=started.set,
                    stop_filter=lambda _packet: closed.is_set(),
                )
                sniffer.start()
                started.wait()
                yield cast(BinaryIO, file)
            # The reader's end is already closed, so a thread that is blocked on a full pipe continues and ends.
            with suppress(Scapy_Exception):  # raised if the thread has already ended
                sniffer.stop()


def _writer(file: IO[bytes], socket: Any) -> Any:
    """Return scapy's pcap writer after it has written the header, so that a capture without packets is valid."""
    from scapy.config import conf
    from scapy.utils import PcapWriter

    writer = PcapWriter(file, linktype=conf.l2types.layer2num.get(socket.LL, _ETHERNET), sync=True)
    writer.write_header(None)
    return writer
