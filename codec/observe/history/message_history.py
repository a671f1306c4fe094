"""The history of a message: the steps of its lifecycle, as in `pcli trace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pcli.codec.observe.history.event_log import Event, Log
from pcli.codec.observe.history.object_history import ObjectHistory, State
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.text_format import latency_text, short_topic
from pcli.codec.observe.tracking.message_timeline import Step, steps_of
from pcli.codec.observe.tracking.records.lifecycle import STATES, Lifecycle

_TEXTS: Final = {
    "sent": "{sender} sent it",
    "sent again": "{sender} sent it again",
    "receipt": "The broker stored it and sent the receipt",
    "refused": "The broker refused it",
    "delivered": "The broker delivered it to {receiver}",
    "asked again": "{sender} requested redelivery",
    "taken back": "The broker took it back from {receiver}",
    "acked": "{sender} acknowledged it",
    "ack answer": "The broker answered the ACK",
    "dead letter": "{sender} sent it to a dead letter topic",
}


class MessageHistory(ObjectHistory):
    """The history of one message, or of the messages of one entry."""

    kind = "message"

    def __init__(self, lifecycle: Lifecycle, times: Sequence[int], log: Log) -> None:
        """Create a history; ``times`` contains the time of each frame in ns, by number."""
        super().__init__(log)
        self._times = times
        self._lifecycles: list[Lifecycle] = []
        self._frames: set[int] = set()
        self.add(lifecycle)

    def add(self, lifecycle: Lifecycle) -> None:
        """Add a further lifecycle of the message."""
        self._lifecycles.append(lifecycle)
        self._frames |= {step.frame for step in steps_of(lifecycle)}

    @property
    def name(self) -> str:
        """The id of the message."""
        return self._lifecycles[0].id

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return "" if self._lifecycles[0].topic is None else self._lifecycles[0].topic.name

    def title(self) -> str:
        """Return the message with its topic, number of messages and key."""
        first = self._lifecycles[0]
        topic = short_topic(first.topic.name) if first.topic is not None else "an unknown topic"
        batch = f", a batch of {first.messages} messages" if first.batch else ""
        return f"message {self.name} on {topic}{batch}"

    def see(self, facts: Facts) -> None:
        """Ignore a frame: the lifecycle contains all frames."""

    def finish(self, now_ns: int) -> State:
        """Complete the history, and return the state of the message."""
        steps = [step for one in self._lifecycles for step in steps_of(one)]
        for number, step in enumerate(steps):
            time_ns = step.time_ns if step.time_ns >= 0 else self._times[step.frame]
            kind = "opened" if not number else "closed" if number == len(steps) - 1 else "step"
            self.log.add(Event(kind, time_ns, step.frame, _text(step)))
        last = self._lifecycles[-1]
        left = {name: count for name, count in last.unacked.items() if count}
        unacked = f" Not acknowledged by: {', '.join(sorted(left))}." if left else ""
        text = f"{last.state}: {STATES[last.state]}.{unacked}"
        return State(text, {"state": last.state, "unacked": left})

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return set().union(*(one.doubts for one in self._lifecycles))

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a finding concerns the message: it lists a frame of the message, or concerns its clients."""
        if self._frames.intersection(finding.frames):
            return ""
        for one in self._lifecycles:
            if record is one.producer and record is not None:
                return "its producer"
            for name, deliveries in one.deliveries.items():
                if record is one.subscription(name):
                    return "its subscription"
                if any(record is delivery.consumer for delivery in deliveries):
                    return "its consumer"
        return None


def _text(step: Step) -> str:
    names = {
        "sender": f"Producer {step.sender}" if step.what.startswith("sent") else step.sender or "broker",
        "receiver": step.receiver or "broker",
    }
    words = _TEXTS[step.what]
    for name, value in names.items():
        words = words.replace(f"{{{name}}}", value)
    after = f" {latency_text(step.after_ns)} later" if step.after_ns >= 0 else ""
    details = f" ({step.text})" if step.text else ""
    return f"{words}{after}{details}."
