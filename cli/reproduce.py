"""`pcli reproduce`: a capture as a pytest test."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.options import Captures, ConnectionFilter, DecodeAs, OnlyStream, decode_as_ports

__all__ = ["reproduce"]


def reproduce(
    capture: Captures,
    filter_: ConnectionFilter = "",
    only_stream: OnlyStream = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="The test. [stdout]")] = "",
    decode_as: DecodeAs = None,
) -> None:
    """Write a pytest test that plays the conversation of a capture against a mini-broker and asserts the answers.

    pcli reproduce talk.pcapng -Y "pulsar.topic == 'orders'" -o test_orders.py

    Exit code: 2 there is nothing that can be played. See docs/replay.md.
    """
    from pcli.cli.reproduce_run import write_test

    write_test(capture, output, filter_=filter_, only=only_stream, decode_as=decode_as_ports(decode_as))
