"""Comparison of captured and live responses field by field, after live ids have been mapped back to captured ids.

Rules of this file
1. All protocol content is compared: the fields of the command, whether they are set, and the entry after the command.
   This module reports all differences; rules (rules.py) explain the allowed differences.
2. An id differs if the live id is not mapped to the captured id (id_translation.py).
3. The highest sequence id of a receipt is compared if the SEND has a highest sequence id. Otherwise 0 and -1 are equal,
   because both mean that there is no highest sequence id (recorded_exchanges.py).
4. The deliveries to a consumer are compared in order, and on Key_Shared subscriptions by key. A delivery differs in the
   field ``order`` if it arrived after a delivery that follows it in the capture. Missing deliveries do not affect other
   deliveries. In a Shared subscription, the order of delayed and redelivered messages is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.texts import as_text
from pcli.replay.player.id_translation import Ids, position_of
from pcli.replay.player.response_matching import Pair, ResponseMatcher
from pcli.replay.player.script.script import Step

MISSING: Final = "missing"
EXTRA: Final = "extra"
_TRANSACTION: Final = ("txnid_least_bits", "txnid_most_bits")
_LISTS: Final = {"segments": "segment_id", "segment_brokers": "segment_id", "assignments": "tc_id"}
"""Fields with messages that have an id, and the field that contains the id."""
_MESSAGE: Final = BY_NAME["MESSAGE"].number


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs."""

    field: str
    """The path in the command (``metadata``), or ``missing``, ``extra``, ``type``, ``order`` or ``consumer``."""
    captured: Any
    live: Any


@dataclass(slots=True)
class Outcome:
    """A captured response, or a live response without a captured counterpart, and the differences."""

    pair: Pair
    differences: list[Difference]
    rules: dict[str, str]
    """The rule that explains each difference, by field."""

    @property
    def step(self) -> Step | None:
        """The captured response, or None."""
        return self.pair.step

    @property
    def frame(self) -> Frame | None:
        """The live response, or None."""
        return self.pair.frame

    @property
    def stream(self) -> int:
        """The number of the connection in the script."""
        return self.pair.step.stream if self.pair.step is not None else self.pair.stream

    @property
    def name(self) -> str:
        """The name of the captured command, or of the live command if there is no captured command."""
        if self.pair.step is not None:
            return self.pair.step.name
        return "END" if self.pair.frame is None else name_of(self.pair.frame.type)

    @property
    def unexplained(self) -> list[Difference]:
        """Differences that no rule explains."""
        return [one for one in self.differences if one.field not in self.rules]


def compare(matcher: ResponseMatcher, ids: Ids) -> list[Outcome]:
    """Return an outcome for each captured response in order, and then for each extra live response."""
    late = set(_overtaken(matcher.pairs))
    found = []
    for pair in matcher.pairs:
        differences = list(_differences(pair, ids, pair.order in late))
        if pair.step in matcher.without_highest_id:
            differences = [one for one in differences if not _is_nothing(one)]
        found.append(Outcome(pair, differences, {}))
    for step in matcher.missing():
        pair = Pair(step, step.stream, None, step.index, -1, None)
        found.append(Outcome(pair, [Difference(MISSING, step.name, None)], {}))
    return sorted(found, key=_position)


def _is_nothing(difference: Difference) -> bool:
    return difference.field == "highest_sequence_id" and {difference.captured, difference.live} == {0, MINUS_ONE}


def _position(outcome: Outcome) -> tuple[bool, int]:
    step = outcome.step
    return (True, outcome.pair.order) if step is None else (False, step.index)


def _overtaken(pairs: list[Pair]) -> Iterator[int]:
    """Yield, per consumer, the numbers of live deliveries that arrived after a delivery that follows in the capture."""
    furthest: dict[tuple[int, int, bytes], int] = {}
    for pair in pairs:
        step = pair.step
        if step is None or step.type != _MESSAGE or pair.frame is None:
            continue
        key = pair.stream, pair.frame.command.message.consumer_id, _order_key(pair)
        if step.stream != pair.stream or step.peer is not pair.consumer or _has_no_order(pair.consumer, pair.frame):
            continue
        if step.index < furthest.get(key, -1):
            yield pair.order
        furthest[key] = max(step.index, furthest.get(key, -1))


def _has_no_order(consumer: Consumer | None, frame: Frame) -> bool:
    """Return whether an entry of a Shared subscription is delayed or redelivered."""
    metadata = frame.metadata
    delayed = metadata is not None and metadata.HasField("deliver_at_time")
    return (
        consumer is not None and consumer.type == "Shared" and (delayed or frame.command.message.redelivery_count > 0)
    )


def _order_key(pair: Pair) -> bytes:
    """Return the key for which Key_Shared preserves the order, or no bytes for other subscription types."""
    metadata = pair.frame.metadata if pair.frame is not None else None
    if metadata is None or pair.consumer is None or pair.consumer.type != "Key_Shared":
        return b""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    # Damaged metadata may contain a key that is not valid UTF-8.
    return f"{metadata.partition_key or (metadata.producer_name, metadata.sequence_id)}".encode()


def _differences(pair: Pair, ids: Ids, overtaken: bool) -> Iterator[Difference]:
    step, live = pair.step, pair.frame
    if step is None:
        yield Difference(EXTRA, None, "END" if live is None else name_of(live.type))
        return
    if step.frame is None or live is None:
        return
    if step.type != live.type:
        yield Difference("type", step.name, name_of(live.type))
        return
    if live.body is not None:
        yield from _of_bodies("", step.frame.body, live.body, ids)
    elif step.frame.data != live.data:
        yield Difference("data", step.frame.data.hex(), live.data.hex())
    yield from _of_entries(step.frame, live, ids)
    if live.type == _MESSAGE and (step.stream != pair.stream or step.peer is not pair.consumer):
        yield Difference("consumer", getattr(step.peer, "name", ""), getattr(pair.consumer, "name", ""))
    if overtaken:
        yield Difference("order", step.index, "later")


def _of_entries(captured: Frame, live: Frame, ids: Ids) -> Iterator[Difference]:
    if captured.metadata is None and live.metadata is None:
        return
    if captured.data[captured.parts.checked_start :] != ids.content(live):
        yield Difference("entry", captured.metadata, live.metadata)
    if captured.checksum != live.checksum:
        yield Difference("checksum", captured.checksum, live.checksum)
    mine, theirs = captured.broker_entry, live.broker_entry
    if (mine is None) != (theirs is None):
        yield Difference("broker_entry", mine, theirs)
    elif mine is not None:
        yield from _of_bodies("broker_entry.", mine, theirs, ids)


def _of_bodies(above: str, captured: Any, live: Any, ids: Ids) -> Iterator[Difference]:
    mine = {field.name: value for field, value in captured.ListFields()}
    theirs = {field.name: value for field, value in live.ListFields()}
    for name in sorted({**mine, **theirs}):
        one, other = mine.get(name), theirs.get(name)
        if isinstance(one, pb.MessageIdData) and isinstance(other, pb.MessageIdData):
            yield from _of_ids(above + name, one, other, ids)
        elif hasattr(one, "ListFields") and hasattr(other, "ListFields"):
            yield from _of_bodies(f"{above}{name}.", one, other, ids)
        elif name in _LISTS:
            yield from _of_lists(f"{above}{name}.", name, one or (), other or (), ids)
        elif name in _TRANSACTION:
            if name == _TRANSACTION[0] and not _same_transaction(captured, live, ids):
                yield Difference(above + name, one, other)
        elif not _same(name, one, other, ids):
            yield Difference(above + name, one, other)


def _of_lists(above: str, name: str, captured: Any, live: Any, ids: Ids) -> Iterator[Difference]:
    """Compare messages that have an id and no order."""
    mine, theirs = ({getattr(one, _LISTS[name]): one for one in side} for side in (captured, live))
    for key in sorted({**mine, **theirs}):
        if key in mine and key in theirs:
            yield from _of_bodies(f"{above}{key}.", mine[key], theirs[key], ids)
        else:
            yield Difference(f"{above}{key}", mine.get(key), theirs.get(key))


def _same_transaction(captured: Any, live: Any, ids: Ids) -> bool:
    mine, theirs = ((one.txnid_most_bits, one.txnid_least_bits) for one in (captured, live))
    return ids.transactions.get(mine, mine) == theirs


def _of_ids(path: str, captured: pb.MessageIdData, live: pb.MessageIdData, ids: Ids) -> Iterator[Difference]:
    mine, theirs = position_of(captured), position_of(live)
    rest = [(one.partition, one.batch_index, one.batch_size, list(one.ack_set)) for one in (captured, live)]
    if not ids.same_place(mine, theirs) or rest[0] != rest[1]:
        yield Difference(path, captured, live)


def _same(name: str, captured: Any, live: Any, ids: Ids) -> bool:
    if captured is None or live is None:
        return False
    if name == "producer_name":
        return bool(ids.names.get(captured, captured) == live)
    if name == "name":  # a schema's name is the topic's name without the domain
        return bool(ids.mapped.get(f"persistent://{live}", f"persistent://{live}") == f"persistent://{captured}")
    if name == "schema_version":
        return bool(ids.versions.get(captured, captured) == live)
    if name in ("resolved_topic_name", "segment_topic", "legacy_topic_name"):
        return bool(ids.topic(captured) == as_text(live))
    if isinstance(captured, (str, bytes, int, float, bool)):
        return bool(captured == live)
    if name in ("topics", "added", "removed"):  # scalable topics have no order in a snapshot
        return sorted(captured) == sorted(ids.captured_topics(live))
    if name in ("topics", "new_topics", "deleted_topics", "topic"):
        return list(captured) == list(ids.captured_topics(live))
    return list(captured) == list(live)
