"""Frames that are related to a frame: its request or response, the history of its message, the cause of a redelivery.

Rules of this file
1. The frames of a message are those of `pcli follow --message-id`. Only frames that the index selects are decoded.
2. The cause of a redelivery is, after the earlier delivery on the same subscription: a SEEK; a REDELIVER of the
   consumer, which both negative acknowledgements and timeouts send; the abort of a transaction with its
   acknowledgement; the CLOSE_CONSUMER; or the last frame of the connection that held the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from pcli.cli.browse.frame_index import CUMULATIVE, SEVERAL_IDS, Peer
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.codec.observe import Consumer, Facts, Producer, find_field, follow
from pcli.codec.proto import pb
from pcli.codec.wire import MessageId
from pcli.codec.wire.commands import BY_NAME

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_ACK: Final = BY_NAME["ACK"].number
_REDELIVER: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number
_SEEK: Final = BY_NAME["SEEK"].number
_END_TXN: Final = BY_NAME["END_TXN"].number
_CLOSE: Final = BY_NAME["CLOSE_CONSUMER"].number
_SEND: Final = BY_NAME["SEND"].number


def counterpart(facts: Facts) -> int:
    """Return the number of the response to a request, or of the request of a response; 0 if there is none."""
    return facts.request_number or facts.answer_number


def message_of(frames: StoredFrames, facts: Facts) -> MessageId | None:
    """Return the first message id of a frame. The id of a SEND is in its receipt."""
    if facts.frame.type == _SEND and facts.answer_number:
        facts = frames.facts(facts.answer_number)
    value = find_field("pulsar.message_id").get(facts)
    text = value[0] if isinstance(value, list) and value else value
    found = MessageId.parse(text) if text else None
    return None if found is None or found.ledger < 0 else MessageId(found.ledger, found.entry)


def message_frames(frames: StoredFrames, message: MessageId) -> npt.NDArray[np.uint32]:
    """Return the numbers of the frames that send, store, deliver, acknowledge or redeliver a message."""
    columns = frames.index.columns
    ledgers, entries = columns["ledger"], columns["entry"]
    chosen = (ledgers == message.ledger) & (entries == message.entry)
    chosen |= ledgers == SEVERAL_IDS
    chosen |= (columns["flags"] & CUMULATIVE != 0) & (ledgers >= message.ledger)
    found = follow.about_message(_facts(frames, np.flatnonzero(chosen) + 1), message)
    return np.array(sorted(found), np.uint32)


def _facts(frames: StoredFrames, numbers: Iterable[int]) -> Iterator[Facts]:
    for number in numbers:
        yield frames.rebuilt(int(number), frames.index.row(int(number)))


def acks_of(frames: StoredFrames, facts: Facts) -> list[int]:
    """Return the frames that acknowledge the message of a MESSAGE, or that deliver the message of an ACK."""
    message = message_of(frames, facts)
    if message is None:
        return []
    wanted = _MESSAGE if facts.frame.type == _ACK else _ACK
    types = frames.index.columns["type"]
    return [int(number) for number in message_frames(frames, message) if types[number - 1] == wanted]


def peer_frames(frames: StoredFrames, facts: Facts) -> npt.NDArray[np.uint32]:
    """Return the frames of a frame's producer or consumer, on all connections if it has a name, or else on its own."""
    peer = facts.peer
    if peer is None:
        return np.empty(0, np.uint32)
    wanted = _identity(peer.topic, peer.name or peer.id, peer)
    columns = frames.index.columns
    same = [
        number
        for number, one in enumerate(frames.index.tables.peers)
        if one is not None and _identity(one.topic, one.name if peer.name else one.id, one) == wanted
    ]
    chosen = np.isin(columns["peer"], same)
    if not peer.name:
        chosen &= columns["stream"] == facts.frame.stream.number
    return (np.flatnonzero(chosen) + 1).astype(np.uint32)


def _identity(topic: str, name: str | int, peer: Consumer | Producer | Peer) -> tuple[object, ...]:
    consumer = peer.is_consumer if isinstance(peer, Peer) else isinstance(peer, Consumer)
    return consumer, topic, name, getattr(peer, "subscription", "")


def cause_of_redelivery(frames: StoredFrames, facts: Facts) -> tuple[int, str]:
    """Return the frame that caused the redelivery in a MESSAGE, and what it is; 0 and the reason if there is none."""
    peer, message = facts.peer, message_of(frames, facts)
    if facts.frame.type != _MESSAGE or message is None or not isinstance(peer, Consumer):
        return 0, "the frame is not a MESSAGE"
    if peer.topic.startswith("non-persistent://"):
        return 0, "a non-persistent topic does not redeliver messages"
    earlier = _last_delivery(frames, facts, message)
    if not earlier:
        return 0, "the capture contains no earlier delivery of this message on the subscription"
    number = _last_cause(frames, facts, message, earlier)
    if number:
        return number, ""
    end = _end_of_holder(frames, earlier, facts.frame.number)
    if end:
        return end, "the last frame of the connection that held the message"
    return earlier, "no cause in the capture: this is the earlier delivery"


def _last_delivery(frames: StoredFrames, facts: Facts, message: MessageId) -> int:
    """Return the previous MESSAGE with the message on the same subscription, or 0."""
    columns = frames.index.columns
    until = facts.frame.number - 1
    same = (columns["ledger"][:until] == message.ledger) & (columns["entry"][:until] == message.entry)
    same &= columns["type"][:until] == _MESSAGE
    for place in np.flatnonzero(same)[::-1]:
        if _same_subscription(frames, int(place) + 1, facts):
            return int(place) + 1
    return 0


def _same_subscription(frames: StoredFrames, number: int, facts: Facts) -> bool:
    one = frames.index.tables.peers[frames.index.row(number).peer]
    peer = facts.peer
    if one is None or not isinstance(peer, Consumer):
        return False
    if not peer.topic:
        return frames.index.row(number).stream == facts.frame.stream.number and one.id == peer.id
    return one.is_consumer and (one.topic, one.subscription) == (peer.topic, peer.subscription)


def _last_cause(frames: StoredFrames, facts: Facts, message: MessageId, earlier: int) -> int:
    """Return the last command between two deliveries that makes the broker deliver the message again, or 0.

    After a SEEK and an unload the broker closes the consumers, so a CLOSE_CONSUMER is the cause only if there is no
    other command.
    """
    types = frames.index.columns["type"][earlier : facts.frame.number - 1]
    closed = 0
    for place in np.flatnonzero(np.isin(types, (_REDELIVER, _SEEK, _CLOSE, _END_TXN)))[::-1]:
        number = earlier + int(place) + 1
        kind = int(types[place])
        if kind == _END_TXN:
            if _aborts_ack(frames, number, earlier, message):
                return number
        elif not _same_subscription(frames, number, facts):
            continue
        elif kind == _SEEK or (kind == _REDELIVER and _redelivers(frames, number, earlier, message)):
            return number
        elif kind == _CLOSE and not closed and _same_peer(frames, number, earlier):
            closed = number
    return closed


def _same_peer(frames: StoredFrames, number: int, other: int) -> bool:
    columns = frames.index.columns
    return all(columns[name][number - 1] == columns[name][other - 1] for name in ("stream", "peer"))


def _redelivers(frames: StoredFrames, number: int, earlier: int, message: MessageId) -> bool:
    """Whether a REDELIVER concerns a message.

    Without ids, or in a subscription with one active consumer, it concerns all messages of the consumer.
    """
    if not _same_peer(frames, number, earlier):
        return False
    facts = frames.rebuilt(number, frames.index.row(number))
    peer = facts.peer
    return (isinstance(peer, Consumer) and peer.type in ("Exclusive", "Failover")) or _covers(facts, message)


def _aborts_ack(frames: StoredFrames, number: int, earlier: int, message: MessageId) -> bool:
    """Whether an END_TXN aborts a transaction that acknowledged the message after its earlier delivery."""
    end = frames.rebuilt(number, frames.index.row(number)).frame.command.endTxn
    if end.txn_action != pb.ABORT:
        return False
    columns = frames.index.columns
    acks = (columns["type"][earlier:number] == _ACK) & (columns["ledger"][earlier:number] == SEVERAL_IDS)
    for place in np.flatnonzero(acks):
        ack = frames.rebuilt(earlier + int(place) + 1, frames.index.row(earlier + int(place) + 1))
        command = ack.frame.command.ack
        same = (command.txnid_most_bits, command.txnid_least_bits) == (end.txnid_most_bits, end.txnid_least_bits)
        if same and _covers(ack, message):
            return True
    return False


def _covers(facts: Facts, message: MessageId) -> bool:
    """Whether a command has no message ids, or the id of the message."""
    ids = find_field("pulsar.message_id").get(facts)
    if not ids:
        return True
    found = [MessageId.parse(one) for one in ids]
    return any((one.ledger, one.entry) == (message.ledger, message.entry) for one in found)


def _end_of_holder(frames: StoredFrames, earlier: int, until: int) -> int:
    """Return the last frame of the connection that held the message if it ended before the redelivery, or 0."""
    streams = frames.index.columns["stream"]
    own = np.flatnonzero(streams[earlier - 1 :] == streams[earlier - 1])
    last = earlier + int(own[-1])
    return last if earlier <= last < until else 0
