"""Recipes: producers that are refused or wait, and messages that are stored twice."""

from __future__ import annotations

from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe


def _subject(track: Track, topic: str, name: str) -> dict[str, str]:
    return {"topic": topic, "producer": track.who(name)}


@recipe("producer-refused", clients=CLIENTS)
def producer_busy(track: Track) -> None:
    """A producer while another has exclusive access, or the same name. Near miss: shared access."""
    topic, how = track.topic(), track.pick("exclusive", "limit")
    access = "Exclusive" if how == "exclusive" and not track.near else "Shared"
    if how == "limit":
        track.policy("maxProducersPerTopic", 10 if track.near else 1)
    track.do("first", "producer", producer="first", topic=topic, access=access)
    track.do("first", "send", producer="first", count=5)
    track.do("late", "producer", producer="late", topic=topic, fails=not track.near)
    track.sleep(0.3)
    if not track.near:
        track.expect(Problem("producer-refused", _subject(track, topic, "late"), "application"))


@recipe("producer-refused", clients=CLIENTS)
def terminated(track: Track) -> None:
    """A message to a topic that was terminated. Near miss: the producer is closed before."""
    topic = track.topic()
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    if track.near:
        track.do("maker", "close_producer", producer="maker")
    track.rest("POST", topic, "terminate")
    if not track.near:
        track.do("maker", "send", producer="maker", first=5, count=2, fails=True)
        track.allowed |= {"producer-stuck"}  # the broker closes the producer without a response to SENDs
        track.expect(Problem("producer-refused", _subject(track, topic, "maker"), "application"))
    track.sleep(0.5)


@recipe("producer-waiting", clients=CLIENTS)
def waits_for_access(track: Track) -> None:
    """A producer that waits for exclusive access. Near miss: access is free."""
    topic = track.topic()
    track.do("first", "producer", producer="first", topic=topic, access="Exclusive")
    track.do("first", "send", producer="first", count=5)
    if track.near:
        track.do("first", "close_producer", producer="first")
    track.do("late", "producer", producer="late", topic=topic, access="WaitForExclusive", wait=track.near)
    track.sleep(1.8)
    if not track.near:
        track.expect(Problem("producer-waiting", _subject(track, topic, "late"), "application"))
        track.do("first", "close_producer", producer="first")
        track.sleep(0.5)


@recipe("producer-refused", "schema-refused")
def wrong_schema(track: Track) -> None:
    """A producer with an incompatible schema. Near miss: the same schema."""
    topic = track.topic()
    track.do("first", "producer", producer="first", topic=topic, schema="user")
    other = "user" if track.near else "other"
    track.do("late", "producer", producer="late", topic=topic, schema=other, fails=not track.near)
    track.sleep(0.3)
    if not track.near:
        track.expect(Problem("schema-refused", _subject(track, topic, "late"), "application"))


@recipe("schema-refused-consumer")
def wrong_schema_of_a_consumer(track: Track) -> None:
    """A consumer with an incompatible schema. Near miss: the same schema."""
    topic = track.topic()
    track.do("first", "producer", producer="first", topic=topic, schema="user")
    track.do(
        "late",
        "subscribe",
        consumer="late",
        topic=topic,
        subscription="work",
        type="Shared",
        schema="user" if track.near else "other",
        fails=not track.near,
    )
    track.sleep(0.3)
    if not track.near:
        subject = {"topic": topic, "subscription": "work", "consumer": track.who("late")}
        track.expect(Problem("schema-refused-consumer", subject, "application"))


@recipe("resend-refused", clients=CLIENTS)
def reused_ids(track: Track) -> None:
    """Sequence ids that were used before, with deduplication. Near miss: without deduplication."""
    topic, count = track.topic(), track.draw(2, 8)
    track.policy("deduplication", not track.near)
    track.do("maker", "producer", producer="maker", topic=topic)
    ids = list(range(10, 20))
    track.do("maker", "send", producer="maker", count=10, sequences=ids, one_by_one=True)
    again = ids[-count:]
    track.do("maker", "send", producer="maker", first=10, count=count, sequences=again, one_by_one=True)
    track.sleep(0.4)
    subject = _subject(track, topic, "maker")
    if track.near:
        cause, text = "backwards", r"(\d+) SEND"
        track.expect(Problem("sequence-gap", subject, "client", (count, count), text, cause))
    else:
        text = r"dropped (\d+) message"
        track.expect(Problem("resend-refused", subject, "application", (count, count), text, "reused"))


@recipe("duplicated-by-restart", clients=CLIENTS)
def restarted_producer(track: Track) -> None:
    """A producer that is killed and sends messages again. Near miss: it sends new messages."""
    topic, count = track.topic(), track.draw(3, 12)
    track.do("first", "producer", producer="maker", topic=topic)
    track.do("first", "send", producer="maker", count=20, one_by_one=True)
    track.drive("kill", of="first")
    track.sleep(0.3)
    first = 20 if track.near else 20 - count
    track.do("second", "producer", producer="maker", topic=topic)
    ids = list(range(first, first + count + 5))
    track.do("second", "send", producer="maker", first=first, count=len(ids), sequences=ids, one_by_one=True)
    track.sleep(0.4)
    if not track.near:
        text = r"stored (\d+) message"
        subject = _subject(track, topic, "maker")
        track.expect(Problem("duplicated-by-restart", subject, "application", (count, count), text))


@recipe("request-refused", clients=CLIENTS)
def missing_namespace(track: Track) -> None:
    """A topic in a namespace that does not exist. Near miss: a namespace that exists."""
    topic = track.topic()
    if not track.near:
        topic = topic.replace(track.namespace, f"{track.namespace}-missing")
    track.do("app", "producer", producer="maker", topic=topic, fails=not track.near)
    track.sleep(0.3)
    if not track.near:
        track.features.add("refused")
        track.expect(Problem("request-refused", {}, "application"))
