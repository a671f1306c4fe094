"""What a generated load is: its settings, and those that have a name."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["WORKLOADS", "Load", "bytes_of"]

MSS = 1448
"""Bytes of data in a segment on Ethernet, with TCP timestamps."""


@dataclass(frozen=True, slots=True)
class Load:
    """Settings of a load. The same settings give the same bytes."""

    size: int = 400_000_000
    """Bytes of the capture, about."""
    seed: int = 1
    connections: int = 8
    """In groups of eight, two of them with producers; every group has topics of its own."""
    topics: int = 2
    """Topics of a group."""
    message_size: int = 200
    """Bytes of a message's payload."""
    batch: int = 1
    """Messages of an entry."""
    subscriptions: tuple[str, ...] = ("Shared", "Failover")
    """Types of the subscriptions of every topic. Exclusive and Failover acknowledge cumulatively, Shared one by one,
    Key_Shared one by one with several ids in a frame."""
    nacks: float = 0.01
    """Share of deliveries of Shared that are not acknowledged and come again."""
    wanted: int = 4
    """Every so manieth consumer of Shared wants answers to its acks."""
    queue: int = 1000
    """Receiver queue: permits that a consumer gives at first; it gives as many again in halves."""
    rate: int = 50_000_000
    """Bytes of capture in a second."""
    tick_ns: int = 2_000_000
    """What follows from a frame comes in a later tick."""
    lag: float = 0.0
    """Seconds between a message's arrival and its dispatch."""
    ack_lag: float = 0.0
    """Seconds between a message's processing and its ack."""
    keys: int = 1000
    """Different keys of messages, where there is a Key_Shared subscription."""
    ledger: int = 50_000
    """Entries of a ledger."""
    ping: float = 5.0
    """Seconds between two PINGs of a connection's side."""
    loss: float = 0.0
    """Share of packets that the capture does not have; they are lost a few at a time."""
    burst: int = 4
    """Packets that are lost together, at most."""
    reorder: float = 0.0
    """Share of data packets that come behind the next."""
    retransmit: float = 0.0
    """Share of data packets that come again, half of them cut elsewhere."""
    midstream: float = 0.0
    """Share of the size that is over when the capture begins."""
    abrupt: bool = False
    """The capture ends in the middle of the traffic, not after the last connection was closed."""
    rotate: int = 0
    """Bytes of a file; 0: one file."""
    micro: bool = False
    """Times in microseconds, not nanoseconds."""


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
    """400MB, 2GB, 64KB, 5000000: units of a thousand."""
    units = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
    word = text.strip().upper().removesuffix("B")
    return int(float(word[:-1]) * units[word[-1]]) if word[-1:] in units else int(word)
