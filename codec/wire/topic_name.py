"""Topic names: the short forms, both generations of the long form, partitions, and percent-encoding.

Sources: class TopicName; the broker's rules, observed on 4.2.4. A v1 name has a cluster between tenant and namespace
(``persistent://tenant/cluster/namespace/topic``). The local name may contain slashes in v1, but not in v2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from pcli.codec.errors import LocalError

DOMAINS: Final = ("persistent", "non-persistent", "topic", "segment")
"""The domains of topics. The last two domains are for scalable topics (5.0)."""

_PARTITION: Final = "-partition-"

_SHORT_SEGMENT: Final = re.compile(r"([^/:]+/[^/:]+/)?([^/:]+/[0-9a-f]{4}-[0-9a-f]{4}-[0-9]+)")

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")

# Characters allowed in tenants, clusters and namespaces (class NamedEntity).
_NAMED: Final = re.compile(r"[-=:.\w]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicName:
    """The parts of a topic name."""

    domain: str
    tenant: str
    namespace: str
    local: str
    """The last part of the name, including a partition suffix; for a segment, ``topic/HHHH-HHHH-id``."""
    cluster: str | None = None
    """The cluster; only first-generation (v1) names have one."""

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Parse ``topic``, ``tenant/namespace/topic`` or ``domain://…``. Raise LocalError if the name is invalid."""
        written, separator, rest = text.partition("://")
        domain = written.lower()
        if not separator:
            domain, rest = "persistent", text if "/" in text else f"public/default/{text}"
            if rest.count("/") != 2:
                raise LocalError(f"topic name {text!r}: write topic or tenant/namespace/topic")
        if domain not in DOMAINS:
            raise LocalError(f"topic name {text!r}: the domain must be one of {', '.join(DOMAINS)}")
        words = rest.split("/", 2 if domain == "segment" else 3)
        if len(words) < 3 or not all(word.strip() for word in words):
            raise LocalError(f"topic name {text!r}: it has {len(words)} parts after the domain, or an empty part")
        for word in words[:-1]:
            if not _NAMED.fullmatch(word):
                raise LocalError(
                    f"topic name {text!r}: {word!r} contains characters other than letters, digits and - = : . _"
                )
        if len(words) == 3:
            return cls(domain, words[0], words[1], words[2])
        return cls(domain, words[0], words[2], words[3], words[1])

    def __str__(self) -> str:
        """The long form."""
        place = f"{self.tenant}/{self.namespace}" if self.cluster is None else self._v1_namespace
        return f"{self.domain}://{place}/{self.local}"

    @property
    def _v1_namespace(self) -> str:
        return f"{self.tenant}/{self.cluster}/{self.namespace}"

    @property
    def persistent(self) -> bool:
        """Whether the topic's messages are stored."""
        return self.domain != "non-persistent"

    @property
    def partition(self) -> int:
        """The partition index in this name, or -1 if there is none."""
        return split_partition(self.local)[1]

    @property
    def base(self) -> TopicName:
        """The partitioned topic that contains this partition, or the topic itself if it is not a partition."""
        local, index = split_partition(self.local)
        return self if index < 0 else TopicName(self.domain, self.tenant, self.namespace, local, self.cluster)

    def with_partition(self, index: int) -> TopicName:
        """Return the name of one partition of this topic."""
        local = f"{self.local}{_PARTITION}{index}"
        return TopicName(self.domain, self.tenant, self.namespace, local, self.cluster)

    @property
    def encoded_local(self) -> str:
        """The local name, percent-encoded as by java.net.URLEncoder, for REST paths and schema ids."""
        return quote(self.local, safe="*-._").replace("%20", "+").replace("~", "%7E")

    @classmethod
    def decoded(cls, domain: str, namespace: str, encoded_local: str) -> TopicName:
        """Return the name from a REST path: ``tenant/namespace`` and the percent-encoded local name."""
        return cls.parse(f"{domain}://{namespace}/{unquote(encoded_local.replace('+', ' '))}")

    @property
    def schema_id(self) -> str:
        """``tenant/namespace/encoded local name``: partitions share the schema of their topic, and so do segments."""
        if self.domain == "segment":
            return replace(self, domain="topic", local=self.local.rpartition("/")[0]).schema_id
        base = self.base
        place = f"{base.tenant}/{base.namespace}" if base.cluster is None else base._v1_namespace
        return f"{place}/{base.encoded_local}"


def split_partition(local: str) -> tuple[str, int]:
    """Split a local name into base and partition index; the index is -1 if the name has no index.

    The index must follow the last ``-partition-``, fit Java's int, and have no sign and no leading zeros.
    """
    base, separator, index = local.rpartition(_PARTITION)
    if separator and base and _INDEX.fullmatch(index) and int(index) < 1 << 31:
        return base, int(index)
    return local, -1


@lru_cache(4096)
def full_name(name: str) -> str:
    """Return the full name of a topic in any form that clients send or pcli prints; an invalid name is unchanged.

    The short form of a segment is ``orders/0000-7fff-0``, with or without ``tenant/namespace/`` before it.
    """
    segment = _SHORT_SEGMENT.fullmatch(name)
    if segment is not None:
        return f"segment://{segment[1] or 'public/default/'}{segment[2]}"
    try:
        return str(TopicName.parse(name)) if name else ""
    except LocalError:
        return name
