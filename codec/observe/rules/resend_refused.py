"""Messages that the broker's deduplication has dropped: it answered -1:-1.

## What it means

With deduplication on, a broker remembers the highest sequence id of each producer name and stores nothing at or below
it. The SEND is answered as if it were fine, with the id -1:-1. Two cases:

- *resend*: the client sent the same bytes again after a reconnect, since it had not seen the first receipt. That is
  what deduplication is for; the message is there once.
- *reused*: other messages came under ids that were used before. They are gone, and the application was told of
  success. It sets ids itself and starts anew, two programs share a producer name, or a client's counter went back.

## On the wire

SEND_RECEIPT with ledger and entry 18446744073709551615. A batch is judged by its lowest id, and dropped whole.

## What speaks for the opposite

For *reused*: an application that repeats ids on purpose, so that a message is stored once however often it is sent.
Then all is well. Content is not compared, only time of publishing, size and number of messages.

## What to do

Reused: continue from `last_sequence_id` of PRODUCER_SUCCESS, give each program a producer name of its own, or leave the
counting to the client. Check for the id -1:-1 in what send returns.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.wording import count_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

__all__ = ["RULE"]


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Resends, and other messages under used ids."""
    resends, all_ = producer.resends_refused, producer.duplicates_refused
    reused = all_.count - resends.count
    if resends.count:
        yield Finding(
            "resend-refused",
            "note",
            "client",
            "certain",
            producer_subject(producer),
            f"{about_producer(producer)} sent {count_of(resends.count, 'entry', 'entries')} again that the broker had "
            f"already, and dropped ({frames_text(resends.frames)}): deduplication did its work.",
            resends.first_ns,
            resends.frames,
            "A SEND_RECEIPT with an id of its own for the second SEND: there is none.",
            "Nothing. Why it lost its first connection is another question.",
            "resend",
        )
    if reused > 0:
        yield Finding(
            "resend-refused",
            "warning",
            "application",
            "possible" if producer.doubts & {"start"} else "likely",
            producer_subject(producer),
            f"The broker dropped {count_of(reused, 'entry', 'entries')} of {about_producer(producer)} as duplicates "
            f"(-1:-1, {frames_text(all_.frames)}): their sequence ids, {all_.sample} first, were used before"
            + ("." if producer.doubts & {"start"} else ", by other messages."),
            all_.first_ns,
            all_.frames,
            "An application that repeats ids on purpose, to have a message stored once: then all is well.",
            "Continue from last_sequence_id of PRODUCER_SUCCESS, or let the client count. Give each program a producer "
            "name of its own.",
            "reused",
        )


RULE = Rule(
    name="resend-refused",
    group="producer",
    facts=("duplicates_refused", "resends_refused"),
    title="messages that the broker's deduplication has dropped",
    issue="apache/pulsar-client-go#1407",
    look=look,
)
