"""The frames of one conversation, out of a reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.cli.reading import Reading
    from pcli.codec.observe import Facts

__all__ = ["conversation"]


def conversation(
    reading: Reading,
    *,
    stream: int | None = None,
    consumer: str = "",
    producer: str = "",
    message_id: str = "",
    request: int | None = None,
) -> Iterator[Facts]:
    """Facts of the frames that belong together.

    One of the arguments says what holds them together; ``stream`` may narrow ``request``.
    """
    from pcli.codec.observe import following
    from pcli.codec.wire import MessageId

    if stream is not None and request is None:
        return (facts for facts in reading.facts() if facts.frame.stream.number == stream)
    if message_id:
        # Two passes: a SEND is known to be about the message only when its receipt comes.
        wanted = MessageId.parse(message_id)
        numbers = following.about_message(reading.facts(), wanted)
        return (facts for facts in reading.facts() if facts.frame.number in numbers)
    if consumer:
        belongs = following.of_consumer(consumer)
    elif producer:
        belongs = following.of_producer(producer)
    else:
        assert request is not None
        belongs = following.of_request(request)
    return (
        facts for facts in reading.facts() if belongs(facts) and (stream is None or facts.frame.stream.number == stream)
    )
