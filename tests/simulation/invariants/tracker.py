"""Invariant of the observation of captures (pcli.codec.observe.tracking)."""

from __future__ import annotations

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

__all__ = ["FrameTracker", "tracker_has_the_state_of_the_broker"]

_REDELIVER = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number


class FrameTracker:
    """A Tracker of all frames at the broker."""

    def __init__(self) -> None:
        self.tracker = Tracker()
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

    def ended(self, stream: Stream, time_ns: int, *, from_client: bool) -> None:
        """Process the end of a connection."""
        self._observer.close(stream.number)
        self.tracker.ended(StreamEnd(stream, 0, time_ns, from_client, reset=False, refused=False, silent=False))


def tracker_has_the_state_of_the_broker(run: Run) -> Iterator[Violation]:
    """After every turn, the Tracker has the permits and the unacknowledged messages of each consumer in the turn.

    Permits include those that the broker stores while the consumer is blocked (Consumer.java). The unacknowledged
    messages of a subscription that transactions use depend on the order of the broker's threads and are not compared.
    Nor is a connection after a REDELIVER_UNACKNOWLEDGED_MESSAGES that arrives while the broker holds messages for it:
    no capture shows which of them the command returns.
    """
    observed: FrameTracker | None = run.observed
    if observed is None:
        return
    redelivered, observed.redelivered = observed.redelivered, set()
    if held := run.network.held:
        observed.crossed |= redelivered & {connection.client_socket.number for _, connection, _, _ in held}
        return
    changed, observed.changed = observed.changed, set()
    for number in changed - observed.crossed:
        if not run.network.links[number].broker_open:
            continue
        connection = run.network.links[number].broker_connection
        for consumer in connection.consumers.values():
            attached = observed.tracker.subscriptions.attached(number, consumer.id)
            name = f"consumer {consumer.id} ({consumer.name}) of connection {number}"
            wrong = _difference(consumer, attached)
            if wrong and (name, wrong[0]) not in run.tracker_differences:
                run.tracker_differences.add((name, wrong[0]))
                text = (
                    f"turn {run.history.turn}: {name}: {wrong[0]}: {wrong[1]} in the Tracker, {wrong[2]} in the broker"
                )
                yield Violation("tracker_has_the_state_of_the_broker", run.history.step, text)


def _difference(consumer: Any, attached: Any) -> tuple[str, object, object] | None:
    """Return the first difference: the figure, its value in the Tracker, and its value in the broker; or None."""
    if attached is None or not attached.ready:
        return "attached", False, True
    permits = consumer.permits + consumer.permits_while_blocked
    if attached.record.permits.balance != permits:
        return "permits", attached.record.permits.balance, permits
    if consumer.individual and not consumer.subscription.used_by_transactions:
        unacked = attached.record.unacked + attached.unacked_offset
        if unacked != consumer.unacked:
            return "unacknowledged messages", unacked, consumer.unacked
    return None
