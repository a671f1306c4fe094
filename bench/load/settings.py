"""Settings of generated loads, and the named workloads."""

from __future__ import annotations

from dataclasses import dataclass, replace

MSS = 1448
"""Bytes of data in a segment on Ethernet, with TCP timestamps."""


@dataclass(frozen=True, slots=True)
class Load:
    """Settings of a load; equal settings give equal bytes."""

    size: int = 400_000_000
    """Approximate bytes of the capture."""
    seed: int = 1
    connections: int = 8
    """Connections, in groups of eight with two producer connections; each group has its own topics."""
    topics: int = 2
    """Topics of a group."""
    message_size: int = 200
    """Bytes of a message's payload."""
    batch: int = 1
    """Messages of an entry."""
    subscriptions: tuple[str, ...] = ("Shared", "Failover")
    """Types of the subscriptions of every topic. Exclusive and Failover acknowledge cumulatively, Shared one id per
    frame, Key_Shared several."""
    nacks: float = 0.01
    """Fraction of deliveries on Shared that are negatively acknowledged."""
    wanted: int = 4
    """One of this many Shared consumers requests responses to its acks."""
    queue: int = 1000
    """Receiver queue size: the first permits of a consumer, which it then renews in halves."""
    rate: int = 50_000_000
    """Bytes of capture per second."""
    tick_ns: int = 2_000_000
    """Length of a tick; the effect of a frame is in a later tick."""
    lag: float = 0.0
    """Seconds between a message's arrival and its dispatch."""
    ack_lag: float = 0.0
    """Seconds between a message's processing and its ack."""
    keys: int = 1000
    """Number of different keys, if there is a Key_Shared subscription."""
    ledger: int = 50_000
    """Entries of a ledger."""
    ping: float = 5.0
    """Seconds between two PINGs of one side."""
    loss: float = 0.0
    """Fraction of packets that are not captured, in bursts."""
    burst: int = 4
    """Maximum length of a burst."""
    reorder: float = 0.0
    """Fraction of data packets that are exchanged with the next."""
    retransmit: float = 0.0
    """Fraction of data packets that are retransmitted."""
    midstream: float = 0.0
    """Fraction of the traffic before the beginning of the capture."""
    abrupt: bool = False
    """Whether the capture ends before the connections are closed."""
    rotate: int = 0
    """Maximum bytes of a file; 0 for a single file."""
    micro: bool = False
    """Whether times are in microseconds instead of nanoseconds."""


WORKLOADS: dict[str, Load] = {
    "u200": Load(),
    "u1k": Load(message_size=1024),
    "b200": Load(batch=50, queue=4000),
    "lag": Load(lag=4.0, ack_lag=0.5),
    "loss": Load(loss=0.0002, reorder=0.001, retransmit=0.001),
    "mixed": Load(
        connections=24, subscriptions=("Exclusive", "Failover", "Shared", "Key_Shared"), reorder=0.001, retransmit=0.001
    ),
    "many": replace(Load(), connections=1000),
}


def bytes_of(text: str) -> int:
    """Return the bytes of ``400MB``, ``2GB``, ``64KB`` or ``5000000``, in units of a thousand."""
    units = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
    word = text.strip().upper().removesuffix("B")
    return int(float(word[:-1]) * units[word[-1]]) if word[-1:] in units else int(word)
