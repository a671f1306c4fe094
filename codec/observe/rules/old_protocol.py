"""Clients or brokers with an old protocol version, and the features that they lack.

## What it means

Client and broker use the lower of the protocol versions in CONNECT and CONNECTED. The broker does not use features of
later versions with this client. A client below version 15 does not support transactions: the client is older than
Pulsar 2.5 or announces a lower version. If the version is below 11, the missing features endanger correct operation,
and the finding is a warning.

## On the wire

`protocol_version` in CONNECT and CONNECTED. The broker's version in CONNECTED is not above the client's version.

## What would disprove it

A library may announce a lower version than it supports; the broker uses only the features of the announced version. If
a version is missing from the capture or truncated, nothing is reported about that version.

## What to do

Update the client or broker. Until then, do not rely on the listed features. If a subscription has several clients, the
oldest client determines the limits, because batches and keys are distributed among all clients.

docs/clients.md lists the protocol versions of the newest clients: some send an old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import version_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.wire.commands import COMMANDS

MIN_VERSION: Final = 15
"""Lower protocol versions lack transactions and all features of Pulsar 2.5 and later."""

_SERIOUS: Final = 11

_FEATURES: Final = (
    (4, "batches (the broker closes the connection when it has a batch to deliver)"),
    (5, "closing of single producers and consumers (the broker closes the whole connection)"),
    (9, "the end of terminated topics"),
    (11, "checksums of delivered messages"),
    (12, "notification of the active consumer (Failover), seek, the last message id"),
    (13, "schemas of consumers"),
    (14, "renewal of expired credentials"),
    (15, "transactions, schemas from producers"),
    (17, "responses to acknowledgements"),
    (19, "topic-list watchers"),
    (20, "notification of a migrated cluster"),
)
"""Features by the first version that has them, from the checks in the broker's ServerCnx and Consumer."""

_ADVICE: Final = {"pulsar-rs": "All releases of the Rust client up to 6.9.1 announce version 12: an update adds none. "}
"""Advice about libraries whose newest release announces an old version, by name."""

_NEWEST: Final = max(row.since for row in COMMANDS.values())


@rule(
    "connection",
    facts=("protocol_version", "server_protocol_version", "client_version", "server_version"),
    title="old protocol versions, and the features that they lack",
    issue="apache/pulsar#3466",
)
def evaluate(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding for each version of a client library on a host."""
    client, server = record.protocol_version, record.server_protocol_version
    by_broker = 0 <= server < client and server < MIN_VERSION
    version = server if by_broker else client
    if not 0 <= version < MIN_VERSION:
        return
    lacks = "; ".join(what for since, what in _FEATURES if version < since)
    name = printable(record.server_version if by_broker else record.client_version) or "without a name"
    yield Finding(
        "warning" if version < _SERIOUS else "note",
        "certain",
        Cause("broker" if by_broker else "client"),
        version_subject(record),
        f"{'Broker' if by_broker else 'Client'} {name} uses protocol version {version} instead of {_NEWEST}. It lacks: "
        f"{lacks}.",
        record.first_ns,
        [record.connect_frame],
        "A library may announce a lower version than it supports; the broker uses only the announced features.",
        _ADVICE.get(name.partition("-v")[0].rstrip(), f"Update the {'broker' if by_broker else 'client'}. ")
        + "Do not rely on these features.",
        "broker" if by_broker else "client",
    )
