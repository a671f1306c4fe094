"""Recipes: packets that a router drops, and addresses that it translates.

Near misses of losses: the proxy drops the same frames after its TCP has acknowledged their bytes.
"""

from __future__ import annotations

from scenarios.diagnosis.networks import Route
from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe

_PATIENT = ("keepAliveIntervalSeconds=30",)
"""The default of Pulsar: a connection without traffic in one direction lasts longer than the times of the rules."""


def _consumer(track: Track, name: str, topic: str) -> dict[str, str]:
    return {"topic": topic, "subscription": "work", "consumer": track.who(name)}


def _subscribe(track: Track, app: str, name: str, topic: str, **options: object) -> None:
    track.do(app, "subscribe", consumer=name, topic=topic, subscription="work", type="Shared", **options)


def _lose(track: Track, kind: str, topic: str, direction: str = "to broker") -> None:
    """Lose what the far host sends from now on, or let the proxy drop the frames of a type."""
    track.allowed |= {"never-acked", "ack-lost", "dispatcher-silent", "paused-client", "redelivered-after-reconnect"}
    if track.near:
        track.fault(f"pulsar.type == '{kind}' and pulsar.topic == '{topic}'", "drop")
    else:
        track.lose(direction)
        track.features.add("drop")
        track.culprits = {"network"}


def _expect(
    track: Track, rule: str, subject: dict[str, str], count: int | None = None, *, certain: bool = True
) -> None:
    """Expect a finding that names the network, for certain if the broker is heard; of a near miss, the broker."""
    counts = None if count is None else (count, count)
    culprit = "broker" if track.near else "network"
    track.expect(Problem(rule, subject, culprit, counts, certain=certain and not track.near))


def _keep_busy(track: Track, app: str) -> None:
    """Let the connection of an application carry messages from the broker, which are sent by `other`."""
    topic = track.topic("busy")
    _subscribe(track, app, "busy", topic)
    track.do(app, "consume", consumer="busy")
    track.do("near", "producer", producer="other", topic=topic)


def _remain_busy(track: Track) -> None:
    track.do("near", "send", producer="other", count=3, interval_ms=300, one_by_one=True)


@recipe("producer-stuck", quick=False, network=True, sniffed=True, settings=_PATIENT, clients=CLIENTS)
def lost_sends(track: Track) -> None:
    """SENDs that the network loses. Near miss: the broker's host acknowledges their bytes, and drops them."""
    topic, count = track.topic(), track.draw(1, 8)
    track.route, track.far = Route("clients"), {"far"}
    track.do("far", "producer", producer="maker", topic=topic, send_timeout_ms=60_000)
    track.do("far", "send", producer="maker", count=5, one_by_one=True)
    _keep_busy(track, "far")
    _lose(track, "SEND", topic)
    track.do("far", "send", producer="maker", first=5, count=count, **{"async": True})
    track.sleep(1)
    if not track.near or track.pick(True, False):
        _remain_busy(track)
    track.sleep(11)
    _expect(track, "producer-stuck", {"topic": topic, "producer": track.who("maker")}, count)


@recipe("ack-lost", quick=False, network=True, sniffed=True, clients=CLIENTS)
def lost_acks_in_the_network(track: Track) -> None:
    """ACKs that the network loses. Near miss: the broker's host acknowledges their bytes, and drops them."""
    topic, count = track.topic(), track.draw(3, 20)
    track.route, track.far = Route("clients"), {"far"}
    _subscribe(track, "far", "far", topic)
    track.do("near", "producer", producer="maker", topic=topic)
    track.do("near", "send", producer="maker", count=count, one_by_one=True)
    track.do("far", "receive", consumer="far", count=count, ack="none")
    _lose(track, "ACK", topic)
    track.do("far", "ack", consumer="far")
    track.sleep(6)
    track.drive("kill", of="far")
    track.sleep(6)  # the broker notices the end of a silent connection by its keep-alive
    _subscribe(track, "near", "next", topic)
    track.do("near", "consume", consumer="next")
    track.sleep(0.8)
    culprits = "broker|network" if track.near else "network"  # the near miss also loses the connection
    track.expect(Problem("ack-lost", _consumer(track, "far", topic), culprits))


@recipe(
    "dispatcher-silent", quick=False, network=True, sniffed=True, settings=_PATIENT, clients=("python", "java", "go")
)
def lost_flows(track: Track) -> None:
    """FLOWs that the network loses. Near miss: the broker's host acknowledges their bytes, and drops them."""
    topic, queue = track.topic(), track.draw(4, 20)
    track.route, track.far = Route("clients"), {"far"}
    _subscribe(track, "far", "far", topic, queue=queue)
    track.do("near", "producer", producer="maker", topic=topic)
    track.do("near", "send", producer="maker", count=queue, one_by_one=True)
    _keep_busy(track, "far")
    track.sleep(0.3)
    _lose(track, "FLOW", topic)
    track.do("far", "consume", consumer="far")
    track.do("near", "send", producer="maker", first=queue, count=queue, one_by_one=True)
    track.sleep(1)
    _remain_busy(track)
    track.sleep(7)
    subject = _consumer(track, "far", topic)
    _expect(track, "dispatcher-silent", subject, certain=track.client != "go")  # Go sends FLOWs before receive


@recipe("answers-missing", quick=False, network=True, sniffed=True, settings=_PATIENT, clients=CLIENTS)
def lost_requests(track: Track) -> None:
    """A request that the network loses. Near miss: the broker's host acknowledges its bytes, and drops it."""
    topic = track.topic()
    track.route, track.far = Route("clients"), {"far"}
    _keep_busy(track, "far")
    _remain_busy(track)
    _lose(track, "LOOKUP", topic)
    if not track.near:
        track.sleep(0.3)
    track.do("far", "producer", producer="maker", topic=topic, wait=False)
    track.sleep(1)
    _remain_busy(track)
    track.sleep(11)
    request = {} if not track.near else {"request": "LOOKUP"}
    _expect(track, "answers-missing", request)


@recipe("never-acked", quick=False, network=True, sniffed=True, settings=_PATIENT, clients=CLIENTS)
def lost_messages(track: Track) -> None:
    """MESSAGEs that the network loses. Near miss: an application that receives them and does not acknowledge them."""
    topic, count = track.topic(), track.draw(3, 20)
    track.route, track.far = Route("broker"), {"far"}
    _subscribe(track, "far", "far", topic)
    track.do("near", "producer", producer="maker", topic=topic)
    if not track.near:
        track.lose("from broker")
        track.features.add("drop")
        track.allowed |= {"dispatcher-silent"}
        track.culprits = {"network"}
    track.do("near", "send", producer="maker", count=count, one_by_one=True)
    track.sleep(4)
    culprit = "application" if track.near else "network"
    track.expect(Problem("never-acked", _consumer(track, "far", topic), culprit))


@recipe("slow-answers", quick=False, network=True, sniffed=True, settings=_PATIENT, clients=CLIENTS)
def delayed_sends(track: Track) -> None:
    """SENDs that the network loses for some seconds. Near miss: receipts that the broker delays."""
    topic, count = track.topic(), track.draw(1, 4)
    track.route, track.far = Route("clients"), {"far"}
    track.do("far", "producer", producer="maker", topic=topic)
    track.do("far", "send", producer="maker", count=5, one_by_one=True)
    if track.near:
        track.fault(f"pulsar.type == 'SEND_RECEIPT' and pulsar.topic == '{topic}'", "delay", times=count, ms=3500)
    else:
        track.lose(track.pick("to broker", "both"))
    track.do("far", "send", producer="maker", first=5, count=count, **{"async": True})
    track.sleep(3.5)
    if not track.near:
        track.drive("restore")
    track.sleep(4)
    track.expect(Problem("slow-answers", {"request": "SEND"}, "network|broker", (count, count)))


@recipe(network=True, sniffed=True, clients=CLIENTS)
def translated(track: Track) -> None:
    """Connections that a router translates, captured on all interfaces. Near miss: two clients that send the same."""
    topic, count = track.topic(), track.draw(5, 60)
    track.far = {"far"}
    track.route = Route("any", *track.pick((False, False), (True, False), (False, True), (True, True)))
    apps = ("one", "far") if track.near else ("far",)
    for app in apps:  # the same names and requests
        _subscribe(track, app, "app", topic, queue=track.draw(5, 50))
        track.do(app, "consume", consumer="app")
    track.do("maker", "producer", producer="maker", topic=topic, batch=track.pick(0, 5))
    track.do("maker", "send", producer="maker", count=count)
    track.do("far", "producer", producer="other", topic=topic)
    track.do("far", "send", producer="other", count=count, one_by_one=True)
    track.sleep(0.8)
    track.stats(topic)
