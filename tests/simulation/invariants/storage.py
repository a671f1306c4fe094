"""Invariants of what producers are told and what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.violation import Violation, at

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import signed

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import History, WireFrame
    from simulation.sessions import ProducerSession


def block_of(frame: WireFrame) -> bytes:
    """Return the entry in a SEND: the bytes after the command."""
    return bytes(frame.frame.data[frame.frame.parts.command_end :])


def every_receipt_is_a_stored_message(run: Run) -> Iterator[Violation]:
    """A SEND_RECEIPT is sent after its entry is stored, and names it; the entry has the bytes of the SEND.

    A receipt with the id -1:-1 belongs to a duplicate; the message of an exact producer is then stored. Other producers
    can lose messages with deduplication, because a batch that overlaps an earlier one is dropped
    (broker-semantics.md, 3.3 and 3.4). A producer that is closed gets no receipts.
    """
    name, history = "every_receipt_is_a_stored_message", run.history
    for frame in history.frames:
        if frame.name == "SEND_RECEIPT" and frame.session is None:
            yield at(name, frame, f"connection {frame.link}: the producer {frame.body.producer_id} is closed")
    texts = {(entry.topic, text) for entry in history.entries() for text in entry.contents.texts}
    for session in history.producers:
        if not session.is_persistent:
            continue
        sends: dict[int, list[WireFrame]] = {}
        for frame in session.frames:
            if frame.name == "SEND":
                sends.setdefault(frame.body.sequence_id, []).append(frame)
            elif frame.name == "SEND_RECEIPT":
                place = frame.body.message_id
                position = signed(place.ledgerId), signed(place.entryId)
                run.checks[name] += 1
                waiting = sends.get(frame.body.sequence_id)
                if not waiting:
                    yield at(name, frame, f"{session}: no SEND {frame.body.sequence_id} waits for a receipt")
                    continue
                sent = waiting.pop(0)
                stored = history.by_position.get(position)
                if position == (-1, -1):
                    assert sent.contents is not None
                    lost = [text for text in sent.contents.texts if (session.topic, text) not in texts]
                    if lost and session.name.startswith("exact"):
                        yield at(name, frame, f"{session}: the receipt of a duplicate, but the message is not stored")
                elif stored is None or stored.topic != session.topic:
                    yield at(name, frame, f"{session}: {position} is not an entry of the topic")
                elif stored.data != block_of(sent):
                    yield at(name, frame, f"{session}: the entry {position} has other bytes than the SEND")
                elif stored.turn > frame.turn:
                    yield at(name, frame, f"{session}: the receipt was sent before the entry {position} was stored")


def deduplicated_messages_are_stored_once(run: Run) -> Iterator[Violation]:
    """A message that an exact producer sends several times with one sequence id is stored once (MessageDeduplication).

    Deduplication is enabled on the topics of these producers before they start (broker-semantics.md, 3.4). Each segment
    of a scalable topic has its own sequence ids.
    """
    exact = {number for number, producer in run.producers.items() if producer.exact}
    counts: Counter[tuple[str, bytes]] = Counter()
    for entry in run.history.entries():
        for text in entry.contents.texts:
            number = text.partition(b".")[0]
            if number.isdigit() and int(number) in exact:
                counts[entry.topic, text] += 1
                run.checks["deduplicated_messages_are_stored_once"] += 1
                if counts[entry.topic, text] == 2:
                    place = f"{entry.position} of {entry.topic}"
                    yield Violation(
                        "deduplicated_messages_are_stored_once",
                        run.history.step,
                        f"{text!r} is stored again at {place}",
                    )


def fenced_producers_never_write(run: Run) -> Iterator[Violation]:
    """While a producer has exclusive access, no other producer of the topic gets a receipt.

    The access ends when the producer ends or another producer fences it. A PRODUCER with ExclusiveWithFencing closes
    the others even if it is then refused because of its epoch. A producer whose PRODUCER waits for a liveness check
    when the access begins is admitted after the check, and the access ends with it (broker-semantics.md, 3.2;
    AbstractTopic.tryOverwriteOldProducer, handleProducerRemoved).
    """
    history, name = run.history, "fenced_producers_never_write"
    for holder in [one for one in history.producers if one.access != "Shared"]:
        first, last = holder.response, _end_of_access(history, holder)
        for other in history.producers:
            if other is holder or other.topic != holder.topic:
                continue
            for frame in other.frames:
                inside = first.index < frame.index and (last is None or frame.index < last.index)
                run.checks[name] += inside and frame.name == "SEND"
                if inside and frame.name == "SEND_RECEIPT":
                    text = f"{other}: a receipt, although {holder} has exclusive access since frame {first.index}"
                    yield at(name, frame, text)
                    break
        sent = {block_of(frame) for frame in holder.frames if frame.name == "SEND"}
        for entry in history.stored.get(holder.topic, ()):
            inside = first.turn < entry.turn and (last is None or entry.turn < last.turn)
            if not inside or entry.contents.marker:
                continue
            run.checks[name] += 1
            if entry.data not in sent:
                text = f"{entry.position} is stored, although {holder} has exclusive access since frame {first.index}"
                yield Violation(name, history.step, text)
                break


def _end_of_access(history: History, holder: ProducerSession) -> WireFrame | None:
    """Return the frame with which the exclusive access of a producer ends, or None."""
    first, ends = holder.response.index, [] if holder.ended is None else [holder.ended]
    for one in history.producers:
        is_later = one.topic == holder.topic and one.response.index > first
        if is_later and (one.access != "Shared" or one.request.index < first):
            ends.append(one.response)
    for frame in history.frames:
        is_later = frame.name == "PRODUCER" and frame.index > first and frame.body.topic == holder.topic
        if is_later and frame.body.producer_access_mode == pb.ExclusiveWithFencing:
            ends.append(frame)
    return min(ends, key=lambda frame: frame.index, default=None)
