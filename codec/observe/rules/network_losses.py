"""Frames that TCP did not deliver, as the cause of findings about missing effects.

Rules of this file
1. A frame whose bytes were retransmitted and never acknowledged by TCP did not reach the process of the receiver: the
   network lost it, or the receiver's host had stopped. If the receiver has sent frames since, its host was running, and
   the acknowledgement numbers of these frames show that the lost frame was not received.
2. Without such a loss, TCP delivered the frame, provided that the capture contains both directions without gaps.
3. A host sends nothing new while its congestion window is full. After a loss, the capture therefore lacks frames that
   the process of this host has sent. If the broker's host receives no acknowledgements, it sends no more messages.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause, Moment
from pcli.codec.observe.rules.finding_text import at
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

ADVICE: Final = (
    "Check the path between the two hosts: firewalls, MTU, load balancers, and packet loss at the time of the "
    "retransmissions."
)

_CERTAIN: Final = Cause("network")

_BEFORE_NS: Final = 3_000_000_000
"""Maximum time in ns from the start of a silence to the loss that explains it."""


def loss_of(moment: Moment, stream: int, frame: int, *, from_client: bool = True) -> tuple[Cause, str] | None:
    """Return the cause of the missing effect of a frame, and a sentence about it, if TCP did not deliver the frame.

    The result is None if TCP delivered the frame, as far as the capture shows, or if the frame is 0 (unknown).
    """
    loss = moment.capture.losses.get((stream, from_client))
    if loss is None or not frame or (frame < loss.frame and loss.exact):
        return None
    receiver = "broker" if from_client else "client"
    first = max(frame, loss.frame)
    resent = "earlier bytes were"
    if loss.exact:
        resent = "it was" if first == loss.frame else f"{at(loss.frame)} was"
    text = f" TCP never acknowledged {at(first)}, although {resent} retransmitted"
    if frame < loss.frame:
        other = f"a {receiver} that received {at(frame)} and did not process it"
        return Cause("network", "likely", (other,), f"A capture on the {receiver}'s host."), f"{text}."
    if not loss.heard:
        other = f"a host of the {receiver} that had stopped"
        return Cause(
            "network", "likely", (other,), f"Whether the {receiver}'s host was running at that time."
        ), f"{text}."
    return _CERTAIN, f"{text}: the {receiver} did not receive it."


def silence_of(
    moment: Moment, consumer: ConsumerRecord, since_ns: int, frames: tuple[int, int], other: str
) -> tuple[Cause, str] | None:
    """Return the cause of missing frames of a consumer since a time, and a sentence about it, if TCP delivers nothing.

    ``frames``: the frames at the start and at the end of the silence; 0 if it has not ended. ``other`` is another
    cause, as a noun phrase.
    """
    first, last = frames
    stream = connection_at(consumer, first)
    for from_client in (True, False):
        loss = moment.capture.losses.get((stream, from_client))
        if loss is not None and loss.since_ns - since_ns < _BEFORE_NS and not 0 < last < loss.frame:
            sender, receiver = ("client", "broker") if from_client else ("broker", "client")
            cause = Cause("network", "likely", (other,), f"A capture on the {receiver}'s host.")
            return cause, (
                f" TCP has delivered nothing from the {sender} since {at(loss.frame)}: later frames may wait in its "
                f"host{', and the host of the broker sends nothing more without acknowledgements' * from_client}."
            )
    return None


def connection_at(consumer: ConsumerRecord, frame: int) -> int:
    """Return the connection (tcp.stream) of a consumer's session that a frame belongs to; -1 if it is not known."""
    return next((stream for first, stream in reversed(consumer.connections) if first <= frame), -1)
