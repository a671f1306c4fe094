"""What makes a reconnect loop: how often, how quickly, and for which reasons; and whose doing an end is.

Rules of this file
1. Three rounds within a minute are a loop. What an application ends itself, or a seek, is none.
2. Every cause has its culprit, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.wording import certainty, span, why_unsure
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord

__all__ = ["CAUSES", "LOOP_NS", "PEER_CAUSES", "ROUNDS", "opened_again", "whose_end"]

ROUNDS: Final = 3
LOOP_NS: Final = 60_000_000_000

CAUSES: Final = {
    "keep_alive": ("network", "a PING stayed without answer", "See keep-alive-missed: find out who does not answer."),
    "fin_broker": ("broker", "the broker ended the connection", "The broker's log says why at these times."),
    "reset_broker": ("network", "the broker's side reset the connection", "Look for a restart, or a box in between."),
    "reset_client": ("client", "the client's side reset the connection", "Look whether its process dies and returns."),
    "refused": ("broker", "nobody listens there", "Is the broker up, and is this its address and port?"),
    "auth": ("application", "the login was refused", "See auth-refused: give it other credentials."),
}
"""Of connections, by word of links.ENDS: culprit, what happened, what to do."""

PEER_CAUSES: Final = {
    **{word: row for word, row in CAUSES.items() if word != "refused"},
    "broker": ("broker", "the broker closed it", "Unloads, load shedding, deletions or limits: see the broker's log."),
}
"""Of producers and consumers; those that are refused were never open."""

_WHOSE: Final = {**{word: row[0] for word, row in PEER_CAUSES.items()}, "silence": "network"}


def whose_end(ends: Collection[str]) -> str:
    """Whose doing it was that sessions ended in these ways, words of links.ENDS: a culprit, the client at the least."""
    found = {_WHOSE[end] for end in ends if end in _WHOSE}
    return next((one for one in ("broker", "network", "application") if one in found), "client")


def opened_again(
    rule: str,
    peer: ConsumerRecord | ProducerRecord,
    about: str,
    subject: dict[str, Any],
    *,
    seeks: int = 0,
) -> Iterator[Finding]:
    """A finding for each cause for which a producer or consumer was lost again and again.

    ``seeks``: each of them makes the broker close a consumer once, which is as it should be.
    """
    for cause, (culprit, what, advice) in PEER_CAUSES.items():
        ends = peer.ends.get(cause)
        rounds = ends.count - (seeks if cause == "broker" else 0) if ends is not None else 0
        if ends is None or rounds < ROUNDS or ends.last_ns - ends.first_ns > LOOP_NS * rounds / ROUNDS:
            continue
        yield Finding(
            rule,
            "warning",
            culprit,
            certainty(peer.doubts - {"start", "end"}, "likely"),
            subject,
            f"{about} had {peer.sessions} sessions; {rounds} times within {span(ends.last_ns - ends.first_ns)} {what}.",
            ends.first_ns,
            ends.frames,
            "Seeks, unloads or restarts that somebody did on purpose." + why_unsure(peer.doubts),
            advice,
            cause,
        )
