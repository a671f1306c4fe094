"""A consumer of all topics of a namespace that match a pattern, including topics that are created later.

Rules of this file (PatternMultiTopicsConsumerImpl, PulsarClientImpl.patternTopicSubscribeAsync; 4.2.4)
1. The matching topics are requested from the broker. If the broker does not filter the list, the client filters it by
   the topic name without its domain. Only existing topics are consumed; no topic is created.
2. For persistent topics a watcher is registered after the first topics are consumed. Topics are added and removed when
   the watcher reports changes.
3. Even if there is a watcher, changes are polled every ``patternAutoDiscoveryPeriod`` (at least a second): through the
   watcher if the broker can reconcile, or else with the list of topics. The request contains the hash of the consumed
   topics, and the broker omits an unchanged list.
4. Numbers of partitions are not polled, because the matching topics are names of partitions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import google_crc32c

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.connection.topic_list_watcher import TopicListWatcher
from pcli.replay.client.consumer.cursor_requests import SeekDone
from pcli.replay.client.consumer.multi_topics_consumer import Created, MultiTopicsConsumer
from pcli.replay.client.settings import ConsumerSettings

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

_MODES: Final = {
    "PersistentOnly": pb.CommandGetTopicsOfNamespace.PERSISTENT,
    "NonPersistentOnly": pb.CommandGetTopicsOfNamespace.NON_PERSISTENT,
    "AllTopics": pb.CommandGetTopicsOfNamespace.ALL,
}


class PatternConsumer(MultiTopicsConsumer):
    """A consumer of the matching topics. ``created`` is called once, with the consumer or the ClientFailure."""

    def __init__(self, engine: ClientContext, settings: ConsumerSettings, pattern: TopicName, created: Created) -> None:
        super().__init__(engine, dataclasses.replace(settings, autoUpdatePartitions=False), created, create=False)
        self.pattern = str(pattern)
        self.namespace = f"{pattern.tenant}/{pattern.namespace}"
        self._matches = re.compile(self.pattern.partition("://")[2]).fullmatch
        self._mode = _MODES[settings.regexSubscriptionMode]
        self._watcher: TopicListWatcher | None = None
        self._timer: Timer | None = None

    @property
    def known_hash(self) -> str:
        """Hash of the consumed topics (TopicList.calculateHash)."""
        text = ",".join(sorted(self.consumers))
        return int(google_crc32c.value(text.encode())).to_bytes(4, "little").hex()

    def begin(self) -> None:
        """List the matching topics and consume them."""

        def found(response: pb.CommandGetTopicsOfNamespaceResponse | ClientFailure) -> None:
            if isinstance(response, ClientFailure):
                self._tell(response)
            else:
                self.start(dict.fromkeys(_bases(self._filtered(response))))

        self.engine.topics_of(self.namespace, self._mode, self.pattern, "", found)

    def _started(self, failure: ClientFailure | None) -> None:
        super()._started(failure)
        if failure is not None:
            return
        if self._mode == _MODES["PersistentOnly"]:
            self._watcher = TopicListWatcher(
                self.engine,
                self.namespace,
                self.pattern,
                known_hash=lambda: self.known_hash,
                on_list=self._listed,
                on_update=lambda update: self._change(update.new_topics, update.deleted_topics, _nothing),
                done=lambda _: self._plan(),
            )
            self._watcher.start()
        else:
            self._plan()

    # -- polling -------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        if self.state is State.READY:
            wait = max(1, self.settings.patternAutoDiscoveryPeriod) * 1000
            self._timer = self.engine.call_at(self.engine.now + wait, self._find_connection)

    def _find_connection(self) -> None:
        if self._watcher is not None and self._watcher.can_reconcile:
            self._watcher.reconcile(self._reconciled)
        else:
            self._ask()

    def _reconciled(self, response: pb.CommandWatchTopicListSuccess | ClientFailure) -> None:
        if isinstance(response, ClientFailure):
            self._ask()
        else:
            self._listed(response)
            self._plan()

    def _ask(self) -> None:
        def found(response: pb.CommandGetTopicsOfNamespaceResponse | ClientFailure) -> None:
            if not isinstance(response, ClientFailure) and response.changed:
                self._replace(self._filtered(response))
            self._plan()

        self.engine.topics_of(self.namespace, self._mode, self.pattern, self.known_hash, found)

    def _listed(self, response: pb.CommandWatchTopicListSuccess) -> None:
        if response.topics_hash != self.known_hash:
            self._replace(response.topic)

    def _filtered(self, response: pb.CommandGetTopicsOfNamespaceResponse) -> list[str]:
        if response.filtered:
            return list(response.topics)
        return [name for name in response.topics if self._matches(str(TopicName.parse(name).base).partition("://")[2])]

    # -- changes -------------------------------------------------------------------------------------------------------

    def _replace(self, topics: Iterable[str]) -> None:
        now = set(topics)
        self._change(sorted(now - set(self.consumers)), sorted(set(self.consumers) - now), _nothing)

    def _change(self, new: Iterable[str], close_reason: Iterable[str], done: SeekDone) -> None:
        """Add and remove topics. A partition that is added or removed is one child of its topic."""
        if self.state is not State.READY:
            return
        for name in close_reason:
            if name in self.consumers:
                self._remove_child(name, _nothing)
            base = str(TopicName.parse(name).base)
            if not any(str(TopicName.parse(one).base) == base for one in self.consumers):
                self.partitions.pop(base, None)
        fresh = []
        for base in _bases(new):
            count = self.partitions.get(base)
            if count is None:
                fresh.append(base)
            elif count:
                self.engine.partitions(base, lambda found, base=base: self._extended(base, found))  # type: ignore[misc]
        self.add_topics(fresh, done)

    def _stop(self) -> None:
        super()._stop()
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.close(_nothing)


def _bases(topics: Iterable[str]) -> list[str]:
    """Return the topics to which these topic and partition names belong."""
    return sorted({str(TopicName.parse(topic).base) for topic in topics})


def _nothing(_: ClientFailure | None) -> None:
    """Ignore the result."""


def open_pattern(engine: ClientContext, settings: ConsumerSettings, done: Created) -> None:
    """Create a consumer of the topics that match ``topicsPattern``."""
    try:
        pattern = TopicName.parse(settings.topicsPattern)
        consumer = PatternConsumer(engine, settings, pattern, done)
    except LocalError as fault:
        done(ClientFailure("InvalidConfiguration", fault.text))
    except re.error as fault:
        done(ClientFailure("InvalidConfiguration", f"{settings.topicsPattern!r} is not a regular expression: {fault}"))
    else:
        consumer.begin()
