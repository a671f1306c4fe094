"""`pcli decode`: decodes frames from arguments, pipes and files."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pcli.cli.common.options import argument, option

_Format = Literal["tree", "json", "ndjson", "wire"]


_Notation = Literal["auto", "binary", "dump", "escapes", "hex", "base64"]


_Sender = Literal["client", "broker"]


def decode(
    source: Annotated[str, argument("HEX|FILE|-", "Frames as text, a file, or - for stdin.")] = "-",
    output: Annotated[
        _Format,
        option(
            "-T --format",
            "tree: all fields; json: an array; ndjson: one object per line; wire: lossless JSON for pcli encode.",
        ),
    ] = "tree",
    form: Annotated[_Notation, option("--as", "Notation of the bytes; auto detects it.")] = "auto",
    side: Annotated[_Sender | None, option("--from", "Sender of the frames; detected by default.")] = None,
    payload: Annotated[bool, option("--payload", "Show payloads.")] = False,
    show_secrets: Annotated[bool, option("--show-secrets", "Show credentials, which are hidden by default.")] = False,
) -> None:
    r"""Decode one or more frames from hex, base64 or binary.

    Hex may contain spaces, 0x prefixes or \x00 escapes, or be the output of xxd or hexdump.

    pcli decode 0000000c00000008080b5a040801100a
    """
    from pcli.cli.frames.standalone_frames import print_frames, read_frames

    frames, code = read_frames(source, form)
    print_frames(
        frames,
        output,
        from_client=None if side is None else side == "client",
        payload=payload,
        secrets=show_secrets,
    )
    raise typer.Exit(code)
