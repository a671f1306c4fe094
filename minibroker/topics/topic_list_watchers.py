"""Lists of topics that match a pattern: their hash, and the watchers that report changes.

Rules of this file (TopicList, TopicListService; 4.2.4)
1. A pattern is used without its scheme and must match the whole ``tenant/namespace/local name`` without the partition
   suffix. Partitions are listed individually.
2. The hash is the CRC-32C of the sorted names joined with commas. Its bytes are in little-endian order.
3. Only persistent topics are watched. An update contains the new and the deleted names and the hash of all matching
   topics. It is never sent before the response to WATCH_TOPIC_LIST.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

import google_crc32c

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.topic_names import namespace_of
from pcli.minibroker.topics.transport_cnx import TransportCnx

_SCHEMES: Final = ("persistent", "non-persistent", "^persistent", "^non-persistent")
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_MATCH_SECONDS: Final = 0.05
"""Maximum time for one name, in seconds."""


def without_scheme(text: str) -> str:
    """Return a pattern without ``persistent://``. Raises ValueError for an unknown scheme."""
    scheme, *rest = text.split("://")
    if not rest:
        return text
    if scheme not in _SCHEMES or not any(rest):
        raise ValueError(f"Does not support topic domain: {scheme}")
    return ("^" if scheme[0] == "^" else "") + rest[0]


class Pattern(Protocol):
    """A regular expression compiled by RE2 or by the package regex."""

    def fullmatch(self, text: str) -> object:
        """Return a true value if the expression matches the whole text."""


def compile_pattern(text: str) -> Pattern:
    """Compile a client's regular expression without its scheme. Raises re.error, or ValueError (`without_scheme`).

    RE2 is used, as on the real broker, because it takes linear time for any pattern. Patterns that RE2 does not support
    (lookahead, lookbehind) are compiled by an engine that backtracks, with a time limit.
    """
    import re2

    text = without_scheme(text)
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeError):
        return _compile_java(text)
    return pattern


def _compile_java(text: str) -> Pattern:
    """Compile a pattern in Java's syntax for `_TimedPattern`. Raises re.error."""
    import regex

    text = _QUOTED.sub(lambda found: re.escape(found[1]), text)
    try:
        return _TimedPattern(regex.compile(text.replace(r"\z", r"\Z")))
    except (regex.error, OverflowError, RecursionError) as error:
        raise re.error(str(error)) from None


class _TimedPattern:
    """A pattern of the package regex. After a name for which the time limit was exceeded, no name matches."""

    def __init__(self, pattern: Any) -> None:
        self._fullmatch = pattern.fullmatch
        self._exceeded = False

    def fullmatch(self, text: str) -> object:
        """Return a true value if the expression matches the whole text within the time limit."""
        if self._exceeded:
            return None
        try:
            return self._fullmatch(text, timeout=_MATCH_SECONDS)
        except TimeoutError:
            self._exceeded = True
            return None


def matching(names: Iterable[str], pattern: Pattern) -> list[str]:
    """Return the full topic names that match."""
    return [name for name in names if pattern.fullmatch(str(TopicName.parse(name).base).partition("://")[2])]


def topics_hash(names: Iterable[str]) -> str:
    """Return the hash of a list of topics: eight hexadecimal digits, ``00000000`` for an empty list."""
    value = int(google_crc32c.value(",".join(sorted(names)).encode()))
    return value.to_bytes(4, "little").hex()


class WatchingCnx(TransportCnx, Protocol):
    """A connection with watchers."""

    watchers: dict[int, TopicListWatcher]
    """Watchers by id."""


class TopicListWatcher:
    """One WATCH_TOPIC_LIST of one client."""

    def __init__(self, connection: WatchingCnx, command: pb.CommandWatchTopicList, topics: set[str]) -> None:
        self.connection = connection
        self.id = command.watcher_id
        self.namespace = command.namespace
        self.pattern = compile_pattern(command.topics_pattern)
        self.topics = topics
        """Full names of the matching topics."""

    def changed(self, new: Iterable[str], deleted: Iterable[str]) -> None:
        """Send an update if any of these topics matches."""
        added = sorted(set(matching(new, self.pattern)) - self.topics)
        removed = sorted(self.topics.intersection(deleted))
        if added or removed:
            self.topics.update(added)
            self.topics.difference_update(removed)
            update = pb.CommandWatchTopicUpdate(
                watcher_id=self.id, new_topics=added, deleted_topics=removed, topics_hash=topics_hash(self.topics)
            )
            self.connection.send_command(update)


class TopicListWatchers:
    """All watchers of a broker, by namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[TopicListWatcher, None]] = {}

    def add(self, watcher: TopicListWatcher) -> None:
        """Add a watcher. It replaces a watcher with the same id on the same connection."""
        older = watcher.connection.watchers.get(watcher.id)
        if older is not None:
            self.remove(older)
        watcher.connection.watchers[watcher.id] = watcher
        self._by_namespace.setdefault(watcher.namespace, {})[watcher] = None

    def remove(self, watcher: TopicListWatcher) -> None:
        """Remove a watcher."""
        watchers = self._by_namespace.get(watcher.namespace, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._by_namespace.pop(watcher.namespace, None)
        if watcher.connection.watchers.get(watcher.id) is watcher:
            del watcher.connection.watchers[watcher.id]

    def changed(self, name: TopicName, new: Iterable[str] = (), deleted: Iterable[str] = ()) -> None:
        """Notify watchers of new or deleted topics. They are one topic, or partitions of one topic."""
        if name.persistent:
            for watcher in list(self._by_namespace.get(namespace_of(name), ())):
                watcher.changed(new, deleted)
