"""Recipes with transactions, which only the Java client has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.registry import recipe


def _open(track: Track, app: str, txn: str, variant: str) -> Callable[[Log], Iterable[Problem]]:
    """Return the problem of a transaction that an application leaves open."""

    def problems(log: Log) -> Iterable[Problem]:
        (began,) = log.of("began", txn=track.who(txn))
        return [Problem("transaction-open", {"transaction": began["id"]}, "application", variant=variant)]

    return problems


def _begin(track: Track, app: str, timeout_s: int = 60) -> str:
    """Begin a transaction of an application; return its name."""
    name = track.who(f"{app}-txn")
    track.do(app, "begin", txn=name, timeout_s=timeout_s)
    return name


@recipe("redelivered-after-abort", clients=("java",))
def aborted_acks(track: Track) -> None:
    """Acknowledgements in a transaction that is aborted. Near miss: it is committed."""
    topic, count, kind = track.topic(), track.draw(4, 20), track.pick("Shared", "Key_Shared", "Exclusive", "Failover")
    track.do("worker", "client", transactions=True)
    track.do("worker", "subscribe", consumer="worker", topic=topic, subscription="work", type=kind)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("worker", "receive", consumer="worker", count=count, ack="none")
    if track.pick(True, False):
        track.do("worker", "ack", consumer="worker", count=track.draw(1, count - 1))
    txn = _begin(track, "worker")
    track.do("worker", "ack", consumer="worker", txn=txn)
    track.sleep(0.3)
    track.do("worker", "commit" if track.near else "abort", txn=txn)
    track.do("worker", "consume", consumer="worker")
    track.sleep(1)
    track.stats(topic)
    if not track.near:

        def problems(log: Log) -> Iterable[Problem]:
            again = log.redelivered(track.who("worker"))
            subject = {"topic": topic, "subscription": "work"}
            return [Problem("redelivered-after-abort", subject, "application", (again, again))]

        track.expect(problems)


def _transform(track: Track, app: str, timeout_s: int = 60) -> str:
    """Let an application send messages in a transaction, and others receive the topic; return the transaction."""
    topic = track.topic("results")
    track.do("reader", "subscribe", consumer="reader", topic=topic, subscription="work", type="Shared")
    track.do("reader", "consume", consumer="reader")
    track.do("other", "producer", producer="other", topic=topic)
    track.do(app, "client", transactions=True)
    track.do(app, "producer", producer=app, topic=topic)
    txn = _begin(track, app, timeout_s)
    track.do(app, "send", producer=app, count=track.draw(1, 10), txn=txn)
    track.do("other", "send", producer="other", count=track.draw(0, 10))
    return txn


@recipe("transaction-open", clients=("java",))
def killed_in_a_transaction(track: Track) -> None:
    """A process that is killed in a transaction. Near miss: it commits late, and is killed after that."""
    txn = _transform(track, "victim")
    track.sleep(1)
    if track.near:
        track.do("victim", "commit", txn=txn)
        track.sleep(0.3)
    track.drive("kill", of="victim")
    track.sleep(1)
    if not track.near:
        track.expect(_open(track, "victim", "victim-txn", "client-gone"))


@recipe("transaction-open", clients=("java",), quick=False)
def forgotten_transaction(track: Track) -> None:
    """A transaction that its application never ends. Near miss: it is aborted before its timeout."""
    txn = _transform(track, "maker", 4)
    track.sleep(2)
    if track.near:
        track.do("maker", "abort", txn=txn)
    track.sleep(4)
    if not track.near:
        track.expect(_open(track, "maker", "maker-txn", "open"))


@recipe("stuck-open-transaction", clients=("java",), quick=False)
def behind_a_transaction(track: Track) -> None:
    """Messages that wait for a transaction of another application. Near miss: it is committed at once."""
    topic = track.topic("results")
    kind = track.pick("Shared", "Exclusive", "Failover", "Key_Shared")
    track.do("reader", "subscribe", consumer="reader", topic=topic, subscription="work", type=kind)
    track.do("reader", "consume", consumer="reader", ack="each")
    track.do("worker", "client", transactions=True)
    track.do("worker", "producer", producer="worker", topic=topic)
    track.do("other", "producer", producer="other", topic=topic)
    txn = _begin(track, "worker")
    track.do("worker", "send", producer="worker", count=track.draw(1, 5), txn=txn)
    if track.near:
        track.do("worker", "commit", txn=txn)
    track.do("other", "send", producer="other", count=track.draw(1, 10), one_by_one=True)
    track.sleep(5)
    track.stats(topic)
    if not track.near:
        consumer = {"topic": topic, "subscription": "work", "consumer": track.who("reader")}
        track.do("worker", "commit", txn=txn)
        track.sleep(0.5)
        track.expect(Problem("stuck-open-transaction", consumer, "application"))
