"""Invariants of order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.subscription_replay import SubscriptionReplay, TransactionEnds
from simulation.invariants.violation import Violation, at
from simulation.scalable_step_kinds import is_scalable

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import StoredEntry, WireFrame
    from simulation.sessions import ConsumerSession, SubscriptionLog


def producers_are_in_order(run: Run) -> Iterator[Violation]:
    """On Exclusive and Failover, a consumer receives the entries in the order of storage, without a gap.

    The messages of a producer are stored in the order in which it first sent them. A consumer starts at the first
    unacknowledged entry; REDELIVER and a new active consumer return to it (PersistentDispatcherSingleActiveConsumer).
    """
    yield from _storage_order(run)
    ends = TransactionEnds(run.history)
    for log in run.history.subscriptions:
        if log.is_persistent and log.durable:
            yield from _first_disorder(run, log, ends)


def _storage_order(run: Run) -> Iterator[Violation]:
    """Yield the first message of each producer that is stored before an earlier message of the producer.

    A producer with the KEY_BASED batcher sends the messages of each key in order, and so does a producer of a scalable
    topic. Its messages without a key are in no order.
    """
    scalable = is_scalable(run.plan)
    last: dict[tuple[str, int, str], int] = {}
    seen: set[tuple[str, bytes]] = set()
    for entry in run.history.entries():
        for text, message_key in zip(entry.contents.texts, entry.contents.keys):
            number, _, index = text.partition(b".")
            if not number.isdigit() or (entry.topic, text) in seen:
                continue
            run.checks["producers_are_in_order"] += 1
            seen.add((entry.topic, text))
            if scalable and not message_key:
                continue
            by_key = scalable or run.producers[int(number)].step["batcher"] != "DEFAULT"
            key = entry.topic, int(number), message_key if by_key else ""
            if int(index) < last.get(key, -1):
                text_of = f"{text!r} is stored at {entry.position} of {entry.topic} after message {last[key]}"
                yield Violation("producers_are_in_order", run.history.step, text_of)
                return
            last[key] = int(index)


def _first_disorder(run: Run, log: SubscriptionLog, ends: TransactionEnds) -> Iterator[Violation]:
    replay = SubscriptionReplay(run.history, log, ends)
    last: dict[ConsumerSession, int] = {}
    rewound: set[ConsumerSession] = set()
    for frame in replay.walk():
        session = frame.session
        if frame.name in ("REDELIVER_UNACKNOWLEDGED_MESSAGES", "ACTIVE_CONSUMER_CHANGE") and session is not None:
            rewound.add(session)
        if frame.name != "MESSAGE" or session.individual or frame.entry is None:
            continue
        run.checks["producers_are_in_order"] += 1
        offset, before = frame.entry.offset, last.get(session, -1)
        free = session in rewound or session not in last or bool(replay.in_transactions)
        if session.request.body.read_compacted:
            wrong = "" if offset > before or free else f"after the entry with offset {before}"
        else:
            continues = offset > before >= 0 and _gap(replay, before + 1, offset, frame) is None
            gap = None if continues else _gap(replay, replay.start, offset, frame)
            wrong = "" if continues or (free and gap is None) else _reason(before, gap)
        if wrong:
            yield at("producers_are_in_order", frame, f"{session}: {frame.entry.position} is delivered {wrong}")
            return
        last[session] = offset
        rewound.discard(session)


def _reason(before: int, gap: StoredEntry | None) -> str:
    return f"after offset {before}" if gap is None else f"before {gap.position}, which is not acknowledged"


def _gap(replay: SubscriptionReplay, first: int, end: int, frame: WireFrame) -> StoredEntry | None:
    """Return the first entry in a range that must be delivered before a frame and is not acknowledged, or None."""
    for offset in range(first, end):
        if not replay.is_acked(offset) and offset not in replay.in_transactions:
            entry = replay.entries[offset]
            if replay.is_readable(entry, frame.index):
                return entry
    return None


def keys_are_in_order(run: Run) -> Iterator[Violation]:
    """On Key_Shared, an entry is sent only if all earlier unacknowledged entries of its key are at the same consumer.

    This includes joins, leaves and draining slots (PIP-379). Entries with a delay or in a transaction, and consumers
    with allowOutOfOrderDelivery, are exempt.
    """
    ends, name = TransactionEnds(run.history), "keys_are_in_order"
    by_key: dict[tuple[str, str], list[StoredEntry]] = defaultdict(list)
    for entry in run.history.entries():
        if _is_ordered(entry):
            by_key[entry.topic, entry.contents.key].append(entry)
    for log in run.history.subscriptions:
        if not log.is_persistent or not log.durable or not any(one.type == "Key_Shared" for one in log.sessions):
            continue
        replay = SubscriptionReplay(run.history, log, ends)
        for frame in replay.walk():
            session, entry = frame.session, frame.entry
            if frame.name != "MESSAGE" or entry is None or session.type != "Key_Shared":
                continue
            if not _is_ordered(entry) or session.request.body.keySharedMeta.allowOutOfOrderDelivery:
                run.exempt[name] += 1
                continue
            run.checks[name] += len(replay.attached) > 1
            for earlier in by_key[log.topic, entry.contents.key]:
                if earlier.offset >= entry.offset:
                    break
                if replay.is_acked(earlier.offset) or earlier.offset in replay.in_transactions:
                    continue
                if replay.pending.get(earlier.offset) is not session:
                    holder = replay.pending.get(earlier.offset)
                    text = (
                        f"{session}: {entry.position} overtakes {earlier.position} of the same key, which {holder} has"
                    )
                    yield at(name, frame, text)
                    return


def _is_ordered(entry: StoredEntry) -> bool:
    contents = entry.contents
    return bool(contents.key) and not contents.deliver_at and contents.transaction is None


def one_consumer_is_active(run: Run) -> Iterator[Violation]:
    """An Exclusive subscription has one consumer. On Failover only the active consumer receives messages.

    The broker sends ACTIVE_CONSUMER_CHANGE when the active consumer of a persistent topic changes
    (broker-semantics.md, 6.2).
    """
    name = "one_consumer_is_active"
    for log in run.history.subscriptions:
        if not log.is_persistent:
            continue
        attached: list[ConsumerSession] = []
        active: ConsumerSession | None = None
        for frame in log.frames:
            session = frame.session
            if frame.name == "SUCCESS" and session is not None:
                others = [one for one in attached if one.ended is None or one.ended.turn > frame.turn]
                if session.type == "Exclusive" and others:
                    yield at(name, frame, f"{session} attaches although {others[0]} is attached")
                    return
                attached.append(session)
            elif frame.name == "ACTIVE_CONSUMER_CHANGE" and session is not None:
                if frame.body.is_active:
                    active = session
                elif active is session:
                    active = None
            elif frame.name == "MESSAGE" and session.type == "Failover":
                run.checks[name] += len(attached) > 1
                if session is not active:
                    yield at(name, frame, f"{session} is not the active consumer; {active} is")
                    return
            for ended in log.closings.get(frame.index, ()):
                attached.remove(ended)
                active = None if active is ended else active
