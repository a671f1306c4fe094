"""Calls of a broker's REST interface, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName

__all__ = ["RESTART", "Call", "Rename", "topic_path"]

Rename = Callable[[str], str]
"""The live name of a captured topic."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    method: str
    path: str
    """Behind ``/admin/v2/``."""
    body: object = None
    place: tuple[int, int] | None = None
    """A captured message id that is the body, once its live one is known."""


RESTART = Call("RESTART", "")
"""No call, but what only a mini-broker of one's own can be asked for: to go down and come back."""


def topic_path(topic: str | TopicName) -> str:
    """Where a topic is found; a name that is none stays as it is, and is refused."""
    try:
        name = topic if isinstance(topic, TopicName) else TopicName.parse(str(topic))
    except LocalError:
        return str(topic)
    return f"{name.domain}/{name.tenant}/{name.namespace}/{name.encoded_local}"
