"""Facts about a replay that the comparison rules use: unanswered requests, refusals, earlier notifications.

deliveries.py contains the facts about deliveries. All facts come from the captured steps and the live responses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable
from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import Outcome
from pcli.replay.player.comparison.deliveries import Deliveries, Subscription
from pcli.replay.player.comparison.scalable_updates import ScalableUpdates
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.response_matching import ResponseMatcher, key_of
from pcli.replay.player.script.recorded_exchanges import Transactions, stored
from pcli.replay.player.script.script import Script, Step

_OVER_QUOTA: Final = (pb.ProducerBlockedQuotaExceededError, pb.ProducerBlockedQuotaExceededException)
_MAKING: Final = {"PRODUCER": "CLOSE_PRODUCER", "SUBSCRIBE": "CLOSE_CONSUMER"}


class Evidence:
    """The facts about one replay."""

    def __init__(
        self,
        script: Script,
        matcher: ResponseMatcher,
        ids: Ids,
        outcomes: Collection[Outcome],
        *,
        own_broker: bool,
        intervention_topics: Collection[str] = (),
    ) -> None:
        """Collect the facts about a finished replay.

        ``own_broker`` is true if the live broker is the mini-broker. ``intervention_topics`` are topics with an
        administrative operation only in the capture; an empty name means that only the captured broker was restarted.
        """
        self.script, self.ids, self.own_broker, self.intervention_topics = (
            script,
            ids,
            own_broker,
            frozenset(intervention_topics),
        )
        self.deliveries = Deliveries(script, matcher, ids)
        self.scalable_updates = ScalableUpdates(script, matcher)
        self.requests: dict[tuple[int, int], Step] = {}
        """Requests by connection and request id."""
        self.answered: set[int] = set()
        """Frame numbers of the requests that have a response in the capture."""
        self.received: set[int] = {send.index for send, *_ in stored(script.steps)}
        """Indexes of the SENDs that have a receipt in the capture."""
        self.previous_state: dict[int, bool] = {}
        """The consumer's previous state, by the index of the ACTIVE_CONSUMER_CHANGE."""
        self.over_quota: set[str] = set()
        """Topics on which producers were refused because of a backlog quota."""
        self.refused_by_quota: set[int] = set()
        """Indexes of these refusals."""
        self.notified_of_end: set[Subscription] = set()
        """Subscriptions that received REACHED_END_OF_TOPIC in the capture."""
        self._made: Counter[Hashable] = Counter()
        self._sends: dict[tuple[int, int, int], list[Step]] = defaultdict(list)
        """SENDs by connection, producer id and sequence id."""
        self._read(script)
        self._heard = Counter(key_of(pair.stream, pair.frame) for pair in matcher.pairs if pair.frame is not None)
        self.transactions = Transactions(script, outcomes)
        self.last_ms = script.steps[-1].time_ms if script.steps else 0.0

    def _read(self, script: Script) -> None:
        states: dict[Consumer, bool] = {}
        for step in script.steps:
            if step.frame is None:
                continue
            body = step.frame.body
            if step.request is not None:
                self._note_answer(step, step.frame)
            if step.from_client and getattr(body, "request_id", None) is not None:
                self.requests[step.stream, body.request_id] = step
            if step.name == "SEND":
                self._sends[step.stream, body.producer_id, body.sequence_id].append(step)
            elif step.name in _MAKING:
                number = body.producer_id if step.name == "PRODUCER" else body.consumer_id
                self._made[step.stream, _MAKING[step.name], number] += 1
            elif step.name == "REACHED_END_OF_TOPIC":
                self.notified_of_end.add(Deliveries.subscription_of(step.peer))
            elif step.name == "ACTIVE_CONSUMER_CHANGE" and isinstance(step.peer, Consumer):
                if step.peer in states:
                    self.previous_state[step.index] = states[step.peer]
                states[step.peer] = body.is_active

    def _note_answer(self, step: Step, frame: Frame) -> None:
        assert step.request is not None
        self.answered.add(step.request.number)
        if frame.command.error.error in _OVER_QUOTA and isinstance(step.request.topic, str):
            self.over_quota.add(step.request.topic)
            self.refused_by_quota.add(step.index)

    # -- queries ---------------------------------------------------------------------------------------------------

    def is_repeated(self, outcome: Outcome) -> bool:
        """Return whether the live broker sent this response too often for the captured commands."""
        frame, stream = outcome.frame, outcome.pair.stream
        if frame is None:
            return False
        body, causes = frame.body, 1
        if outcome.name in _MAKING.values():
            number = body.producer_id if outcome.name == "CLOSE_PRODUCER" else body.consumer_id
            causes = self._made[stream, outcome.name, number]
        elif outcome.name in ("SEND_RECEIPT", "SEND_ERROR"):
            causes = len(self.send_of(outcome))
        return self._heard[key_of(stream, frame)] > causes

    def was_sent(self, outcome: Outcome) -> bool:
        """Return whether the live broker sent a response like the captured one at another time."""
        step = outcome.step
        return step is not None and step.frame is not None and self._heard[key_of(step.stream, step.frame)] > 0

    def request_of(self, outcome: Outcome) -> Step | None:
        """Return the captured request of the outcome's live response."""
        frame = outcome.frame
        if frame is None:
            return None
        body = frame.body
        return self.requests.get((outcome.pair.stream, getattr(body, "request_id", -1)))

    def send_of(self, outcome: Outcome) -> list[Step]:
        """Return the captured SENDs with the producer id and sequence id of a live receipt."""
        body = outcome.frame.body if outcome.frame is not None else None
        key = outcome.pair.stream, getattr(body, "producer_id", -1), getattr(body, "sequence_id", -1)
        return self._sends.get(key, [])
