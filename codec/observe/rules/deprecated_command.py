"""Commands and fields that are deprecated in the protocol.

## What it means

The protocol keeps deprecated features so that old clients continue to work. Some have replacements:

- *CONNECT.auth_method*, an enum of authentication methods, is replaced by auth_method_name.
- *CONSUMER_STATS* is no longer used by the Java client; the admin API provides more statistics.
- *SEND without checksum*: since protocol version 6, clients send a CRC-32C. If the checksum is missing, damage in
  transit is not detected.

## On the wire

The command or field; for checksums, a SEND whose metadata directly follows the command.

## What would disprove it

Nothing: the command is in the capture. It works as long as the broker supports it.

## What to do

Update the client library, or inform its developers. The feature works until a later broker version removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_connection, version_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import times
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_REPLACEMENTS: Final = {
    "CONNECT.auth_method": "The enum of authentication methods is deprecated; auth_method_name replaces it.",
    "CONSUMER_STATS": "The Java client no longer requests statistics over the binary protocol; the admin API "
    "(topics stats) provides more.",
    "SEND without checksum": "Since protocol version 6, clients send a CRC-32C with each message. If it is missing, "
    "damage in transit to the broker is not detected.",
}
"""The deprecated feature, and its replacement."""


@rule(
    "connection",
    facts=("deprecated", "client_version"),
    title="commands and fields that are deprecated in the protocol",
    issue="apache/pulsar#5959",
)
def evaluate(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each deprecated feature and client library on a host."""
    for what, tally in record.deprecated.items():
        yield Finding(
            "note",
            "certain",
            Cause("client"),
            version_subject(record),
            f"{about_connection(record)} uses the deprecated {what} ({times(tally.count)}).",
            opposite="The feature works as long as the broker supports it.",
            advice=_REPLACEMENTS[what],
            variant=what,
            seen=tally,
        )
