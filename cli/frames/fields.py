"""`pcli fields`: the names that filters, columns and JSON share."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.common.options import Output, TextOrJson

__all__ = ["fields"]


def fields(
    pattern: Annotated[str, typer.Argument(help="Part of a name or of its help; * and ? are wild cards.")] = "",
    output: Output = TextOrJson.text,
) -> None:
    """List the fields of frames with type and source: for -Y, -e and -T ndjson.

    pcli fields message_id
    """
    import json

    from pcli.cli.common.output import Exit, write_line
    from pcli.codec.observe import describe_fields

    found = describe_fields(pattern)
    if output is TextOrJson.json:
        rows = [
            {"name": one.name, "type": one.kind, "source": one.source, "help": one.help}
            | ({"values": [word for word, _ in one.words]} if one.words else {})
            for one in found
        ]
        write_line(json.dumps(rows, indent=1))
    else:
        width = max((len(one.name) for one in found), default=0)
        kinds = max((len(one.kind) for one in found), default=0)
        for one in found:
            write_line(f"{one.name:<{width}}  {one.kind:<{kinds}}  {one.source}  {one.help}".rstrip())
    raise typer.Exit(Exit.FINE if found else Exit.NO)
