"""Pseudonyms of names. A name has the same pseudonym in the whole capture; a known format is preserved.

Rules of this file
1. A pseudonym is a word for the kind of name and a number in order of appearance. It contains no part of the name.
2. The parts of a name that rules read are kept: the domain of a topic, its partition, the suffixes ``-DLQ`` and
   ``-RETRY`` after the topic and subscription, and the names of the broker's own topics
   (codec/observe/system_topics.py).
3. Addresses are replaced by private addresses (10.0.0.0/8, fd00::/8), in URLs and strings as well as in packets.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from pcli.codec.observe.redaction.key_pseudonyms import key_pseudonyms
from pcli.codec.observe.system_topics import is_neutral_topic, is_system_subscription, is_system_topic
from pcli.codec.wire.topic_name import DOMAINS, split_partition

_KEPT: Final = frozenset({"tenant", "namespace", "topic", "subscription", "consumer", "producer"})
"""The kinds that ``keep_names`` keeps."""

_NAMES_IN_TEXTS: Final = _KEPT | {"role", "host", "listener", "cluster"}
"""The kinds whose names occur in error messages."""

_LETTERS: Final = ("-DLQ", "-RETRY")

_SYSTEM_TOPICS: Final = re.compile(r"__(?:change_events|transaction_\w+|metadata\w*|pulsar_\w+|compaction)")
_SYSTEM_PREFIX: Final = re.compile(r"__compaction|__system_reader|pulsar\.repl\b")
_SYSTEM_PLACE: Final = ["pulsar", "system"]

_URL: Final = re.compile(r"((?:\w[\w+.-]*://)?)(\[[^\]]*\]|[^:/]*)((?::\d+)?).*", re.DOTALL)


class Names:
    """All names of one capture with their pseudonyms."""

    def __init__(self, *, keep_names: bool = False) -> None:
        """``keep_names`` keeps the names of tenants, namespaces, topics, subscriptions, consumers and producers."""
        self._keep = _KEPT if keep_names else frozenset[str]()
        self._by_kind: dict[str, dict[str, str]] = {}
        self._keys: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()
        self._addresses: dict[bytes, bytes] = {}
        self.names_in_texts: dict[str, str] = {}
        """Names that may occur in free text, with their pseudonyms."""

    def name(self, kind: str, text: str) -> str:
        """Return the pseudonym of a name of this kind. An empty name remains empty."""
        if not text:
            return text
        if kind in self._keep:
            return self.names_in_texts.setdefault(text, text)
        known = self._by_kind.setdefault(kind, {})
        found = known.get(text)
        if found is None:
            found = known[text] = f"{kind}-{len(known) + 1}"
            if kind in _NAMES_IN_TEXTS:
                self.names_in_texts.setdefault(text, found)
        return found

    # -- topics, subscriptions and producers

    def topic(self, text: str) -> str:
        """Return the pseudonym of a topic, in its long or short form."""
        if "topic" in self._keep:
            return text
        domain, separator, place = text.partition("://")
        if not separator or domain not in DOMAINS:
            domain, separator, place = "", "", text
        words = place.split("/")
        rest = words.pop() if domain == "segment" and len(words) > 3 else ""
        local = words.pop()
        parts = [self.namespace("/".join(words))] if words else []
        local = local if _is_fixed(words, local) else self._local(local)
        return f"{domain}{separator}{'/'.join([*parts, local, *([rest] if rest else [])])}"

    def namespace(self, text: str) -> str:
        """Return the pseudonym of a namespace, ``tenant/namespace`` or ``tenant/cluster/namespace``."""
        words = text.split("/")
        if "namespace" in self._keep or words == _SYSTEM_PLACE:
            return text
        kinds = ("tenant", "namespace") if len(words) < 3 else ("tenant", "cluster", "namespace")
        return "/".join(self.name(kind, word) for kind, word in zip(kinds, words))

    def _local(self, text: str) -> str:
        base, partition = split_partition(text)
        suffix = text[len(base) :] if partition >= 0 else ""
        for letter in _LETTERS:
            if base.endswith(letter):
                base, suffix = base.removesuffix(letter), letter + suffix
                break
        prefix = "__" if base.startswith("__") else ""
        return prefix + (self._of_subscription(base) if suffix else self.name("topic", base)) + suffix

    def _of_subscription(self, text: str) -> str:
        """Return the pseudonym of ``topic-subscription``, a dead letter topic without suffix, if both are known."""
        topics, subscriptions = (self._by_kind.get(kind, {}) for kind in ("topic", "subscription"))
        for place, letter in enumerate(text):
            if letter == "-" and text[:place] in topics and text[place + 1 :] in subscriptions:
                return f"{topics[text[:place]]}-{subscriptions[text[place + 1 :]]}"
        return self.name("topic", text)

    def pattern(self, text: str) -> str:
        """Return the pseudonym of a topic pattern. The namespace and the rest are replaced separately."""
        head, separator, rest = text.rpartition("/")
        domain, between, place = head.partition("://")
        if domain not in DOMAINS or not between:
            return self.name("pattern", text)
        return f"{domain}://{self.namespace(place)}{separator}{self.name('pattern', rest)}"

    def subscription(self, text: str) -> str:
        """Return the pseudonym of a subscription. The prefix of a broker's own subscription is kept."""
        found = _SYSTEM_PREFIX.match(text) if is_system_subscription(text) else None
        if found is None:
            return self.name("subscription", text)
        rest = self.name("reader", text[found.end() :])
        return f"{found[0]}.{rest}" if rest else found[0]

    def producer(self, text: str) -> str:
        """Return the pseudonym of a producer. A replicator's prefix is kept."""
        found = _SYSTEM_PREFIX.match(text)
        return (
            self.name("producer", text) if found is None else f"{found[0]}.{self.name('cluster', text[found.end() :])}"
        )

    # -- network addresses

    def url(self, text: str) -> str:
        """Return the pseudonyms of comma-separated service URLs or ``host:port`` pairs."""
        return ",".join(self._url(one) for one in text.split(",")) if text else text

    def _url(self, text: str) -> str:
        found = _URL.fullmatch(text)
        assert found is not None  # the pattern matches every string, with an empty host if necessary
        scheme, host, port = found.groups()
        return f"{scheme}{self.host(host)}{port}"

    def host(self, text: str) -> str:
        """Return the pseudonym of a host name or an address. An IPv6 address may be in brackets."""
        bare = text.strip("[]")
        try:
            packed = ip_address(bare).packed
        except ValueError:
            return self.name("host", text)
        address = _text(self.address(packed))
        return text.replace(bare, address)

    def address(self, packed: bytes) -> bytes:
        """Return the pseudonym of an IP address of 4 or 16 bytes."""
        found = self._addresses.get(packed)
        if found is None:
            number = sum(len(one) == len(packed) for one in self._addresses) + 1
            head = b"\x0a" if len(packed) == 4 else b"\xfd"
            found = self._addresses[packed] = head + number.to_bytes(len(packed) - 1, "big")
        return found

    # -- keys

    def key(self, key: bytes) -> bytes:
        """Return the pseudonym of a key, which has the same hash (see key_pseudonyms.py)."""
        if not key:
            return key
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = next(one for one in key_pseudonyms(key) if one not in self._used)
            self._used.add(found)
        return found

    def key_text(self, text: str, *, base64: bool) -> str:
        """Return the pseudonym of a key in a text field, which may contain base64."""
        if base64:
            try:
                return b64encode(self.key(b64decode(text, validate=True))).decode()
            except Base64Error:
                pass  # invalid base64 is treated as text
        return self.key(text.encode(errors="surrogatepass")).decode()


def _is_fixed(place: list[str], local: str) -> bool:
    """Whether the last component of a topic's name is defined by brokers."""
    base = split_partition(local)[0]
    if place == _SYSTEM_PLACE:
        return is_neutral_topic(base) or is_system_topic(f"persistent://pulsar/system/{base}")
    return _SYSTEM_TOPICS.fullmatch(base) is not None


def _text(packed: bytes) -> str:
    return str(IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed))
