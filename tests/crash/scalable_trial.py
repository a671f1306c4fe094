"""A round of crash trials on scalable topics: the official V5 client, and changes of the layout before the kills."""

from __future__ import annotations

import json
import threading
import urllib.error
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

from crash.trial import Round, load_command

_FOLDER = Path(__file__).parent
_POM = _FOLDER.parent / "scenarios" / "diagnosis" / "pom-v5.xml"
_TOPIC = "scalable/public/default/load"
_TXN_KEYS = 4
"""The number of messages of a transaction."""
_MOST_SEGMENTS = 4
_KEYS = 20
"""The number of keys: message ``n`` has the key ``n`` modulo this number."""


def scalable_load_command() -> list[str | Path]:
    """Return the command line of the load, without its argument. Raises MissingError without Java or Maven."""
    return load_command(_FOLDER / "LoadV5.java", _POM)


class ScalableRound(Round):
    """A broker of Pulsar 5 with two scalable topics: ``load``, whose layout changes, and ``txn``."""

    options: ClassVar[Sequence[str]] = (
        "--pulsar", "5.0.1",
        "--set", "transactionCoordinatorEnabled=true",
        "--set", "scalableTopicAutoScaleEnabled=false",
        "--set", "transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds=1",
    )  # fmt: skip
    end_s: ClassVar[float] = 240

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._layout: dict[str, Any] = {}
        """The newest layout in a response."""
        self._faults_of_layouts: list[str] = []

    def prepare(self) -> None:
        """Create the topics. They keep acknowledged messages for the check."""
        self.retain("default")
        for topic in ("load", "txn"):
            self.request("PUT", f"scalable/public/default/{topic}?numInitialSegments=2", {})
        self._layout = self._read_layout()

    def live(self, seconds: float) -> None:
        """Change the layout before the next kill, or, in half of the cases, during it."""
        moment = self.random.uniform(0, seconds)
        super().live(moment)
        change = threading.Thread(target=self._change, daemon=True)
        change.start()
        if self.random.random() < 0.5:
            change.join()
            super().live(seconds - moment)
        else:
            super().live(self.random.uniform(0, 0.01))

    def _change(self) -> None:
        """Split a segment or merge two. Nothing is known about a change without a response."""
        with suppress(OSError, HTTPException):
            segments = self._read_layout()["segments"].values()
            active = sorted((one["hashRange"]["start"], one["segmentId"]) for one in segments if one["active"])
            numbers = [number for _, number in active]
            index = self.random.randrange(len(numbers))
            try:
                if len(numbers) < _MOST_SEGMENTS:
                    self.request("POST", f"{_TOPIC}/split/{numbers[index]}")
                else:
                    first = min(index, len(numbers) - 2)
                    self.request("POST", f"{_TOPIC}/merge/{numbers[first]}/{numbers[first + 1]}")
            except urllib.error.HTTPError as error:
                self._faults_of_layouts.append(f"a change of the layout failed: {error} {error.read()!r}")
            self._layout = self._read_layout()

    def _read_layout(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.request("GET", _TOPIC))
        return found

    def restarted(self) -> None:
        """Check that the layout is not older than the newest one in a response."""
        before, after = self._layout, self._read_layout()
        self._layout = after
        if after["epoch"] < before["epoch"]:
            self._faults_of_layouts.append(f"kill {self.kills}: epoch {after['epoch']} follows epoch {before['epoch']}")
        elif after["epoch"] == before["epoch"] and after["segments"] != before["segments"]:
            self._faults_of_layouts.append(f"kill {self.kills}: another layout of epoch {after['epoch']}")

    # -- guarantees ----------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Return the violated guarantees."""
        return [
            *self._faults_of_layouts,
            *self._receipts(),
            *self._order(),
            *self._acknowledgements(),
            *self._transactions(),
        ]

    def _stored(self, topic: str) -> list[list[str]]:
        """Return the number and the key of each message of a topic."""
        return [event.words[2:] for event in self.of("STORED") if event.words[1] == topic]

    def _received(self, subscription: str) -> list[int]:
        return [int(event.words[2]) for event in self.of("RECEIVED") if event.words[1] == subscription]

    def _receipts(self) -> list[str]:
        """Every message with a receipt is stored, and the stream and the queue consumers have received it."""
        stored = {int(number) for number, _ in self._stored("load")}
        readers = {"stored": stored, **{name: set(self._received(name)) for name in ("stream", "queue")}}
        return [
            f"message {event.words[1]} with a receipt is not in {name} (sent after kill {event.kills})"
            for event in self.of("SENT")
            for name, found in readers.items()
            if int(event.words[1]) not in found
        ]

    def _order(self) -> list[str]:
        """The stream consumers receive the first copies of the messages of a key in order."""
        wrong = []
        last: dict[int, int] = defaultdict(lambda: -1)
        seen = set()
        for number in self._received("stream"):
            key = number % _KEYS
            if number not in seen and number < last[key]:
                wrong.append(f"stream: message {number} of key k{key} follows message {last[key]}")
            seen.add(number)
            last[key] = max(last[key], number)
        return wrong

    def _acknowledgements(self) -> list[str]:
        """No new consumer receives a message whose acknowledgement in a transaction was committed.

        The V5 client also delivers messages of a broker that was killed, which the old consumer therefore cannot show.
        A message that is stored twice, because its first receipt was lost, is delivered twice.
        """
        copies: dict[str, int] = defaultdict(int)
        for number, _ in self._stored("load"):
            copies[number] += 1
        committed = {event.words[2] for event in self.of("COMMITTED")}
        left = {event.words[2] for event in self.of("LEFT")}
        return [
            f"message {number} was acknowledged in a committed transaction, and is delivered again"
            for number in sorted(committed & left, key=int)
            if copies[number] == 1
        ]

    def _transactions(self) -> list[str]:
        """Committed transactions are visible on all segments, aborted ones on none, and all others on all or none."""
        keys: dict[int, set[str]] = defaultdict(set)
        for number, key in self._stored("txn"):
            keys[int(number)].add(key)
        wrong = [
            f"{len(found)} of {_TXN_KEYS} messages of transaction {number} are visible"
            for number, found in sorted(keys.items())
            if len(found) != _TXN_KEYS
        ]
        committed, aborted = ({int(event.words[1]) for event in self.of(kind)} for kind in ("COMMITTED", "ABORTED"))
        wrong += [
            f"transaction {number} was committed and is not visible" for number in sorted(committed - keys.keys())
        ]
        wrong += [f"transaction {number} was aborted and is visible" for number in sorted(aborted & keys.keys())]
        return wrong
