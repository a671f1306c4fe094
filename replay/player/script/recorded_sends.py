"""SENDs of a capture with their responses, paired in order by connection, producer id and sequence id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pcli.codec.wire.message_id import signed
from pcli.replay.player.id_translation import Place, place_of

if TYPE_CHECKING:
    from pcli.replay.player.script.script import Line

__all__ = ["answers_to_sends", "stored", "without_highest"]


def answers_to_sends(lines: Iterable[Line]) -> dict[Line, Line]:
    """Return each SEND that has a response, with its SEND_RECEIPT or SEND_ERROR."""
    waiting: dict[tuple[int, int, int], list[Line]] = {}
    found: dict[Line, Line] = {}
    for line in lines:
        if line.frame is None:
            continue
        command = line.frame.command
        if line.name == "SEND":
            key = line.part, command.send.producer_id, command.send.sequence_id
            waiting.setdefault(key, []).append(line)
        elif line.name in ("SEND_RECEIPT", "SEND_ERROR"):
            body = command.send_receipt if line.name == "SEND_RECEIPT" else command.send_error
            queue = waiting.get((line.part, body.producer_id, body.sequence_id))
            if queue:
                found[queue.pop(0)] = line
    return found


def stored(lines: Iterable[Line]) -> Iterator[tuple[Line, Line, Place]]:
    """Yield each SEND that has a receipt, the receipt, and the ledger and entry id in it."""
    for send, answer in answers_to_sends(lines).items():
        if answer.name == "SEND_RECEIPT" and answer.frame is not None:
            yield send, answer, place_of(answer.frame.command.send_receipt.message_id)


def without_highest(lines: Iterable[Line]) -> set[Line]:
    """Return the receipts whose highest sequence id is undefined: their SEND has none, or one below its sequence id.

    ServerCnx.handleSend then passes none to MessagePublishContext (Producer.java). If netty's Recycler reuses the
    object, the receipt contains -1, else 0.
    """
    receipts, named = [], set()
    for line in lines:
        if line.frame is not None and line.name == "SEND":
            send = line.frame.command.send
            if send.HasField("highest_sequence_id") and signed(send.highest_sequence_id) >= signed(send.sequence_id):
                named.add((line.part, send.producer_id, send.sequence_id))
        elif line.frame is not None and line.name == "SEND_RECEIPT":
            receipts.append((line, line.frame.command.send_receipt))
    return {line for line, body in receipts if (line.part, body.producer_id, body.sequence_id) not in named}
