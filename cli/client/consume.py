"""`pcli consume`: prints the messages of a topic on stdout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from pcli.cli.common.connection_options import Url
from pcli.cli.common.option_groups import Credentials
from pcli.cli.common.options import TextOrJson

__all__ = ["ConsumeOptions", "consume"]


_Type = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options of `consume`."""

    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="orders, tenant/namespace/orders or persistent://tenant/ns/orders.")
    ]
    url: Url = "pulsar://localhost:6650"
    subscription: Annotated[
        str,
        typer.Option("-s", "--subscription-name", metavar="NAME", help="Durable subscription; created if necessary."),
    ] = ""
    type: Annotated[_Type, typer.Option("--subscription-type", help="Type of the subscription.")] = "Exclusive"
    reader: Annotated[bool, typer.Option("--reader", help="Read without a durable subscription.")] = False
    number: Annotated[
        int, typer.Option("-n", "--num-messages", metavar="N", min=0, help="Stop after N messages; 0: no limit.")
    ] = 0
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=0, help="Begin with the last N messages; implies --reader.")
    ] = 0
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", help="Stop when all messages have been read.")] = False
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|latest|ID|TIME",
            help="Where a new subscription or a reader begins: ID as 5:0; TIME as 2026-01-31T08:00:00Z, in ms since "
            "1970, or as -10m. For an existing subscription, --move-cursor is required. [latest]",
        ),
    ] = ""
    move_cursor: Annotated[
        bool,
        typer.Option("--move-cursor", help="Move the cursor of an existing subscription to --from, for all consumers."),
    ] = False
    key_ranges: Annotated[
        list[str] | None,
        typer.Option("--key-range", metavar="A-B", help="Receive only keys of these hash slots (0-65535). Repeatable."),
    ] = None
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format of a message, as in kcat; see above.")
    ] = "%s\\n"
    output: Annotated[
        TextOrJson, typer.Option("-T", help="text: see --format; json: an array; ndjson: one object per line.")
    ] = "text"
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Do not acknowledge messages.")] = False
    nack_every: Annotated[
        int,
        typer.Option(
            "--nack-every",
            min=0,
            metavar="N",
            help="Negatively acknowledge every Nth message: it is redelivered after a minute. 0: none.",
        ),
    ] = 0
    receiver_queue: Annotated[
        int,
        typer.Option("--receiver-queue", min=0, metavar="N", help="Size of the receiver queue (receiverQueueSize)."),
    ] = 1000

    @property
    def uses_reader(self) -> bool:
        """Whether messages are read without a durable subscription."""
        return self.reader or bool(self.last and not self.subscription)


def consume(options: ConsumeOptions, credentials: Credentials) -> None:
    r"""Print the messages of a topic until Ctrl-C; each message is acknowledged after it is printed.

    pcli consume orders -s audit --from earliest

    pcli consume orders --reader --from -10m --exit-at-end -T ndjson

    pcli consume orders --last 20

    pcli consume orders -s audit --subscription-type Shared -n 100 --format '%T %k %s\n' --nack-every 10

    pcli consume jobs -s workers --subscription-type Key_Shared --key-range 0-32767

    %s payload, %k key, %i message id, %p partition, %t topic, %T publish time (ms), %h properties, %S and %K sizes;
    \n \t \r \0 \xNN.
    """
    from pcli.cli.client.message_receiving import ConsumeRun

    ConsumeRun(options, credentials.security()).run()
