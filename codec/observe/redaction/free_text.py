"""Redaction of free text from brokers and clients: words from a fixed list are kept, and other words are replaced.

Rules of this file
1. Numbers, names of public Java classes and the words in the list, which is compiled from brokers' messages, are kept.
   A name that occurs in the capture is replaced by its pseudonym, and any other word is replaced by a marker.
2. Therefore an unexpected text loses its words but never reveals application data.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.observe.redaction.name_pseudonyms import Names

HIDDEN: Final = "xxx"
"""The marker for a removed word."""

_WORDS: Final = """
a able access acknowledge acknowledged ackset active add address admin after ahead all allowed already
always_compatible always_incompatible an and another any are as at attempt attempted attempting authenticate
authenticated authentication authorization authorize authorized auto auto_split available avro backlog backward
backward_transitive base64 be been before being between bookie bookies boolean broker broker-url brokers busy but by
bytes cached can cannot caused challenge change check checksum chunk client closed closing cluster code compatibility
compatible concurrent conflict conflicts connect connected connecting connection consume consumer consumerid
consumername consumers coordinator corrupt could create created creating creation credentials cursor data dead delete
deleted deleting denied deserialize did different directory dispatch does doesn't domain double due duplicate during
empty enabled encrypted encryption end ended enough entry epoch error errors exceed exceeded exception exclusive
exclusively exist existing exists expired fail failed failover failure faulty fence fenced fencing field fields find
first float for force forward forward_transitive found frame frames from full full_transitive get group groups handle
hard has hash have hello http https id ids illegal in inactive incompatible incorrect incorrectly index initial int
integer internal internally invalid invalidated is it its json jwt key key_shared key_value keyshared keyvalue large
larger last least ledger level limit limits listener local lock longer lookup loop malformed managed match max maximum
message messages metadata method mismatch missed missing mode more most must name namespace namespaces negative new
newer no non-existent non-faulty non-persistent none nonpersistentsubscription nonpersistenttopic not null number of
offset older on once one only open operation operations or other out over overlap owned owner ownership parse
partition partitioned partitions pending per permission permits permitted persistent persistentsubscription
persistenttopic please policies policy position principal produce producer producers properties protobuf provided
provider proxy publish publishing pulsar quota quotas range ranges rate ratelimit re-authenticate reached read reader
ready reason recover redelivered redirect refused register registered registration rejected replicated replicator
replicators request requested requests required reserved reset resource retention retry role same schema schemas seek
segment send sequence server service session shared short shutting signature single size small smaller snapshot soft
some state status sticky still stopped storage strategy string subject subscribe subscribed subscription subscriptions
such supported take temporarily tenant terminated than that the there this throttled time timed timeout timestamp to
token tokens too topic topics transaction transactions transform tried trim try trying txn txnid type unable unacked
unauthorized unavailable unconnected under unexpected unknown unload unloaded unloading unsubscribe unsubscribing
unsupported until up update url use used user using valid validation value version versions wait waiting was watcher
watchers when which while with without write wrong yet
"""
"""Words of the brokers' error messages, in lower case."""

_KNOWN: Final = frozenset(_WORDS.split())

_PLACE: Final = re.compile(
    r"(?:persistent|non-persistent|topic|segment)://[^\s'\"\])},;]+|(?:[0-9A-Fa-f]{0,4}:){2,}[0-9A-Fa-f.]{0,15}"
)
"""A topic, or a candidate for an IPv6 address."""

_TOKEN: Final = re.compile(r"[^\s'\"\[\](){}<>,;:=|]+")
_NUMBER: Final = re.compile(r"-?\d{1,20}")
_CLASS: Final = re.compile(r"(?:org\.apache|java|javax|io\.netty|io\.jsonwebtoken|com\.google)\.[\w.$]+")
_VERSION: Final = re.compile(r"[A-Za-z -]*\d+(?:\.\d+)*(?:-(?:SNAPSHOT|M\d+|rc-?\d+))?")


def redact_text(text: str, names: Names) -> str:
    """Return an error message without application data."""
    parts = []
    place = 0
    for found in _PLACE.finditer(text):
        parts += [_words(text[place : found.start()], names), _place(found[0], names)]
        place = found.end()
    return "".join([*parts, _words(text[place:], names)])


def _place(text: str, names: Names) -> str:
    if "://" in text:
        return names.topic(text)
    return _address(text, names) or _words(text, names)


def _words(text: str, names: Names) -> str:
    return _TOKEN.sub(lambda found: _word(found[0], names), text)


def _word(token: str, names: Names) -> str:
    bare = token.rstrip(".?!")
    rest = token[len(bare) :]
    if not any(map(str.isalnum, bare)) or bare.lower() in _KNOWN or _NUMBER.fullmatch(bare) or _CLASS.fullmatch(bare):
        return token
    known = names.names_in_texts.get(bare)
    if known is None and (bare.count(".") == 3 or bare.startswith("/")):
        known = _address(bare, names)
    return (known or HIDDEN) + rest


def _address(text: str, names: Names) -> str | None:
    """Return the pseudonym of an address, with a leading slash if Java printed one; None for other text."""
    bare = text.lstrip("/")
    try:
        ip_address(bare)
    except ValueError:
        return None
    return text.replace(bare, names.host(bare))


def redact_version(text: str) -> str:
    """Return the name and number from a library version, without the description that an application may append."""
    found = _VERSION.match(text)
    return found[0] if found is not None else HIDDEN if text else text
