"""A round of crash trials: official clients and a broker that is killed at random moments."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pulsar
from interop.building import build_java, digest, lock_folder

_FOLDER = Path(__file__).parent
_LIVE_S = 0.1, 1.2
"""Range of the time between the start of a broker and its end, in seconds."""
_Id = tuple[int, int, int]
_Stored = dict[str, list[tuple[str, int]]]
"""The ids and numbers of the messages of each topic."""

_START_S = 30
_SETTLE_S = 5
"""Time after the last kill. Open transactions hide all later messages until their timeout of 3 s."""
_PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
_TOPICS = ("default/plain", "default/single", "dedup/once", "default/txn-a", "default/txn-b")


def load_command(source: Path = _FOLDER / "Load.java", *poms: Path) -> list[str | Path]:
    """Return the command line of a load, without its argument. Raises MissingError without Java or Maven."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    sources = [_FOLDER / "CrashLoad.java", source]
    folder = caches / "pcli-crash" / f"java-{digest(*sources)[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        return [*build_java(folder, sources, *poms), source.stem]


@dataclass(slots=True)
class Event:
    """A line of the load, and the number of kills and of starts of the broker before it."""

    words: list[str]
    kills: int
    starts: int


class Round:
    """A broker with a new data directory, its load, and a number of kills.

    ``lose_writes`` also removes what was written to the log of the database after the last fsync.
    """

    options: ClassVar[Sequence[str]] = (
        "--set", "acknowledgmentAtBatchIndexLevelEnabled=true", "--set", "transactionCoordinatorEnabled=true",
    )  # fmt: skip
    """The options of the broker."""
    end_s: ClassVar[float] = 60
    """The time that the load has to end after its input."""

    def __init__(self, folder: Path, seed: int, *, lose_writes: bool, load: Sequence[str | Path]) -> None:
        self._data, self._ready, self._log = folder / "data", folder / "ready", folder / "broker.log"
        self.random = random.Random(seed)
        self._lose_writes = lose_writes
        self._load_command = load
        self._ports: list[str] = []
        self.kills = self.starts = 0
        self.events: list[Event] = []

    def run(self, kills: int) -> list[str]:
        """Run the round. Return the violated guarantees."""
        self._start()
        self.prepare()
        with subprocess.Popen([*self._load_command, self._url], **_PIPES) as load:
            reader = threading.Thread(target=self._read_events, args=(load,), daemon=True)
            reader.start()
            _wait_for(lambda: len(self.events) > 0)
            for _ in range(kills):
                self.live(self.random.uniform(*_LIVE_S))
                self._kill()
                self._start()
                self.restarted()
            time.sleep(_SETTLE_S)
            load.stdin.close()  # type: ignore[union-attr]
            load.wait(self.end_s)
            reader.join()
        try:
            return [*self._faults(), *self.check()]
        finally:
            os.killpg(self._broker.pid, signal.SIGTERM)
            self._broker.wait()

    def live(self, seconds: float) -> None:
        """Wait until the next kill."""
        time.sleep(seconds)

    def restarted(self) -> None:
        """Check the broker after its start."""

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._ready.unlink(missing_ok=True)
        command = [sys.executable, _FOLDER / "broker_process.py", "broker", "--data", self._data, "--log", "quiet"]
        command += ["--ready-file", self._ready, *self.options]
        command += self._ports or ["--port", "0", "--http-port", "0"]
        with self._log.open("ab") as log:
            self._broker = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        _wait_for(lambda: self._ready.exists() or self._broker.poll() is not None)
        if self._broker.poll() is not None:
            raise RuntimeError(f"the broker did not start: {self._log.read_text().strip().splitlines()[-1:]}")
        urls = json.loads(self._ready.read_text())
        self._url, self._http = urls["service_url"], urls["http_url"]
        self._ports = ["--port", self._url.rpartition(":")[2], "--http-port", self._http.rpartition(":")[2]]
        self.starts += 1

    def _kill(self) -> None:
        self.kills += 1
        os.killpg(self._broker.pid, signal.SIGKILL)
        self._broker.wait()
        log = self._data / "broker.db-wal"
        if self._lose_writes and log.exists():
            with suppress(FileNotFoundError):
                os.truncate(log, min(log.stat().st_size, int((self._data / "synced").read_text())))
            (self._data / "broker.db-shm").unlink(missing_ok=True)

    def prepare(self) -> None:
        """Create a namespace with deduplication. Both namespaces keep acknowledged messages for the check."""
        self.request("PUT", "namespaces/public/dedup", {})
        self.request("POST", "namespaces/public/dedup/deduplication", True)
        for namespace in ("default", "dedup"):
            self.retain(namespace)

    def retain(self, namespace: str) -> None:
        """Keep the acknowledged messages of a namespace."""
        policy = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        self.request("POST", f"namespaces/public/{namespace}/retention", policy)

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request to the REST API, and return the body of the response."""
        headers = {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._http}/admin/v2/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.read()

    # -- the load ------------------------------------------------------------------------------------------------------

    def _read_events(self, load: subprocess.Popen[str]) -> None:
        assert load.stdout is not None
        for line in load.stdout:
            self.events.append(Event(line.rstrip("\n").split("\t"), self.kills, self.starts))

    def of(self, kind: str) -> list[Event]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if event.words[0] == kind]

    # -- guarantees ----------------------------------------------------------------------------------------------------

    def _faults(self) -> list[str]:
        faults = [" ".join(event.words) for event in self.of("FAULT")]
        return faults if self.of("END") else [*faults, "the load did not end"]

    def check(self) -> list[str]:
        """Return the violated guarantees."""
        stored = {topic: self._read_topic(topic) for topic in _TOPICS}
        return [
            *self._receipts(stored),
            *self._order(stored),
            *self._acknowledgements(),
            *self._transactions(stored),
        ]

    def _read_topic(self, topic: str) -> list[tuple[str, int]]:
        """Return the id and the number of each message of a topic."""
        client = pulsar.Client(self._url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        found = []
        reader = client.create_reader(f"public/{topic}", pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(10_000)
            place = message.message_id()
            found.append((f"{place.ledger_id()}:{place.entry_id()}:{place.batch_index()}", int(message.data())))
        client.close()
        return found

    def _receipts(self, stored: _Stored) -> list[str]:
        """Every message with a receipt is stored with its id. The receipt of a duplicate has no id."""
        places = {f"public/{topic}": set(messages) for topic, messages in stored.items()}
        numbers = {f"public/{topic}": {number for _, number in messages} for topic, messages in stored.items()}
        return [
            f"{topic}: message {number} with receipt {place} is lost (sent after kill {event.kills})"
            for event in self.of("SENT")
            for topic, number, place in [event.words[1:]]
            if not (int(number) in numbers[topic] if place.startswith("-1") else (place, int(number)) in places[topic])
        ]

    def _order(self, stored: _Stored) -> list[str]:
        """The first copies of messages are in the order of the producer; a deduplicated topic contains no copies."""
        wrong = []
        for topic in ("default/plain", "default/single", "dedup/once"):
            last = -1
            seen = set()
            for place, number in stored[topic]:
                if number in seen and topic.startswith("dedup"):
                    wrong.append(f"{topic}: message {number} is stored twice, again at {place}")
                elif number not in seen and number != last + 1:
                    wrong.append(f"{topic}: message {number} at {place} follows message {last}")
                last = max(last, number)
                seen.add(number)
        return wrong

    def _acknowledgements(self) -> list[str]:
        """No message is delivered after a restart if its acknowledgement was confirmed before the kill."""
        confirmed: dict[tuple[str, _Id], int] = {}
        cumulative: tuple[_Id, int] = (-1, -1, -1), 0
        wrong = []
        for event in self.events:
            kind, subscription = event.words[0], event.words[1] if len(event.words) > 1 else ""
            place = _id(event.words[-1])
            if kind == "ACKED" and subscription == "cumulative":
                cumulative = max(cumulative, (place, event.kills))
            elif kind == "ACKED":
                confirmed.setdefault((subscription, place), event.kills)
            elif kind == "COMMITTED":
                confirmed.setdefault(("txn", place), event.kills)
            elif kind == "RECEIVED":
                kills = confirmed.get((subscription, place))
                if subscription == "cumulative" and place <= cumulative[0]:
                    kills = cumulative[1]
                if kills is not None and event.starts > kills + 1:
                    wrong.append(
                        f"{subscription}: {event.words[-1]} was acknowledged after kill {kills} "
                        f"and is delivered again after kill {event.kills}"
                    )
        return wrong

    def _transactions(self, stored: _Stored) -> list[str]:
        """Committed transactions are visible on both topics, aborted ones on none, and all others on both or none."""
        first, second = ({number for _, number in stored[f"default/txn-{name}"]} for name in "ab")
        wrong = [f"transaction {number} is visible on one of two topics" for number in sorted(first ^ second)]
        committed = [int(event.words[1]) for event in self.of("COMMITTED")]
        aborted = [int(event.words[1]) for event in self.of("ABORTED")]
        wrong += [
            f"transaction {number} was committed and is not visible" for number in committed if number not in first
        ]
        wrong += [f"transaction {number} was aborted and is visible" for number in aborted if number in first]
        return wrong


def _id(text: str) -> _Id:
    """Return ledger id, entry id and batch index; an event without an id has none that can occur."""
    numbers = text.split(":")
    return (int(numbers[0]), int(numbers[1]), int(numbers[2])) if len(numbers) == 3 else (-1, -1, -1)


def _wait_for(condition) -> None:
    until = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the broker or the load did not start in time")
        time.sleep(0.01)
