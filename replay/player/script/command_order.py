"""Reordering of concurrent steps to the order in which the captured broker processed them.

Rules of this file
1. A capture shows the packet order at one point of the network. If commands of two connections were sent within a few
   milliseconds, the broker may have processed them in the opposite order; its responses show the real order. Only steps
   of different connections are exchanged, and no step is moved before a step that it may depend on.
2. SENDs to one topic were stored in the order of the message ids in their receipts.
3. If two connections stored consecutive entries, the receipt of the first entry is placed before the SEND of the second
   entry. The player then waits for this receipt, because the timing of a live broker differs.
4. If a subscription starts at the latest message and received an entry whose SEND was in flight during the SUBSCRIBE,
   the subscription was created before the entry was stored. Its SUCCESS is placed before the SEND.
5. Consumers that share a segment get its entry buckets in the order in which they were added. If two were added at the
   same time, the consumer that received the lower entry hashes was first. Its SUCCESS is placed before the other
   SUBSCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.scalable import key_hashes
from pcli.codec.scalable.segment_name import HASHES
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.texts import as_text
from pcli.replay.player.id_translation import Position, position_of
from pcli.replay.player.script.recorded_exchanges import stored

if TYPE_CHECKING:
    from pcli.replay.player.script.script import Step


def in_order_of_effects(steps: list[Step]) -> list[Step]:
    """Return the steps in processing order."""
    ordered = list(steps)
    sharing = list(_crossed_sharing(steps))
    exchanged = ((second, first, response) for first, _, second, response in sharing if first.time_ms > second.time_ms)
    for earlier, later, response in [*_crossed_sends(steps), *_crossed_subscribes(steps), *exchanged]:
        _move(ordered, earlier, later, response)
    positions = {step: position for position, step in enumerate(ordered)}
    shared_first = ((response, second) for _, response, second, _ in sharing)
    for response, step in [*_receipts_first(steps), *_successes_first(steps), *shared_first]:
        if positions[response] > positions[step]:  # most steps are in order; the check saves a linear search
            _put_before(ordered, response, step)
    return ordered


def _put_before(steps: list[Step], response: Step, step: Step) -> None:
    """Move a response before a step, after the earlier responses of its type and connection."""
    start, end = steps.index(step), steps.index(response) + 1
    block = [one for one in steps[start:end] if one.stream == response.stream and one.name == response.name]
    if start < end - 1:
        steps[start:end] = [*block, *(one for one in steps[start:end] if one not in block)]


def _move(steps: list[Step], earlier: Step, later: Step, response: Step) -> None:
    """Exchange two steps of different connections.

    The later step is moved forward unless there is a step of its connection in between. Otherwise the earlier step is
    moved back, unless a command of its client or its response is in between.
    """
    start, end = steps.index(earlier), steps.index(later)
    if start >= end:
        return
    between = steps[start + 1 : end]
    if all(step.stream != later.stream for step in between):
        steps.insert(start, steps.pop(end))
    elif all(step.stream != earlier.stream or not step.from_client for step in between) and response not in between:
        steps.insert(end, steps.pop(start))


def _neighbours(steps: list[Step]) -> Iterator[tuple[Step, Step, Step, Step]]:
    """Yield SENDs of two connections that were stored consecutively on a topic, each with its receipt."""
    topics: dict[str, list[tuple[Position, Step, Step]]] = {}
    for send, receipt, position in stored(steps):
        if position[0] >= 0:
            topics.setdefault(send.topic, []).append((position, send, receipt))
    for found in topics.values():
        found.sort(key=lambda one: one[0])
        for (_, first, one), (_, second, other) in pairwise(found):
            if first.stream != second.stream:
                yield first, one, second, other


def _crossed_sends(steps: list[Step]) -> Iterator[tuple[Step, Step, Step]]:
    """Yield pairs of SENDs to one topic if the later SEND was stored first, and the receipt of the earlier SEND."""
    for first, _, second, response in _neighbours(steps):
        if first.time_ms > second.time_ms:
            yield second, first, response


def _receipts_first(steps: list[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield each receipt, and the SEND of a different connection that was stored next."""
    for _, receipt, second, _ in _neighbours(steps):
        yield receipt, second


def _successes_first(steps: list[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield the response to each SUBSCRIBE in rule 4, and the SEND before which it is placed."""
    responses = {step.request.number: step for step in steps if step.request is not None}
    for send, subscribe, _ in _crossed_subscribes(steps):
        response = responses.get(subscribe.frame.number) if subscribe.frame is not None else None
        if response is not None:
            yield response, send


def _crossed_subscribes(steps: list[Step]) -> Iterator[tuple[Step, Step, Step]]:
    """Yield each SEND that was in flight during a SUBSCRIBE that received its entry, the SUBSCRIBE, and the receipt."""
    got = {
        (step.topic, step.peer.subscription, position_of(step.frame.command.message.message_id))
        for step in steps
        if step.name == "MESSAGE" and step.frame is not None and isinstance(step.peer, Consumer)
    }
    sends = list(stored(steps))
    for step in steps:
        if step.name != "SUBSCRIBE" or step.frame is None or not isinstance(step.peer, Consumer):
            continue
        if step.frame.command.subscribe.initialPosition == pb.CommandSubscribe.Latest:
            for send, receipt, position in sends:
                under_way = send.time_ms < step.time_ms < receipt.time_ms and send.stream != step.stream
                if under_way and send.topic == step.topic and (step.topic, step.peer.subscription, position) in got:
                    yield send, step, receipt


def _crossed_sharing(steps: list[Step]) -> Iterator[tuple[Step, Step, Step, Step]]:
    """Yield SUBSCRIBEs of two consumers that were added to a segment at the same time, in order, with the responses."""
    responses = {step.request.number: step for step in steps if step.request is not None and step.name == "SUCCESS"}
    hashes: dict[Consumer, int] = {}
    found: dict[tuple[str, str], list[tuple[Step, Step, Consumer]]] = {}
    for step in steps:
        if step.frame is None or not isinstance(step.peer, Consumer):
            continue
        if step.name == "MESSAGE":
            hashes[step.peer] = min(_entry_hash(step.frame), hashes.get(step.peer, HASHES))
        elif step.name == "SUBSCRIBE" and step.frame.command.subscribe.keySharedMeta.entry_bucket_dispatch:
            response = responses.get(step.frame.number)
            if response is not None:
                found.setdefault((step.peer.topic, step.peer.subscription), []).append((step, response, step.peer))
    for added in found.values():
        for one, other in combinations(added, 2):
            if other[0].time_ms < one[1].time_ms and one[2] in hashes and other[2] in hashes:
                first, second = sorted((one, other), key=lambda found: hashes[found[2]])
                yield first[0], first[1], second[0], second[1]


def _entry_hash(frame: Frame) -> int:
    metadata = frame.metadata
    if metadata is None:
        return HASHES
    if metadata.HasField("entry_hash_min"):
        return metadata.entry_hash_min
    return key_hashes(as_text(metadata.partition_key).encode())[1]
