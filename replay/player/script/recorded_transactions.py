"""The transactional commands of the capture's clients, and whether the live broker supports transactions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import Outcome
from pcli.replay.player.id_translation import position_of
from pcli.replay.player.script.script import Script

__all__ = ["Transactions", "is_refusal"]

_INSIDE: Final = frozenset(BY_NAME[name].number for name in ("SEND", "ACK"))
_REFUSALS: Final = (
    "Transactions are not enabled.",
    "Transaction buffer disable!",
    "org.apache.pulsar.broker.service.BrokerServiceException$NotAllowedException: "
    "Server don't support transaction ack!",
)
"""Errors of a broker without transactions (classes ServerCnx, TransactionBufferDisable and Consumer)."""


class Transactions:
    """The transactions of one replay."""

    def __init__(self, script: Script, outcomes: Collection[Outcome]) -> None:
        inside = [step for step in script.steps if step.frame is not None and _is_inside(step.frame)]
        sends = [step for step in inside if step.name == "SEND"]
        self.contents = {step.content for step in sends}
        """Entries that were published in a transaction."""
        self.topics = {step.topic for step in sends}
        """Topics with entries that were published in a transaction."""
        self.acked = {
            position_of(one)
            for step in inside
            if step.name == "ACK" and step.frame is not None
            for one in step.frame.command.ack.message_id
        }
        """Captured ids of entries that were acknowledged in a transaction."""
        self.refused = any(one.frame is not None and is_refusal(one.frame) for one in outcomes)
        """Whether the live broker refused a command because transactions are disabled."""


def _is_inside(frame: Frame) -> bool:
    """Return whether a SEND or ACK belongs to a transaction."""
    if frame.type not in _INSIDE:
        return False
    metadata = frame.metadata
    in_metadata = metadata is not None and metadata.HasField("txnid_least_bits")
    return in_metadata or bool(frame.body.HasField("txnid_least_bits"))


def is_refusal(frame: Frame) -> bool:
    """Return whether an ERROR, SEND_ERROR or ACK_RESPONSE reports that transactions are disabled."""
    command = frame.command
    return any(
        body.error == pb.NotAllowedError and body.message in _REFUSALS
        for body in (command.error, command.send_error, command.ackResponse)
    )
