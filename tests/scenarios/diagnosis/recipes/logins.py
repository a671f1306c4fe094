"""Recipes: clients that the broker does not accept. The broker requires tokens."""

from __future__ import annotations

from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.registry import recipe
from scenarios.diagnosis.tokens import SETTINGS


@recipe("auth-refused", "reconnect-loop", settings=SETTINGS, clients=("python",))
def wrong_token(track: Track) -> None:
    """A token with a wrong signature. Near miss: a valid token, but the producer is refused for another reason."""
    topic = track.topic()
    if track.near:
        track.policy("maxProducersPerTopic", 1)
        track.do("first", "producer", producer="first", topic=topic)
    track.do("app", "connect", token={} if track.near else {"wrong": True})
    track.do("app", "producer", producer="maker", topic=topic, wait=track.near, fails=True)
    track.sleep(0.5 if track.near else 3)
    if track.near:
        subject = {"topic": topic, "producer": track.who("maker")}
        track.expect(Problem("producer-refused", subject, "application"))
    else:
        track.features.add("auth")
        track.expect(Problem("auth-refused", {}, "application", variant="AuthenticationError CONNECT"))
        track.expect(Problem("reconnect-loop", {}, "application", variant="auth"))


@recipe("auth-refused", settings=SETTINGS, clients=("python",))
def missing_permission(track: Track) -> None:
    """A role without permission. Near miss: a role with it."""
    topic, role = track.topic(), f"role-{track.namespace.rpartition('/')[2]}"
    if track.near:
        track.policy(f"permissions/{role}", ["produce"])
    track.do("app", "connect", token={"role": role})
    track.do("app", "producer", producer="maker", topic=topic, fails=not track.near)
    track.sleep(0.5)
    if not track.near:
        track.features |= {"auth", "refused"}
        track.expect(Problem("auth-refused", {}, "application"))


@recipe("auth-expired", quick=False, settings=SETTINGS, clients=("python",))
def expired_token(track: Track) -> None:
    """A token that expires and is not renewed. Near miss: the client has a new token when the broker requests it."""
    topic = track.topic()
    track.do("app", "producer", producer="before", topic=topic)  # the program has started
    track.do("app", "connect", token={"expires_s": 4})
    track.do("app", "producer", producer="maker", topic=topic)
    track.do("app", "send", producer="maker", count=5)
    if track.near:
        track.do("app", "renew", token={})
    track.sleep(6)
    if track.near:
        track.do("app", "send", producer="maker", first=5, count=5)
    else:
        track.features.add("auth")
        track.allowed |= {"auth-refused", "reconnect-loop"}
        track.expect(Problem("auth-expired", {}, "application"))
