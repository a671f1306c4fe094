"""`pcli consume`: messages of a topic to stdout."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust, Token, Url, security
from pcli.cli.common.options import TextOrJson

__all__ = ["consume"]


class _Type(StrEnum):
    Exclusive = "Exclusive"
    Shared = "Shared"
    Failover = "Failover"
    Key_Shared = "Key_Shared"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="orders, tenant/namespace/orders or persistent://…")],
    url: Url = "pulsar://localhost:6650",
    subscription: Annotated[
        str,
        typer.Option(
            "-s", "--subscription-name", metavar="NAME", help="The subscription; it is made if need be, and stays."
        ),
    ] = "",
    type_: Annotated[_Type, typer.Option("-t", "--subscription-type", help="Its type.")] = _Type.Exclusive,
    reader: Annotated[bool, typer.Option("--reader", help="Only read: without a subscription that stays.")] = False,
    number: Annotated[int, typer.Option("-n", "--num-messages", min=0, help="End after N; 0: never.")] = 0,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", help="End when everything has been read.")] = False,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|latest|ID|TIME",
            help="Begin there: ID as 5:0, TIME as 2026-01-31T08:00:00Z, in ms since 1970, or as -10m. [latest; a "
            "subscription that is there: where it stands]",
        ),
    ] = "",
    key_range: Annotated[
        list[str] | None,
        typer.Option("--key-range", metavar="A-B", help="Only keys of these slots (0-65535); again for more."),
    ] = None,
    format_: Annotated[
        str, typer.Option("-f", "--format", metavar="FORMAT", help="How a message is printed, as kcat's: see above.")
    ] = "%s\\n",
    output: Annotated[TextOrJson, typer.Option("-T", help="json: an object a line, in place of -f.")] = TextOrJson.text,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Acknowledge nothing.")] = False,
    nack_every: Annotated[
        int,
        typer.Option(
            "--nack-every", min=0, metavar="N", help="Refuse each Nth message: it comes again, after a minute."
        ),
    ] = 0,
    receiver_queue: Annotated[
        int, typer.Option("--receiver-queue", min=0, metavar="N", help="Messages that are asked for ahead; 0: none.")
    ] = 1000,
    token: Token = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    r"""Print the messages of a topic, a line each, until Ctrl-C; what was printed is acknowledged.

    pcli consume orders -s audit --from earliest

    pcli consume orders --reader --from -10m --exit-at-end -T json

    pcli consume orders -s audit -t Shared -n 100 -f '%T %k %s\n' --nack-every 10

    pcli consume jobs -s workers -t Key_Shared --key-range 0-32767

    %s payload, %k key, %i message id, %p partition, %t topic, %T publish time (ms), %h properties, %S and %K sizes;
    \n \t \r \0 \xNN.
    """
    from pcli.cli.client.message_receiving import Run

    Run(
        topic=topic,
        url=url,
        security=security(token, tls_trust, tls_cert, tls_key),
        subscription=subscription,
        type=type_.value,
        reader=reader,
        number=number,
        exit_at_end=exit_at_end,
        start=from_,
        key_ranges=key_range or [],
        format=format_,
        json=output is TextOrJson.json,
        no_ack=no_ack,
        nack_every=nack_every,
        receiver_queue=receiver_queue,
    ).run()
