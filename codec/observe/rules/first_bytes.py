"""Data other than Pulsar on a Pulsar port: TLS or HTTP on the plain port, a PROXY header, or text.

## What it means

A connection to a Pulsar port begins with bytes that are not a Pulsar frame. The peer interprets the first four bytes as
a length and logs that the frame is too large. The number identifies the protocol: slightly more than 369,295,616 is the
start of a TLS ClientHello (16 03 01 00), 1,195,725,856 is "GET ", and 1,213,486,160 is "HTTP".

## On the wire

TLS or HTTP to port 6650, or to an address on which other connections in the capture use plain Pulsar; a TLS alert or an
HTTP line as the response to CONNECT; a PROXY header (of HAProxy) after which the broker sends nothing. TLS on port
6651, HTTP on port 8080, and a PROXY header that the broker accepts are normal.

## What would disprove it

Pulsar frames from the broker after these bytes; the capture contains none.

## What to do

Use matching settings on both sides: pulsar+ssl:// with port 6651, pulsar:// with port 6650, or http:// with port 8080.
A health check or a metrics scraper may use the wrong port. For PROXY headers, set haProxyProtocolEnabled in the broker,
or disable them in the load balancer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_WRONG_PORT: Final = Cause(
    "application",
    "likely",
    ("a load balancer, a health check or a scanner that uses the wrong port",),
    "The program that owns the client's address and port.",
)

_ADVICE: Final = {
    "tls": "One side uses TLS and the other does not: use pulsar+ssl:// with port 6651, or pulsar:// with port 6650.",
    "http": "Use http:// with the port of the web service (8080), or pulsar:// with the port of the broker (6650). A "
    "health check or a metrics scraper may use the wrong port.",
    "proxy-protocol": "Set haProxyProtocolEnabled in the broker, or disable the PROXY header in the load balancer.",
    "text": "A program that is not a Pulsar client or broker sends text: find out which program it is.",
    "other": "A program that is not a Pulsar client or broker uses this connection: find out which program it is.",
}


@rule(
    "connection",
    facts=("first_bytes", "first_bytes_text", "first_bytes_packet", "connect_frame", "broker_frames", "end"),
    title="TLS, HTTP, a PROXY header or text at the start of a Pulsar connection",
    issue="apache/pulsar#3832",
)
def evaluate(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """Return at most one finding per connection."""
    word = record.first_bytes
    if not word or (word == "proxy-protocol" and (record.broker_frames or not record.end)):
        return
    answered = record.connect_frame > 0  # the client sent Pulsar frames, but the response is not Pulsar
    opening = "has a PROXY header that the broker does not accept" if word == "proxy-protocol" else "is not Pulsar"
    yield Finding(
        "error",
        "likely" if word == "proxy-protocol" or answered else "certain",
        _WRONG_PORT,
        connection_subject(record),
        f"{about_connection(record)} {opening}, starting with packet {record.first_bytes_packet}: "
        f"{printable(record.first_bytes_text)}.",
        record.first_ns,
        [record.first_frame],
        "Pulsar frames from the broker after these bytes would disprove the finding; there are none.",
        _ADVICE[word],
        word,
    )
