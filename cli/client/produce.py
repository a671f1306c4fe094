"""`pcli produce`: messages from a pipe, a file or the command line to a topic."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.connection_options import TlsCert, TlsKey, TlsTrust, Token, Url, security

__all__ = ["produce"]


class _Compression(StrEnum):
    NONE = "NONE"
    LZ4 = "LZ4"
    ZLIB = "ZLIB"
    ZSTD = "ZSTD"
    SNAPPY = "SNAPPY"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="orders, tenant/namespace/orders or persistent://…")],
    url: Url = "pulsar://localhost:6650",
    file: Annotated[
        str, typer.Option("-f", "--file", metavar="FILE", help="Each line is a message; - is stdin, as without this.")
    ] = "",
    message: Annotated[
        list[str] | None, typer.Option("-m", "--message", metavar="TEXT", help="A message; again for more.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size", min=1, max=1 << 30, metavar="BYTES", help="Numbered messages of this size, for ever or -n."
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("-n", "--num-produce", min=1, metavar="N", help="End after N; those of -m are repeated up to it."),
    ] = None,
    rate: Annotated[
        float,
        typer.Option("-r", "--rate", min=0, max=1e9, metavar="N", help="Messages a second; 0: as fast as it goes."),
    ] = 0,
    key: Annotated[str, typer.Option("-k", "--key", help="Key of every message.")] = "",
    key_range: Annotated[
        list[str] | None,
        typer.Option(
            "--key-range", metavar="A-B", help="Take turns with keys of these slots (0-65535); again for more."
        ),
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("-p", "--property", metavar="KEY=VALUE", help="A property; again for more.")
    ] = None,
    batch: Annotated[
        str,
        typer.Option(
            "--batch",
            metavar="N,BYTES,MS",
            help="What fills a batch: messages, bytes or ms; 0: no batches. [1000,131072,1]",
        ),
    ] = "",
    compression: Annotated[
        _Compression, typer.Option("--compression", help="How each batch, or message, is compressed.")
    ] = _Compression.NONE,
    sequence_id: Annotated[
        int | None,
        typer.Option(
            "--sequence-id",
            min=0,
            max=(1 << 63) - 1,
            metavar="ID",
            help="Of the first message. With --producer-name and deduplication, the broker drops ids that it has.",
        ),
    ] = None,
    producer_name: Annotated[
        str, typer.Option("--producer-name", metavar="NAME", help="Without it, the broker gives one.")
    ] = "",
    token: Token = "",
    tls_trust: TlsTrust = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Send messages to a topic, from stdin a line each, until it ends or Ctrl-C; what was sent is waited for.

    pcli produce orders -m hello -k key-1 -p origin=test

    seq 1000000 | pcli produce orders

    pcli produce orders --size 100 -n 50000 -r 1000 --batch 500,,10 --compression LZ4

    pcli produce jobs --file jobs.ndjson --key-range 0-32767

    pcli produce orders -m again --producer-name p1 --sequence-id 41

    A message that the broker does not take ends it: its number is said, and those behind it are not sent.
    """
    from pcli.cli.client.message_sending import Run

    Run(
        topic=topic,
        url=url,
        security=security(token, tls_trust, tls_cert, tls_key),
        file=file,
        messages=message or [],
        size=size,
        number=number,
        rate=rate,
        key=key,
        key_ranges=key_range or [],
        properties=properties or [],
        batch=batch,
        compression=compression.value,
        sequence_id=sequence_id,
        producer_name=producer_name,
    ).run()
