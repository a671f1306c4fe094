"""`pcli consume`: prints the messages of a topic on stdout."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.connection_options import Basic, TlsCert, TlsKey, TlsTrust, Token, Url, security
from pcli.cli.common.options import TextOrJson

__all__ = ["consume"]


class _Type(StrEnum):
    Exclusive = "Exclusive"
    Shared = "Shared"
    Failover = "Failover"
    Key_Shared = "Key_Shared"


def consume(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="orders, tenant/namespace/orders or persistent://tenant/ns/orders.")
    ],
    url: Url = "pulsar://localhost:6650",
    subscription: Annotated[
        str,
        typer.Option("-s", "--subscription-name", metavar="NAME", help="Durable subscription; created if necessary."),
    ] = "",
    type_: Annotated[_Type, typer.Option("--subscription-type", help="Type of the subscription.")] = _Type.Exclusive,
    reader: Annotated[bool, typer.Option("--reader", help="Read without a durable subscription.")] = False,
    number: Annotated[
        int, typer.Option("-n", "--num-messages", metavar="N", min=0, help="Stop after N messages; 0: no limit.")
    ] = 0,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=0, help="Begin with the last N messages; implies --reader.")
    ] = 0,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", help="Stop when all messages have been read.")] = False,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|latest|ID|TIME",
            help="Where a new subscription or a reader begins: ID as 5:0; TIME as 2026-01-31T08:00:00Z, in ms since "
            "1970, or as -10m. For an existing subscription, --move-cursor is required. [latest]",
        ),
    ] = "",
    move_cursor: Annotated[
        bool,
        typer.Option("--move-cursor", help="Move the cursor of an existing subscription to --from, for all consumers."),
    ] = False,
    key_range: Annotated[
        list[str] | None,
        typer.Option("--key-range", metavar="A-B", help="Receive only keys of these hash slots (0-65535). Repeatable."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format of a message, as in kcat; see above.")
    ] = "%s\\n",
    output: Annotated[
        TextOrJson, typer.Option("-T", help="text: see --format; json: an array; ndjson: one object per line.")
    ] = TextOrJson.text,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Do not acknowledge messages.")] = False,
    nack_every: Annotated[
        int,
        typer.Option(
            "--nack-every",
            min=0,
            metavar="N",
            help="Negatively acknowledge every Nth message: it is redelivered after a minute. 0: none.",
        ),
    ] = 0,
    receiver_queue: Annotated[
        int,
        typer.Option("--receiver-queue", min=0, metavar="N", help="Size of the receiver queue (receiverQueueSize)."),
    ] = 1000,
    token: Token = "",
    basic: Basic = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
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

    ConsumeRun(
        topic=topic,
        url=url,
        security=security(token, basic, tls_trust, tls_cert, tls_key),
        subscription=subscription,
        type=type_.value,
        reader=reader or bool(last and not subscription),
        number=number,
        last=last,
        exit_at_end=exit_at_end,
        start=from_,
        move_cursor=move_cursor,
        key_ranges=key_range or [],
        format=format_,
        output=output.value,
        no_ack=no_ack,
        nack_every=nack_every,
        receiver_queue=receiver_queue,
    ).run()
