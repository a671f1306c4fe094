"""Something else than Pulsar where Pulsar is expected: TLS or HTTP on the plain port, a PROXY header, text.

## What it means

A connection to a port at which Pulsar is spoken begins with bytes that are no Pulsar frame. The peer takes the first
four of them for a length, and its log says that the frame is too large. The number gives it away: 369,295,616 and a
little more is the beginning of a TLS hello (16 03 01 00), 1,195,725,856 is "GET ", 1,213,486,160 is "HTTP".

## On the wire

TLS or HTTP to port 6650, or to an address at which other connections of the recording speak Pulsar in the clear; a TLS
alert or a line of HTTP as the answer to CONNECT; a PROXY header (HAProxy's) behind which the broker says nothing.
TLS on 6651, HTTP on 8080, and a PROXY header that is understood are as they should be.

## What speaks for the opposite

Pulsar frames from the broker behind these bytes. There are none.

## What to do

Let both sides agree: pulsar+ssl:// with port 6651, pulsar:// with 6650, http:// with 8080. A health check or a scraper
may have the wrong port. For PROXY headers set haProxyProtocolEnabled in the broker, or switch them off before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, connection_subject
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]

_ADVICE: Final = {
    "tls": "One side speaks TLS and the other does not: pulsar+ssl:// belongs to port 6651, pulsar:// to 6650.",
    "http": "http:// belongs to the web service's port (8080), pulsar:// to the broker's (6650); a health check or a "
    "scraper may have the wrong port, too.",
    "proxy-protocol": "Set haProxyProtocolEnabled in the broker, or switch the PROXY header off in the balancer.",
    "text": "Something that is no Pulsar client or broker sends text here: look who it is.",
    "other": "Something that is no Pulsar client or broker talks here: look who it is.",
}


def look(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding a connection."""
    word = record.first_bytes
    if not word or (word == "proxy-protocol" and (record.broker_frames or not record.end)):
        return
    answered = record.connect_frame > 0  # the client spoke Pulsar; it is the answer that is something else
    opening = "the PROXY header is not understood" if word == "proxy-protocol" else "this is no Pulsar"
    yield Finding(
        "first-bytes",
        "error",
        "application",
        "likely" if word == "proxy-protocol" or answered else "certain",
        connection_subject(record),
        f"On {about_connection(record)} {opening}, from packet {record.first_bytes_packet} on: "
        f"{printable(record.first_bytes_text)}.",
        record.first_ns,
        [record.first_frame],
        "A broker that answers behind these bytes with Pulsar frames: it does not.",
        _ADVICE[word],
        word,
    )


RULE = Rule(
    name="first-bytes",
    group="connection",
    facts=("first_bytes", "first_bytes_text", "first_bytes_packet", "connect_frame", "broker_frames", "end"),
    title="TLS, HTTP, a PROXY header or text where a Pulsar connection should begin",
    issue="apache/pulsar#3832",
    look=look,
)
