"""Rules for the content of a response: addresses, versions, times, error texts and topics of the live broker."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from pcli.replay.player.comparison.compare_responses import Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence

__all__ = ["address", "clock", "other_topics", "version", "wording"]


def address(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """The live broker has an address of its own, and says so in lookups, closes and statistics.

    A loopback address goes through the service URL (TopicLookupBase of 4.2.4): only that may change with it.
    """
    field, line, frame = difference.field, outcome.line, outcome.frame
    if outcome.name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
        return field in ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls")
    if outcome.name == "CONSUMER_STATS_RESPONSE":
        return field == "address"
    if outcome.name != "LOOKUP_RESPONSE" or line is None or line.frame is None or frame is None:
        return False
    if field == "proxy_through_service_url":
        captured, live = (one.command.lookupTopicResponse.brokerServiceUrl for one in (line.frame, frame))
        return _is_loopback(captured) != _is_loopback(live)
    if field == "brokerServiceUrlTls":  # either broker may have no TLS port
        return all(url is None or _host(url) for url in (difference.captured, difference.live))
    return field == "brokerServiceUrl" and bool(_host(difference.captured)) and bool(_host(difference.live))


def _host(url: Any) -> str:
    """Return the host of a service URL, or an empty string if it is not one."""
    try:
        parts = urlsplit(str(url or ""))
        return parts.hostname or "" if parts.scheme in ("pulsar", "pulsar+ssl") else ""
    except ValueError:
        return ""


def _is_loopback(url: str) -> bool:
    host = _host(url)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def version(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """The live broker is of another version, and says so."""
    line, frame = outcome.line, outcome.frame
    if outcome.name != "CONNECTED" or line is None or line.frame is None or frame is None:
        return False
    told = "server_version", "protocol_version"
    other = line.frame.command.connected.server_version != frame.command.connected.server_version
    return other and (difference.field in told or difference.field.startswith("feature_flags."))


def clock(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """The live broker stamps entries and statistics with its own time, and measures its own rates."""
    if outcome.name == "MESSAGE":
        stamped = None not in (difference.captured, difference.live)
        return stamped and difference.field == "broker_entry.broker_timestamp"
    if outcome.name == "CONSUMER_STATS_RESPONSE":
        return difference.field == "connectedSince" or difference.field.startswith("msgRate")
    return False


def wording(difference: Difference, _outcome: Outcome, evidence: Evidence) -> bool:
    """An error says the same in other words: its code is compared, of its text the first sentence without ids.

    A Java broker puts the exception's class in front, and objects and schemas as Java prints them behind.
    """
    if difference.field not in ("message", "error_message"):
        return False
    told = str(difference.live or "")
    for live_topic, topic in evidence.ids.mapped.items():
        told = told.replace(live_topic, topic)
    captured, live = _sentence(difference.captured), _sentence(told)
    return bool(live) and captured == live


_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:\$\w+)?: ")
_BEHIND: Final = re.compile(
    r" caused by |: org\.apache|: \S+: missing in the writer's schema|Consumer\{|\. Active subscription"
)
_IDS: Final = re.compile(r"\(\d+,\d+\)|\b\d+:\d+\b")
_NAMED: Final = re.compile(r"(with consumer) \S+$")


def _sentence(text: Any) -> str:
    """Return the text of an error without class, cause and printed objects."""
    plain = _CLASS.sub("", str(text or ""))
    plain = _IDS.sub("", plain)
    end = _BEHIND.search(plain)
    return _NAMED.sub(r"\1", (plain[: end.start()] if end else plain).strip(" .:"))


def other_topics(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """A namespace has topics that nobody in the play works on, captured or live: the others are compared."""
    line, frame = outcome.line, outcome.frame
    if outcome.name != "GET_TOPICS_OF_NAMESPACE_RESPONSE" or line is None or line.frame is None or frame is None:
        return False
    if difference.field not in ("topics", "topics_hash"):
        return False
    captured = set(line.frame.command.getTopicsOfNamespaceResponse.topics)
    live = set(evidence.ids.captured_topics(frame.command.getTopicsOfNamespaceResponse.topics))
    others = captured ^ live
    return bool(others) and not others & {line.topic for line in evidence.script.lines}
