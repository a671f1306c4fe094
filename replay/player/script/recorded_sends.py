"""SENDs of a capture and what answered them: pairs by connection, producer and sequence id, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pcli.codec.wire.message_id import signed
from pcli.replay.player.id_translation import Place, place_of

if TYPE_CHECKING:
    from pcli.replay.player.script.script import Line

__all__ = ["answers_to_sends", "stored", "without_highest"]


def answers_to_sends(lines: Iterable[Line]) -> dict[Line, Line]:
    """Each SEND that was answered, and its SEND_RECEIPT or SEND_ERROR."""
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
    """Each SEND that has a receipt, that receipt, and where it was stored."""
    for send, answer in answers_to_sends(lines).items():
        if answer.name == "SEND_RECEIPT" and answer.frame is not None:
            yield send, answer, place_of(answer.frame.command.send_receipt.message_id)


def without_highest(lines: Iterable[Line]) -> set[Line]:
    """Receipts of SENDs that named no highest sequence id, or one below the first: theirs means nothing.

    ServerCnx.handleSend then gives none to MessagePublishContext (Producer.java), which netty's Recycler may have used
    before: the receipt tells 0 of a new one, -1 of a used one.
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
