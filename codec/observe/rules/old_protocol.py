"""Clients, or brokers, of an old protocol version, and what they go without.

## What it means

CONNECT and CONNECTED agree on a protocol version, the lower of both. The broker leaves out for the client what came
later. Below 15 a client knows no transactions, and dates from before Pulsar 2.5, or announces no more than that; below
11 it is told little enough to be a danger, and that is a warning.

## On the wire

protocol_version in CONNECT, and the lower of both in CONNECTED.

## What speaks for the opposite

A library may announce less than it can: what it does not announce, the broker does not do for it. A version that is not
in the capture, or that was cut off, is not guessed.

## What to do

Update it. Until then do not count on what the finding lists; with several clients on a subscription the oldest sets the
limits, since batches and keys are shared out among all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import version_subject
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.wire.commands import COMMANDS

__all__ = ["OLD", "RULE", "look"]

OLD: Final = 15
"""Protocol versions below lack transactions, and all that came with Pulsar 2.5 and later."""

_SERIOUS: Final = 11

_WITHOUT: Final = (
    (4, "batches (the broker ends the connection when it has one to deliver)"),
    (5, "being told that a producer or consumer is closed (the broker ends the whole connection)"),
    (9, "the end of terminated topics"),
    (11, "checksums of delivered messages"),
    (12, "being told who is active (Failover), seek, the last message id"),
    (13, "schemas of consumers"),
    (14, "renewing expired credentials"),
    (15, "transactions, schemas that producers bring"),
    (17, "answers to acknowledgements"),
    (19, "topic-list watchers"),
    (20, "being told of a migrated cluster"),
)
"""From which version on there is what, as ServerCnx and Consumer of the broker check it."""

_NEWEST: Final = max(row.since for row in COMMANDS.values())


def look(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each version of a client library at a host."""
    client, server = record.protocol_version, record.server_protocol_version
    by_broker = 0 <= server < client and server < OLD
    version = server if by_broker else client
    if not 0 <= version < OLD:
        return
    lacks = "; ".join(what for since, what in _WITHOUT if version < since)
    name = printable(record.server_version if by_broker else record.client_version) or "a nameless client"
    yield Finding(
        "old-protocol",
        "warning" if version < _SERIOUS else "note",
        "broker" if by_broker else "client",
        "certain",
        version_subject(record),
        f"{name} speaks protocol version {version} of {_NEWEST}. It goes without: {lacks}.",
        record.first_ns,
        [record.connect_frame],
        "A library may announce less than it can; what it does not announce the broker does not do for it.",
        "Update it; until then do not count on what it goes without.",
        "broker" if by_broker else "client",
    )


RULE = Rule(
    name="old-protocol",
    group="connection",
    facts=("protocol_version", "server_protocol_version", "client_version", "server_version"),
    title="old protocol versions, and what they cost",
    issue="apache/pulsar#3466",
    look=look,
)
