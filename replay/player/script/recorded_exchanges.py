"""The SENDs and the transactional commands of a capture, with their responses.

SENDs are paired with their responses in order by connection, producer id and sequence id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.replay.player.id_translation import Position, position_of

if TYPE_CHECKING:
    from pcli.replay.player.comparison.compare_responses import Outcome
    from pcli.replay.player.script.script import Script, Step


def responses_to_sends(steps: Iterable[Step]) -> dict[Step, Step]:
    """Return each SEND that has a response, with its SEND_RECEIPT or SEND_ERROR."""
    waiting: dict[tuple[int, int, int], list[Step]] = {}
    found: dict[Step, Step] = {}
    for step in steps:
        if step.frame is None:
            continue
        command = step.frame.command
        if step.name == "SEND":
            key = step.stream, command.send.producer_id, command.send.sequence_id
            waiting.setdefault(key, []).append(step)
        elif step.name in ("SEND_RECEIPT", "SEND_ERROR"):
            body = command.send_receipt if step.name == "SEND_RECEIPT" else command.send_error
            queue = waiting.get((step.stream, body.producer_id, body.sequence_id))
            if queue:
                found[queue.pop(0)] = step
    return found


def stored(steps: Iterable[Step]) -> Iterator[tuple[Step, Step, Position]]:
    """Yield each SEND that has a receipt, the receipt, and the receipt's ledger and entry id."""
    for send, response in responses_to_sends(steps).items():
        if response.name == "SEND_RECEIPT" and response.frame is not None:
            yield send, response, position_of(response.frame.command.send_receipt.message_id)


def without_highest(steps: Iterable[Step]) -> set[Step]:
    """Return the receipts whose highest sequence id is undefined.

    The SEND has no highest id, or its highest id is below its sequence id. ServerCnx.handleSend then passes no highest
    id to MessagePublishContext (Producer.java). The receipt contains -1 if netty's Recycler reuses the object, or else
    0.
    """
    receipts, named = [], set()
    for step in steps:
        if step.frame is not None and step.name == "SEND":
            send = step.frame.command.send
            if send.HasField("highest_sequence_id") and signed(send.highest_sequence_id) >= signed(send.sequence_id):
                named.add((step.stream, send.producer_id, send.sequence_id))
        elif step.frame is not None and step.name == "SEND_RECEIPT":
            receipts.append((step, step.frame.command.send_receipt))
    return {step for step, body in receipts if (step.stream, body.producer_id, body.sequence_id) not in named}


_INSIDE: Final = frozenset(BY_NAME[name].number for name in ("SEND", "ACK"))
_REFUSALS: Final = (
    "Transactions are not enabled.",
    "Transaction buffer disable!",
    "org.apache.pulsar.broker.service.BrokerServiceException$NotAllowedException: "
    "Server don't support transaction ack!",
)
"""Errors of a broker without transactions (classes ServerCnx, TransactionBufferDisable and Consumer)."""
_NO_COORDINATORS: Final = "Transaction coordinator not ready"
"""The error of a watch on coordinators."""


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
    """Return whether a response reports that transactions are disabled."""
    command = frame.command
    if command.HasField("watchTcAssignmentsUpdate"):
        return command.watchTcAssignmentsUpdate.message == _NO_COORDINATORS
    return any(
        body.error == pb.NotAllowedError and body.message in _REFUSALS
        for body in (command.error, command.send_error, command.ackResponse)
    )
