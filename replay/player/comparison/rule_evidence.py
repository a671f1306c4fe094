"""Facts about a replay that the comparison rules use: unanswered requests, refusals, earlier notifications.

deliveries.py has the facts about deliveries. All facts come from the captured lines and the live responses.
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
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.response_matching import Book, key_of
from pcli.replay.player.script.recorded_sends import stored
from pcli.replay.player.script.recorded_transactions import Transactions
from pcli.replay.player.script.script import Line, Script

__all__ = ["Evidence"]

_OVER_QUOTA: Final = (pb.ProducerBlockedQuotaExceededError, pb.ProducerBlockedQuotaExceededException)
_MAKING: Final = {"PRODUCER": "CLOSE_PRODUCER", "SUBSCRIBE": "CLOSE_CONSUMER"}


class Evidence:
    """The facts about one replay."""

    def __init__(
        self,
        script: Script,
        book: Book,
        ids: Ids,
        outcomes: Collection[Outcome],
        *,
        own_broker: bool,
        deeds: Collection[str] = (),
    ) -> None:
        """Collect the facts about a finished replay.

        ``own_broker``: whether the live broker is the mini-broker; ``deeds``: topics with an administrative operation
        in the capture only. An empty name means that only the captured broker was restarted.
        """
        self.script, self.ids, self.own_broker, self.deeds = script, ids, own_broker, frozenset(deeds)
        self.deliveries = Deliveries(script, book, ids)
        self.requests: dict[tuple[int, int], Line] = {}
        """Requests by connection and request id."""
        self.answered: set[int] = set()
        """Frame numbers of the requests that have a response in the capture."""
        self.received: set[int] = {send.index for send, *_ in stored(script.lines)}
        """Indexes of the SENDs that have a receipt in the capture."""
        self.last_told: dict[int, bool] = {}
        """By the index of an ACTIVE_CONSUMER_CHANGE: the consumer's previous state."""
        self.over_quota: set[str] = set()
        """Topics whose producers were refused because of a backlog quota."""
        self.refused_by_quota: set[int] = set()
        """Indexes of these refusals."""
        self.told_end: set[Subscription] = set()
        """Subscriptions that received REACHED_END_OF_TOPIC in the capture."""
        self._made: Counter[Hashable] = Counter()
        self._sends: dict[tuple[int, int, int], list[Line]] = defaultdict(list)
        """By connection, producer id and sequence id."""
        self._read(script)
        self._heard = Counter(key_of(pair.part, pair.frame) for pair in book.pairs if pair.frame is not None)
        self.transactions = Transactions(script, outcomes)
        self.last_ms = script.lines[-1].time_ms if script.lines else 0.0

    def _read(self, script: Script) -> None:
        told: dict[Consumer, bool] = {}
        for line in script.lines:
            if line.frame is None:
                continue
            body = line.frame.body
            if line.request is not None:
                self._note_answer(line, line.frame)
            if line.from_client and getattr(body, "request_id", None) is not None:
                self.requests[line.part, body.request_id] = line
            if line.name == "SEND":
                self._sends[line.part, body.producer_id, body.sequence_id].append(line)
            elif line.name in _MAKING:
                number = body.producer_id if line.name == "PRODUCER" else body.consumer_id
                self._made[line.part, _MAKING[line.name], number] += 1
            elif line.name == "REACHED_END_OF_TOPIC":
                self.told_end.add(Deliveries.subscription_of(line.peer))
            elif line.name == "ACTIVE_CONSUMER_CHANGE" and isinstance(line.peer, Consumer):
                if line.peer in told:
                    self.last_told[line.index] = told[line.peer]
                told[line.peer] = body.is_active

    def _note_answer(self, line: Line, frame: Frame) -> None:
        assert line.request is not None
        self.answered.add(line.request.number)
        if frame.command.error.error in _OVER_QUOTA and isinstance(line.request.topic, str):
            self.over_quota.add(line.request.topic)
            self.refused_by_quota.add(line.index)

    # -- queries ---------------------------------------------------------------------------------------------------

    def is_repeated(self, outcome: Outcome) -> bool:
        """Return whether the live broker sent such a response more often than the captured commands justify."""
        frame, part = outcome.frame, outcome.pair.part
        if frame is None:
            return False
        body, causes = frame.body, 1
        if outcome.name in _MAKING.values():
            number = body.producer_id if outcome.name == "CLOSE_PRODUCER" else body.consumer_id
            causes = self._made[part, outcome.name, number]
        elif outcome.name in ("SEND_RECEIPT", "SEND_ERROR"):
            causes = len(self.send_of(outcome))
        return self._heard[key_of(part, frame)] > causes

    def request_of(self, outcome: Outcome) -> Line | None:
        """Return the captured request to which the outcome's live frame is the response."""
        frame = outcome.frame
        if frame is None:
            return None
        body = frame.body
        return self.requests.get((outcome.pair.part, getattr(body, "request_id", -1)))

    def send_of(self, outcome: Outcome) -> list[Line]:
        """Return the captured SENDs with the producer and sequence id of a live receipt."""
        body = outcome.frame.body if outcome.frame is not None else None
        key = outcome.pair.part, getattr(body, "producer_id", -1), getattr(body, "sequence_id", -1)
        return self._sends.get(key, [])
