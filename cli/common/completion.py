"""Shell completion of rule names, field names, settings and topics.

Rules of this file
1. This module is imported with every command. At the top level it therefore imports only modules that every command
   imports.
2. A completion never fails and never prints. For a capture that cannot be read, there are no completions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from pcli.codec.observe import Facts

_FRAMES_READ: Final = 20_000
"""Number of frames that are searched for topics. It is limited because a completion must not take seconds."""

_TOPIC_VALUE: Final = re.compile(r"""(.*\bpulsar\.topic\s*(?:==|!=|contains)\s*)(["']?)([^"']*)$""", re.DOTALL)
_ENUM_VALUE: Final = re.compile(r"""(.*?\b(pulsar[\w.]+)\s*(?:==|!=)\s*)(["']?)(\w*)$""", re.DOTALL)
_LAST_WORD: Final = re.compile(r"(.*?)([\w.]*)$", re.DOTALL)

Completions = list[tuple[str, str]]
"""Completions, each with a help text."""


def complete_rule(incomplete: str) -> Completions:
    """Return the rules of `diagnose` that begin with ``incomplete``."""
    from pcli.codec.observe.rules import RULES

    return [(rule.name, rule.title) for rule in RULES.values() if rule.name.startswith(incomplete)]


def complete_severity_or_rule(incomplete: str) -> Completions:
    """Return the values of ``--fail-on`` that begin with ``incomplete``."""
    words = [("error", "errors"), ("warning", "errors and warnings"), ("any", "all findings")]
    return [*(word for word in words if word[0].startswith(incomplete)), *complete_rule(incomplete)]


def complete_field(incomplete: str) -> Completions:
    """Return the fields of frames that begin with ``incomplete``."""
    from pcli.codec.observe import describe_fields

    return [(one.name, one.help) for one in describe_fields() if one.name.startswith(incomplete)]


def complete_filter(context: typer.Context, incomplete: str) -> Completions:
    """Complete a display filter: a field name, a value of an enum, or a topic of the capture."""
    return filter_completions(incomplete, lambda topic: _topics(context, topic))


def filter_completions(incomplete: str, topics: Callable[[str], list[str]]) -> Completions:
    """Return the completions of a display filter. ``topics`` returns the topics that begin with a string."""
    if match := _TOPIC_VALUE.match(incomplete):
        before, quote, topic = match.groups()
        quote = quote or "'"
        return [(f"{before}{quote}{one}{quote}", "topic of the capture") for one in topics(topic)]
    if match := _ENUM_VALUE.match(incomplete):
        return _enum_completions(*match.groups())
    match = _LAST_WORD.match(incomplete)
    assert match is not None
    return [(f"{match[1]}{name}", text) for name, text in complete_field(match[2])] if match[2] else []


def _enum_completions(before: str, name: str, quote: str, begun: str) -> Completions:
    """Return the values of the field that begin with ``begun``; none if the field has no list of values."""
    from pcli.codec.observe.fields.field_table import lookup_field

    field, quote = lookup_field(name), quote or '"'
    words = field.words if field is not None else ()
    return [(f"{before}{quote}{word}{quote}", "value") for word, _ in words if word.lower().startswith(begun.lower())]


def complete_topic(context: typer.Context, incomplete: str) -> Completions:
    """Return the topics of the capture that begin with ``incomplete``."""
    return [(topic, "topic of the capture") for topic in _topics(context, incomplete)]


def complete_object(context: typer.Context, incomplete: str) -> Completions:
    """Return the topics, subscriptions, consumers and producers of the capture that begin with ``incomplete``."""
    found = {(name, f"{kind} of the capture") for kind, name in _all_objects(context) if name.startswith(incomplete)}
    return sorted(found)


def complete_setting(incomplete: str) -> Completions:
    """Return completions that begin with ``incomplete``.

    They are settings of the mini-broker, and ``setting=true`` for settings that select a dispatcher.
    """
    from pcli.minibroker.capabilities import dispatcher_rows
    from pcli.minibroker.settings import Settings

    names = [(f"{row.name}=", "setting of broker.conf") for row in Settings.describe()]
    chosen = [(f"{row['setting']}=true", f"selects {row['class']}") for row in dispatcher_rows() if row["setting"]]
    return [(word, text) for word, text in (*names, *chosen) if word.startswith(incomplete)]


def _topics(context: typer.Context, incomplete: str) -> list[str]:
    found = {topic for topic in _all_topics(context) if topic.startswith(incomplete)}
    return sorted(found)


def _all_topics(context: typer.Context) -> Iterator[str]:
    """Yield the topics of the captures that are listed in the incomplete command line."""
    from pcli.codec.observe import column, find_field
    from pcli.codec.observe.text_format import short_topic

    topic_of = column(find_field("pulsar.topic"))
    for facts in _frames(context):
        topic = topic_of(facts)
        if topic:
            yield from {topic, short_topic(topic)}


def _all_objects(context: typer.Context) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of the producers and consumers of the captures, and of their topics."""
    from pcli.codec.observe.observer_state import Consumer
    from pcli.codec.observe.text_format import short_topic

    for facts in _frames(context):
        peer = facts.peer
        if peer is None or facts.system:
            continue
        if peer.topic:
            yield "topic", short_topic(peer.topic)
        if isinstance(peer, Consumer) and peer.subscription:
            yield "subscription", peer.subscription
        if peer.name:
            yield "consumer" if isinstance(peer, Consumer) else "producer", peer.name


def _frames(context: typer.Context) -> Iterator[Facts]:
    """Yield the first frames of the captures that are listed in the incomplete command line."""
    from pcli.codec.capture import CapturedFrame, read_capture
    from pcli.codec.errors import PcliError
    from pcli.codec.observe import Observer
    from pcli.replay.sources.capture_sources import open_inputs

    params = context.params
    files = [*(params.get("read") or ()), *(params.get("more") or ()), *(params.get("captures") or ())]
    files = [name for name in files if name != "-"]
    if not files:
        return
    see = Observer().see
    inputs = []
    try:
        inputs = open_inputs(files, rewindable=False)
        for event in islice(read_capture((one.name, one.file) for one in inputs), _FRAMES_READ):
            if isinstance(event, CapturedFrame):
                yield see(event)
    except (PcliError, OSError):
        return
    finally:
        for one in inputs:
            one.file.close()
