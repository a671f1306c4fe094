"""Tables of supported and unsupported features, for `pcli broker --dispatchers` and docs/mini-broker.md."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS
from pcli.minibroker.commands import HANDLERS
from pcli.minibroker.dispatch import KINDS

_KEPT: Final = " (stored only)"
"""Suffix of an endpoint's text if the value is stored but has no effect."""

_FAMILIES: Final = {
    "/admin/v2/bookies": "bookies and their racks",
    "/admin/v2/broker-stats": "statistics of the broker itself",
    "/admin/v2/resource-quotas": "quotas of bundles",
    "/admin/v2/resourcegroups": "resource groups",
    "/admin/v2/scalable": "scalable topics",
    "/admin/v2/worker": "function workers",
    "/admin/v3/functions": "functions",
    "/admin/v3/packages": "packages",
    "/admin/v3/sinks": "sinks",
    "/admin/v3/sources": "sources",
    "/admin/v3/transactions": "transactions",
    "/ws/v2": "WebSocket clients",
}
"""Parts of Pulsar's REST API other than topics, namespaces and tenants. Parts without endpoints are missing."""


class EndpointRow(NamedTuple):
    """An endpoint, comprising all methods of one path."""

    methods: list[str]
    path: str
    text: str
    """Description of the methods."""


def dispatcher_rows() -> list[dict[str, Any]]:
    """Return a row for each dispatcher: class, subscriptions, topics, setting, since, until, file.

    The first row with a matching subscription type, topic and setting applies to a subscription.
    Empty cells are None.
    """
    return [
        {
            "class": kind.make.__name__,
            "subscriptions": [pb.CommandSubscribe.SubType.Name(_sub_type(one)) for one in kind.types],
            "topics": kind.domain,
            "setting": kind.setting or None,
            "since": kind.since,
            "until": kind.until or None,
            "file": kind.file,
        }
        for kind in KINDS
    ]


def _sub_type(number: int) -> pb.CommandSubscribe.SubType.ValueType:
    return pb.CommandSubscribe.SubType.ValueType(number)


def closing_commands() -> list[str]:
    """Return the commands of scalable topics, which close the connection if these are disabled, as on 4.2.4."""
    return [row.name for row in COMMANDS.values() if row.client_may_send and row.number not in HANDLERS]


def endpoint_rows() -> list[EndpointRow]:
    """Return the served paths in matching order."""
    from pcli.minibroker.admin.endpoint_table import ENDPOINTS

    by_path: dict[str, tuple[list[str], list[str]]] = {}
    for endpoint in ENDPOINTS:
        methods, texts = by_path.setdefault(endpoint.path, ([], []))
        methods.append(endpoint.method)
        # "policy x of a topic" also covers "set policy x of a topic".
        if not any(known in endpoint.text for known in texts):
            texts.append(endpoint.text)
    return [EndpointRow(methods, path, "; ".join(texts)) for path, (methods, texts) in by_path.items()]


def stored_only_policies() -> list[str]:
    """Return the last path elements of policies that are stored but have no effect."""
    return sorted(
        {row.path.rpartition("/")[2] for row in endpoint_rows() if _KEPT in row.text and not row.path.endswith("}")}
    )


def missing_families() -> list[tuple[str, str]]:
    """Return the missing parts of Pulsar's REST API: path prefix and subject."""
    paths = [row.path for row in endpoint_rows()]
    return [(start, text) for start, text in _FAMILIES.items() if not any(path.startswith(start) for path in paths)]
