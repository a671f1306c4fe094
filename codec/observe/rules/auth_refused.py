"""Logins and requests that were refused for want of rights.

## What it means

*AuthenticationError* answers a CONNECT: the broker does not accept the credentials. They are wrong, expired, of an
issuer it does not know, or missing. *AuthorizationError* answers a request: the role is known, and may not do this.

Clients treat the first as any lost connection and try again until the time of the call is up. So the application is
often told of a time-out only, and the reason stands on the wire alone.

## On the wire

CONNECT with auth_method_name, ERROR AuthenticationError, and the end of the connection; or an answer with
AuthorizationError to PARTITIONED_METADATA, LOOKUP, PRODUCER or SUBSCRIBE. Credentials are readable in CONNECT without
TLS; pcli hides them.

## What speaks for the opposite

Nothing: the broker says it in so many words. But the mistake may be the broker's: a wrong key, a clock that is off.

## What to do

Decode the token (`exp`, `sub`, `iss`), compare it with the broker's key and role claim. For AuthorizationError grant
the role produce or consume on the namespace or the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_host, host_subject
from pcli.codec.observe.rules.wording import said, times
from pcli.codec.observe.tracking.records.connection_records import HostRecord

__all__ = ["RULE", "look"]

_ADVICE: Final = {
    "AuthenticationError": "The broker does not accept the credentials: wrong, expired, of another issuer, or none. "
    "Clients try again until their time is up, and then often tell the application of a time-out only.",
    "AuthorizationError": "The role is known and may not do this: grant it produce, consume or functions on the "
    "namespace or the topic.",
}


def look(host: HostRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each error and command."""
    for named, tally in host.denied.items():
        error, _, command = named.partition(" ")
        yield Finding(
            "auth-refused",
            "error",
            "application",
            "certain",
            host_subject(host),
            f"{about_host(host)}: {command or 'a request'} refused with {error}, {times(tally.count)}"
            + (f": {said(tally.sample)}." if tally.sample else "."),
            tally.first_ns,
            tally.frames,
            "A later success of the same client with other credentials; the server may be the one with the wrong key.",
            _ADVICE[error],
            named,
        )


RULE = Rule(
    name="auth-refused",
    group="host",
    facts=("denied",),
    title="logins or requests refused for want of rights",
    issue="apache/pulsar#17784",
    look=look,
)
