"""`pcli fields`: lists the field names of filters, columns and JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.common.completion import complete_field
from pcli.cli.common.options import Output, argument


def fields(
    pattern: Annotated[
        str,
        argument(
            "PATTERN",
            "Part of the name or description of a field; * and ? are wildcards.",
            autocompletion=complete_field,
        ),
    ] = "",
    output: Output = "text",
) -> None:
    """List the fields of frames, for -Y, -e and -T json.

    pcli fields message_id
    """
    from pcli.cli.common.output import Exit, print_json, write_line
    from pcli.codec.observe import describe_fields

    found = describe_fields(pattern)
    if output != "text":
        rows = [
            {"name": one.name, "type": one.kind, "source": one.source, "help": one.help}
            | ({"values": [word for word, _ in one.words]} if one.words else {})
            for one in found
        ]
        print_json(rows, output)
    else:
        width = max((len(one.name) for one in found), default=0)
        kinds = max((len(one.kind) for one in found), default=0)
        for one in found:
            write_line(f"{one.name:<{width}}  {one.kind:<{kinds}}  {one.source}  {one.help}".rstrip())
    raise typer.Exit(Exit.FINE if found else Exit.NO)
