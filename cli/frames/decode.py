"""`pcli decode`: frames out of what was pasted, piped or saved."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["decode"]


class _Format(StrEnum):
    tree = "tree"
    json = "json"
    wire = "wire"


class _Form(StrEnum):
    auto = "auto"
    binary = "binary"
    dump = "dump"
    escapes = "escapes"
    hex = "hex"
    base64 = "base64"


class _Side(StrEnum):
    client = "client"
    broker = "broker"


def decode(
    source: Annotated[
        str, typer.Argument(metavar="[HEX|FILE|-]", help="The frame or frames themselves, a file, or - for stdin.")
    ] = "-",
    output: Annotated[
        _Format, typer.Option("-T", "--format", help="tree for people, json for programs, wire to encode again.")
    ] = _Format.tree,
    form: Annotated[_Form, typer.Option("--as", help="How the bytes are written; guessed when not told.")] = _Form.auto,
    side: Annotated[_Side | None, typer.Option("--from", help="Who sent the frames; guessed when not told.")] = None,
    payload: Annotated[bool, typer.Option("--payload", help="Show payloads.")] = False,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show credentials too.")] = False,
) -> None:
    r"""Decode one or more frames from hex, base64 or binary.

    Any usual form of hex is read: spaced, with 0x, \x00 escapes, xxd or hexdump output.

    pcli decode 0000000c00000008080b5a040801100a
    """
    from pcli.cli.frames.standalone_frames import print_frames, read_frames

    frames, code = read_frames(source, form.value)
    print_frames(
        frames,
        output.value,
        from_client=None if side is None else side is _Side.client,
        payload=payload,
        secrets=show_secrets,
    )
    raise typer.Exit(code)
