"""Logins and requests that were refused for lack of permission.

## What it means

*AuthenticationError* is the response to a CONNECT: the broker does not accept the credentials. They are wrong, expired,
missing, or from an unknown issuer. *AuthorizationError* is the response to a request: the role is known but lacks the
permission.

Clients treat AuthenticationError like any lost connection and retry until the call times out. Applications therefore
often report only a timeout, and the reason is visible only on the wire.

## On the wire

CONNECT with auth_method_name, ERROR AuthenticationError, and the end of the connection; or a response with
AuthorizationError to PARTITIONED_METADATA, LOOKUP, PRODUCER or SUBSCRIBE. If TLS is not used, the credentials in
CONNECT are readable; pcli hides them.

## What would disprove it

Nothing: the broker's response is explicit. The cause can still be on the broker's side, for example a wrong key or a
wrong clock.

## What to do

Decode the token (`exp`, `sub`, `iss`) and compare it with the broker's key and role claim. For AuthorizationError,
grant the role the permission `produce` or `consume` on the namespace or the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_host, host_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import error_message, times
from pcli.codec.observe.tracking.records.connection_records import HostRecord

_CREDENTIALS: Final = Cause(
    "application",
    "likely",
    ("a broker with a wrong key or wrong permissions",),
    "The broker's log of the refused request.",
)

_ADVICE: Final = {
    "AuthenticationError": "The credentials are wrong, expired, missing or from an unknown issuer. "
    "Clients retry until their timeout; applications then often report only a timeout.",
    "AuthorizationError": "The role is known but lacks the permission: grant the role `produce`, `consume` or "
    "`functions` on the namespace or the topic.",
}


@rule("host", facts=("denied",), title="logins or requests refused for lack of permission", issue="apache/pulsar#17784")
def evaluate(host: HostRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each error and command."""
    for named, tally in host.denied.items():
        error, _, command = named.partition(" ")
        yield Finding(
            "error",
            "certain",
            _CREDENTIALS,
            host_subject(host),
            f"{about_host(host)}: {command or 'a request'} was refused with {error} {times(tally.count)}"
            + (f": {error_message(tally.sample)}." if tally.sample else "."),
            opposite="Nothing: the response is explicit. The cause can still be on the broker's side, such as a wrong "
            "key.",
            advice=_ADVICE[error],
            variant=named,
            seen=tally,
        )
