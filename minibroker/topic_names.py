"""Validation of topic and namespace names, and the names of system topics.

Sources: TopicName, NamespaceName, SystemTopicNames; verified on 4.2.4.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import DOMAINS, TopicName
from pcli.minibroker.errors import Refused

INVALID_NAME: Final = "Invalid topic name: "
"""The start of most errors for invalid names."""
_SCALABLE: Final = ("topic", "segment")
"""The domains of scalable topics and their segments."""
_SEGMENT: Final = re.compile("[^/]+/[0-9a-fA-F]{1,4}-[0-9a-fA-F]{1,4}-[0-9]{1,19}")
"""The local name of a segment."""

_PART: Final = re.compile(r"[-=:.\w]+", re.ASCII)
CHANGE_EVENTS: Final = "__change_events"
"""The topic of a namespace that contains the policies of its topics."""
SNAPSHOT: Final = "__transaction_buffer_snapshot"
"""The topic of a namespace that contains the snapshots of its transaction buffers."""
_EVENTS: Final = (CHANGE_EVENTS, SNAPSHOT, f"{SNAPSHOT}_indexes", f"{SNAPSHOT}_segments")
_PENDING_ACK: Final = "__transaction_pending_ack"
_COORDINATORS: Final = re.compile("persistent://pulsar/system/(transaction_coordinator_assign|__transaction_log_).*")


def topic_name(text: str, *, scalable: bool = False, prefix: str = INVALID_NAME) -> TopicName:
    """Parse the topic name in a request; ``scalable`` permits names of scalable topics and segments.

    Raises Refused (InvalidTopicName); the message begins with ``prefix``.
    """
    try:
        name = TopicName.parse(text)
    except LocalError:
        name = None
    if name is None or name.cluster is not None or not _permitted(name, scalable=scalable):
        raise Refused(pb.InvalidTopicName, f"{prefix}{_problem(text, scalable=scalable)}")
    return name


def _permitted(name: TopicName, *, scalable: bool) -> bool:
    if name.domain == "segment":
        return scalable and _SEGMENT.fullmatch(name.local) is not None
    return scalable or name.domain != "topic"


def _problem(text: str, *, scalable: bool) -> str:
    """Return the message of the exception of Java's TopicName for an invalid name, in the order of its checks.

    5.0.1, which has scalable topics, checks the domain first. 4.2.4 checks it after the number of parts.
    """
    written, separator, rest = text.partition("://")
    if not separator:
        written, rest = "persistent", text if "/" in text else f"public/default/{text}"
    domain = written.lower()
    words = rest.split("/", 2 if domain == "segment" and scalable else 3)
    bad_domain = f"Invalid topic domain: '{written}'" if domain not in (DOMAINS if scalable else DOMAINS[:2]) else ""
    if bad_domain and scalable:
        return bad_domain
    if not separator and len(words) != 3 and all(words):
        return (
            f"Invalid short topic name '{text}', it should be in the format of <tenant>/<namespace>/<topic> or <topic>"
        )
    if len(words) < 3:
        return f"Invalid topic name {text}"
    if not all(word.strip() for word in (words if len(words) > 3 or (scalable and domain in _SCALABLE) else words[:2])):
        return f"Invalid topic name {rest}"
    if len(words) > 3:
        return (
            "V1 topic names (with cluster component) are no longer supported. "
            f"Please use the V2 format: '<domain>://tenant/namespace/topic'. Got: {text}"
        )
    if bad_domain:
        return bad_domain
    if not words[2].strip():
        return f"Invalid topic name: {text}. Topic local name must not be blank."
    invalid = [word for word in words[:2] if not _PART.fullmatch(word)]
    if invalid:
        return f"Invalid named entity: {invalid[0]}"
    if "/" not in words[2]:
        return invalid_segment_name(text)
    descriptor = words[2].rpartition("/")[2]
    return f"Invalid segment descriptor: expected '<hexStart>-<hexEnd>-<segmentId>', got: '{descriptor}'"


def invalid_segment_name(text: str) -> str:
    """Return the text of the error for an invalid name of a segment."""
    form = "local name must contain '<parent-topic>/<hashStart>-<hashEnd>-<segmentId>'"
    return f"Invalid segment topic name: {form}. Got: {text}"


def document_path(name: TopicName) -> str:
    """Return the end of the paths of a topic's documents, such as ``public/default/persistent/orders``."""
    return f"{name.tenant}/{name.namespace}/{name.domain}/{quote(name.local, safe='')}"


def topic_of_path(path: str) -> TopicName:
    """Return the topic of an end of a path that `document_path` returned."""
    tenant, namespace, domain, local = path.split("/")
    return TopicName(domain, tenant, namespace, unquote(local))


def check_namespace(text: str) -> str:
    """Return the namespace in a request, ``tenant/namespace``. Raises RemoteError, which closes the connection."""
    parts = text.split("/")
    if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        raise RemoteError(f"{text!r} is not a valid namespace")
    return text


def check_subscription_name(name: str) -> None:
    """Check the name of a new subscription for strictlyVerifySubscriptionName. Raises Refused (ProducerBusy)."""
    if not _PART.fullmatch(name):
        allowed = "Please let the subscription only contains '/w(a-zA-Z_0-9)' or '_', the current value is"
        raise Refused(pb.ProducerBusy, f"{allowed} {name}")


def namespace_of(name: TopicName) -> str:
    """Return ``tenant/namespace`` of a topic."""
    return f"{name.tenant}/{name.namespace}"


def is_system(name: TopicName) -> bool:
    """Return whether a topic is a system topic. System topics are hidden from lists and exempt from limits."""
    local = name.base.local
    return local in _EVENTS or local.endswith(_PENDING_ACK) or namespace_of(name) == "pulsar/system"


def pending_ack_topic(topic: TopicName, subscription: str) -> str:
    """Return the full name of the topic that contains the pending acknowledgements of a subscription."""
    return f"{topic}-{subscription}{_PENDING_ACK}"


def is_internal(name: TopicName) -> bool:
    """Return whether a topic belongs to transactions; REST cannot create it (isTransactionInternalName)."""
    return str(name).endswith(_PENDING_ACK) or _COORDINATORS.fullmatch(str(name)) is not None
