"""Commands and fields that newer versions have done away with.

## What it means

The protocol keeps what was once in it, so that old clients go on working. Some of it has been replaced:

- *CONNECT.auth_method*, an enum of login methods: auth_method_name has replaced it;
- *CONSUMER_STATS*: the Java client has dropped it, and the admin interface tells more;
- *SEND without checksum*: clients write a CRC-32C since protocol version 6, without which damage on the way goes
  unnoticed.

## On the wire

The command or field itself; for checksums a SEND whose metadata follows the command at once.

## What speaks for the opposite

Nothing: it is there. It works as long as the broker answers it.

## What to do

Update the client library, or tell its developers. Nothing is lost today.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, version_subject
from pcli.codec.observe.rules.wording import times
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]

_INSTEAD: Final = {
    "CONNECT.auth_method": "The enum of login methods is deprecated in the protocol: auth_method_name has replaced it.",
    "CONSUMER_STATS": "Statistics over the binary protocol have been dropped by the Java client and are poorer than "
    "those of the admin interface (topics stats).",
    "SEND without checksum": "Clients send a CRC-32C with each message since protocol version 6; without it damage "
    "on the way to the broker goes unnoticed.",
}
"""What was used, and what has come of it."""


def look(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each thing and client library at a host."""
    for what, tally in record.deprecated.items():
        yield Finding(
            "deprecated-command",
            "note",
            "client",
            "certain",
            version_subject(record),
            f"{about_connection(record)} uses {what}, {times(tally.count)}.",
            tally.first_ns,
            tally.frames,
            "It works with the broker at hand as long as that answers it.",
            _INSTEAD[what],
            what,
        )


RULE = Rule(
    name="deprecated-command",
    group="connection",
    facts=("deprecated", "client_version"),
    title="commands and fields that newer versions have done away with",
    issue="apache/pulsar#5959",
    look=look,
)
