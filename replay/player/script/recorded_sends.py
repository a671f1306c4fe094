"""SENDs of a capture with their responses, paired in order by connection, producer id and sequence id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pcli.codec.wire.message_id import signed
from pcli.replay.player.id_translation import Position, position_of

if TYPE_CHECKING:
    from pcli.replay.player.script.script import Step

__all__ = ["responses_to_sends", "stored", "without_highest"]


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
