"""`pcli encode`: encodes frames from assignments, or from the lossless JSON of `decode -T wire`."""

from __future__ import annotations

from typing import Annotated, Literal

from pcli.cli.common.options import argument, option

_Format = Literal["hex", "binary", "base64"]


def encode(
    words: Annotated[
        list[str] | None,
        argument("TYPE FIELD=VALUE... | FILE | -", "A command and its fields, or a file of wire JSON."),
    ] = None,
    output: Annotated[_Format, option("-T --format", "Notation of the bytes.")] = "hex",
) -> None:
    """Encode a frame from TYPE field=value ..., or frames from the JSON of decode -T wire.

    pcli encode FLOW consumer_id=1 messagePermits=1000

    pcli decode FILE -T wire | pcli encode -
    """
    import base64

    from pcli.cli.common.output import write_bytes, write_line
    from pcli.cli.frames.standalone_frames import encoded_frames

    for frame in encoded_frames(words or ["-"]):
        if output == "binary":
            write_bytes(frame)
        else:
            write_line(frame.hex() if output == "hex" else base64.b64encode(frame).decode())
