"""Rules for the content of a response: addresses, versions, times, error messages and topics of the live broker."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from pcli.replay.player.comparison.compare_responses import Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence


def address(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """Lookup responses, CLOSE commands and statistics contain a broker's address; the live broker has a different one.

    A broker with a loopback address sets ``proxy_through_service_url`` (TopicLookupBase of 4.2.4). Other brokers do
    not set it.
    """
    field, step, frame = difference.field, outcome.step, outcome.frame
    if outcome.name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
        return field in ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls")
    if outcome.name == "CONSUMER_STATS_RESPONSE":
        return field == "address"
    if outcome.name in ("SCALABLE_TOPIC_UPDATE", "WATCH_TC_ASSIGNMENTS_UPDATE"):
        return _is_other_address(difference)
    if outcome.name != "LOOKUP_RESPONSE" or step is None or step.frame is None or frame is None:
        return False
    if field == "proxy_through_service_url":
        captured, live = (one.command.lookupTopicResponse.brokerServiceUrl for one in (step.frame, frame))
        return _is_loopback(captured) != _is_loopback(live)
    if field == "brokerServiceUrlTls":  # either broker may have no TLS port
        return all(url is None or _host(url) for url in (difference.captured, difference.live))
    return field == "brokerServiceUrl" and bool(_host(difference.captured)) and bool(_host(difference.live))


def _is_other_address(difference: Difference) -> bool:
    name, tls = difference.field.rpartition(".")[2].removesuffix("_tls"), difference.field.endswith("_tls")
    urls = (difference.captured, difference.live)
    if name not in ("broker_url", "controller_broker_url", "broker_service_url"):
        return False
    return all(_host(url) or (tls and url is None) for url in urls)  # either broker may have no TLS port


def _host(url: Any) -> str:
    """Return the host of a service URL, or an empty string if the value is not a service URL."""
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
    """The live broker has a different version."""
    step, frame = outcome.step, outcome.frame
    if outcome.name != "CONNECTED" or step is None or step.frame is None or frame is None:
        return False
    fields = "server_version", "protocol_version"
    other = step.frame.command.connected.server_version != frame.command.connected.server_version
    return other and (difference.field in fields or difference.field.startswith("feature_flags."))


def clock(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """Entries and statistics contain times of the live broker and rates that it measured."""
    if outcome.name == "MESSAGE":
        stamped = None not in (difference.captured, difference.live)
        return stamped and difference.field == "broker_entry.broker_timestamp"
    if outcome.name == "SCALABLE_TOPIC_UPDATE":
        return difference.field.endswith((".created_at_ms", ".sealed_at_ms")) and None not in (
            difference.captured,
            difference.live,
        )
    if outcome.name == "CONSUMER_STATS_RESPONSE":
        return difference.field == "connectedSince" or difference.field.startswith("msgRate")
    return False


def wording(difference: Difference, _outcome: Outcome, evidence: Evidence) -> bool:
    """The messages of two errors with the same code differ, but their first sentences are equal except for ids.

    A Java broker writes the exception's class before the text, and objects and schemas after it.
    """
    if difference.field not in ("message", "error_message"):
        return False
    text = str(difference.live or "")
    for live_topic, topic in evidence.ids.mapped.items():
        text = text.replace(live_topic, topic)
    for name, live_name in evidence.ids.names.items():
        text = text.replace(live_name, name)
    captured, live = _sentence(difference.captured), _sentence(text)
    return bool(live) and captured == live


_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:\$\w+)?: ")
_END: Final = re.compile(
    r" caused by |: org\.apache|: \S+: missing in the writer's schema|Consumer\{|\. Active subscription"
)
_IDS: Final = re.compile(r"\(\d+,\d+\)|\b\d+:\d+\b")
_NAMED: Final = re.compile(r"(with consumer) \S+$")


def _sentence(text: Any) -> str:
    """Return the text of an error without class names, causes or objects."""
    plain = _CLASS.sub("", str(text or ""))
    plain = _IDS.sub("", plain)
    end = _END.search(plain)
    return _NAMED.sub(r"\1", (plain[: end.start()] if end else plain).strip(" .:"))


def other_topics(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The captured or live namespace has topics that the replay does not use; the topics that it uses are equal."""
    step, frame = outcome.step, outcome.frame
    if outcome.name != "GET_TOPICS_OF_NAMESPACE_RESPONSE" or step is None or step.frame is None or frame is None:
        return False
    if difference.field not in ("topics", "topics_hash"):
        return False
    captured = set(step.frame.command.getTopicsOfNamespaceResponse.topics)
    live = set(evidence.ids.captured_topics(frame.command.getTopicsOfNamespaceResponse.topics))
    others = captured ^ live
    return bool(others) and not others & {step.topic for step in evidence.script.steps}
