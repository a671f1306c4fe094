"""Calls to a broker's REST interface, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName

__all__ = ["RESTART", "Call", "Rename", "topic_path"]

Rename = Callable[[str], str]
"""A function that maps a captured topic name to the live topic name."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    method: str
    path: str
    """The path after ``/admin/v2/``."""
    body: object = None
    position: tuple[int, int] | None = None
    """A captured message id that becomes the body when its live id is known."""


RESTART = Call("RESTART", "")
"""A restart. It is not a REST call, and only an embedded mini-broker supports it."""


def topic_path(topic: str | TopicName) -> str:
    """Return the REST path of a topic. An invalid name is returned unchanged, and the broker refuses it."""
    try:
        name = topic if isinstance(topic, TopicName) else TopicName.parse(str(topic))
    except LocalError:
        return str(topic)
    return f"{name.domain}/{name.tenant}/{name.namespace}/{name.encoded_local}"
