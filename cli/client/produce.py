"""`pcli produce`: sends messages to a topic, from a pipe, a file or the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcli.cli.common.connection_options import Url
from pcli.cli.common.option_groups import Credentials
from pcli.cli.common.options import argument, option

_Compression = Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"]


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """The options of `produce`."""

    topic: Annotated[
        str,
        argument(
            "TOPIC",
            "orders, tenant/namespace/orders, persistent://tenant/ns/orders, or topic://tenant/ns/orders for a "
            "scalable topic of Pulsar 5.",
        ),
    ]
    url: Url = "pulsar://localhost:6650"
    file: Annotated[str, option("--file FILE", "File with one message per line; - is stdin, the default.")] = ""
    messages: Annotated[list[str] | None, option("-m --message TEXT", "Message. Repeatable.")] = None
    size: Annotated[int | None, option("--size BYTES", "Send numbered messages of this size.", min=1, max=1 << 30)] = (
        None
    )
    number: Annotated[
        int | None, option("-n --num-produce N", "Send N messages in total; the messages of -m are repeated.", min=1)
    ] = None
    rate: Annotated[float, option("--rate N", "Messages per second; 0: no limit.", min=0, max=1e9)] = 0
    key: Annotated[str, option("-k --key KEY", "Key of every message.")] = ""
    key_delimiter: Annotated[
        str, option("-K --key-delimiter DELIM", "Each line is KEY DELIM PAYLOAD; \\t is a tab.")
    ] = ""
    json: Annotated[
        bool,
        option(
            "--json",
            "Each line is a JSON object with payload, and optionally key, properties and event_time, as consume "
            "-T ndjson prints it.",
        ),
    ] = False
    key_ranges: Annotated[
        list[str] | None, option("--key-range A-B", "Use keys of these hash slots (0-65535) in turn. Repeatable.")
    ] = None
    properties: Annotated[
        list[str] | None, option("-p --property KEY=VALUE", "Property of every message. Repeatable.")
    ] = None
    batch: Annotated[
        str,
        option(
            "--batch N,BYTES,MS", "Limits of a batch: messages, bytes and milliseconds; 0: no batching. [1000,131072,1]"
        ),
    ] = ""
    compression: Annotated[_Compression, option("--compression", "Compression of batches and single messages.")] = (
        "NONE"
    )
    sequence_id: Annotated[
        int | None,
        option(
            "--sequence-id ID",
            "Sequence id of the first message. With --producer-name and deduplication, the broker drops messages "
            "whose sequence ids it has stored.",
            min=0,
            max=(1 << 63) - 1,
        ),
    ] = None
    producer_name: Annotated[
        str, option("--producer-name NAME", "Producer name; by default assigned by the broker.")
    ] = ""


def produce(options: ProduceOptions, credentials: Credentials) -> None:
    """Send messages to a topic, by default the lines of stdin, and wait for their receipts.

    pcli produce orders -m hello -k key-1 -p origin=test

    seq 1000000 | pcli produce orders

    pcli produce orders --size 100 -n 50000 --rate 1000 --batch 500,,10 --compression LZ4

    pcli produce jobs --file jobs.txt -K :

    pcli consume old --reader --from earliest --exit-at-end -T ndjson | pcli produce new --json

    pcli produce orders -m again --producer-name p1 --sequence-id 41

    pcli produce topic://public/default/orders --file orders.txt -K :

    If the broker refuses a message, the command prints the number of that message and sends no more messages.
    """
    from pcli.cli.client.message_sending import ProduceRun

    ProduceRun(options, credentials.security()).run()
