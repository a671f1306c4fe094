"""Invariant of the observation of captures (pcli.codec.observe.tracking)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from simulation.invariants.violation import Violation

from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.wire.commands import BY_NAME

if TYPE_CHECKING:
    from simulation.execution import Run

    from pcli.codec.capture.frames import CapturedFrame, Stream

_SUBSCRIBE = BY_NAME["SUBSCRIBE"].number
_REDELIVER = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number


class FrameTracker:
    """A Tracker of all frames at the broker."""

    def __init__(self) -> None:
        self.tracker = Tracker()
        self.consumer_ids: defaultdict[int, set[int]] = defaultdict(set)
        """The ids in the SUBSCRIBEs of each connection."""
        self.changed: set[int] = set()
        """The connections with frames since the last comparison."""
        self.redelivered: set[int] = set()
        """The connections with a REDELIVER_UNACKNOWLEDGED_MESSAGES in this turn."""
        self.crossed: set[int] = set()
        """The connections where this command passed messages that the broker had not sent yet."""
        self._observer = Observer()

    def see(self, frame: CapturedFrame) -> None:
        """Process a frame."""
        facts = self._observer.see(frame)
        self.tracker.see(facts)
        self.changed.add(frame.stream.number)
        if frame.type == _REDELIVER:
            self.redelivered.add(frame.stream.number)
        elif frame.type == _SUBSCRIBE:
            self.consumer_ids[frame.stream.number].add(frame.body.consumer_id)

    def ended(self, stream: Stream, time_ns: int, *, from_client: bool) -> None:
        """Process the end of a connection."""
        self._observer.close(stream.number)
        self.tracker.ended(StreamEnd(stream, 0, time_ns, from_client, reset=False, refused=False, silent=False))


def tracker_has_the_state_of_the_broker(run: Run) -> Iterator[Violation]:
    """After every turn, the Tracker has the consumers of each connection, with their permits and pending entries.

    Permits include those that the broker stores while the consumer is blocked (Consumer.java). The state is compared
    when no output is held. A connection is not compared any more after a REDELIVER_UNACKNOWLEDGED_MESSAGES that arrives
    while the broker holds messages for it: no capture shows which of them the command returns.
    """
    observed: FrameTracker | None = run.observed
    if observed is None:
        return
    name = "tracker_has_the_state_of_the_broker"
    redelivered, observed.redelivered = observed.redelivered, set()
    if held := run.network.held:
        observed.crossed |= redelivered & {connection.client_socket.number for _, connection, _, _ in held}
        return
    changed, observed.changed = observed.changed, set()
    run.exempt[name] += len(changed & observed.crossed)
    for number in changed - observed.crossed:
        if not run.network.links[number].broker_open:
            continue
        consumers = run.network.links[number].broker_connection.consumers
        run.checks[name] += len(consumers)
        for consumer_id in sorted(observed.consumer_ids[number] | consumers.keys()):
            attached = observed.tracker.subscriptions.attached(number, consumer_id)
            who = f"consumer {consumer_id} of connection {number}"
            wrong = _difference(consumers.get(consumer_id), attached)
            if wrong and (who, wrong[0]) not in run.tracker_differences:
                run.tracker_differences.add((who, wrong[0]))
                states = f"{wrong[1]} in the Tracker, {wrong[2]} in the broker"
                text = f"turn {run.history.turn}: {who}: {wrong[0]}: {states}"
                yield Violation(name, run.history.step, text)


def _difference(consumer: Any, attached: Any) -> tuple[str, object, object] | None:
    """Return the first difference: the figure, its value in the Tracker, and its value in the broker; or None."""
    is_attached = attached is not None and attached.ready
    if consumer is None or not is_attached:
        return None if consumer is None and not is_attached else ("attached", is_attached, consumer is not None)
    permits = consumer.permits + consumer.permits_while_blocked
    if attached.record.permits.balance != permits:
        return "permits", attached.record.permits.balance, permits
    return _unacked_difference(consumer, attached) if consumer.individual else None


def _unacked_difference(consumer: Any, attached: Any) -> tuple[str, object, object] | None:
    """Return the difference of the unacknowledged messages, in total and of each entry, or None."""
    ledger = consumer.subscription.topic.ledger
    unacked = attached.record.unacked
    if unacked != consumer.unacked:
        return "unacknowledged messages", unacked, consumer.unacked
    pending = {ledger.position(offset): count for offset, count in consumer.pending.items() if count}
    known = attached.subscription.pending_acks.items()
    held = {at: one.held for at, one in known if one.held and one.consumer is attached.record}
    for at in pending.keys() | held.keys() if pending != held else ():
        if pending.get(at) != held.get(at):
            return f"unacknowledged messages of the entry {at}", held.get(at), pending.get(at)
    return None
