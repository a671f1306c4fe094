"""Names of dead letter and retry letter topics if ``retryEnable`` is set (ConsumerBuilderImpl.subscribeAsync; 4.2.4).

The retry letter topic is consumed together with the other topics. A missing name is composed of the first topic and the
subscription. If a topic exists under the name that old clients use (which contains only the subscription), that name is
used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.dead_letter_policy import DLQ, RETRY
from pcli.replay.client.consumer_settings import ConsumerSettings, DeadLetterPolicy
from pcli.replay.client.wait_for_all import gather

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["with_dead_letter_topics"]


def with_dead_letter_topics(
    engine: ClientContext, settings: ConsumerSettings, done: Callable[[ConsumerSettings], None]
) -> None:
    """Pass ``done`` the settings with both letter topics, and with the retry letter topic in the topic names."""
    policy = settings.deadLetterPolicy or DeadLetterPolicy()
    first = TopicName.parse(settings.topicNames[0])
    suffixes = {"retryLetterTopic": RETRY, "deadLetterTopic": DLQ}
    names = {kind: getattr(policy, kind) for kind in suffixes}

    def look(kind: str, completed: Callable[[ClientFailure | None], None]) -> None:
        local = f"{settings.subscriptionName}{suffixes[kind]}"
        old = str(dataclasses.replace(first, local=local))

        def on_response(response: int | ClientFailure) -> None:
            names[kind] = f"{first}-{local}" if isinstance(response, ClientFailure) else old
            completed(None)

        engine.partitions(old, on_response, create=False)

    def looked(_: ClientFailure | None) -> None:
        whole = dataclasses.replace(policy, **names)
        topics = tuple(dict.fromkeys((*settings.topicNames, whole.retryLetterTopic)))
        done(dataclasses.replace(settings, deadLetterPolicy=whole, topicNames=topics))

    gather([kind for kind, name in names.items() if not name], look, looked)
