"""`pcli report`: writes the tables of an analysis as one HTML page."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from pcli.cli.common.output import fail, write_bytes

__all__ = ["check_report", "report", "write_report"]

_NEEDS: Final = ("jinja2", "matplotlib", "numpy", "pyarrow")


def report(
    tables: Annotated[str, typer.Argument(metavar="OUT", help="Folder or URI of the tables.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="File to write; - is stdout.")
    ] = "report.html",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = "Pulsar traffic",
) -> None:
    """Write a self-contained HTML report of the tables of `analyze` or `spark-analyze`.

    The report shows traffic over time, durations from SEND to receipt, delivery and acknowledgement, permits,
    unacknowledged and redelivered messages, the slowest messages, findings, and gaps in the captures.

    pcli analyze captures/ -o out/ && pcli report out/ -o report.html
    """
    write_report(tables, output, title)


def check_report(option: str, output: str) -> None:
    """End the command if the report cannot be written. ``option`` is the option that specifies the file."""
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        fail(f"a report needs {' and '.join(missing)}: pip install 'pulsar-pcli[report]'")
    if output == "-":
        return
    if not Path(output).parent.is_dir():
        fail(f"{option} {output}: there is no folder {Path(output).parent}")
    if Path(output).is_dir():
        fail(f"{option} {output}: this is a folder: name a file in it")


def write_report(tables: str, output: str, title: str = "Pulsar traffic") -> None:
    """Write the page of a folder of tables to a file (``-`` for stdout), or end the command with an error."""
    check_report("-o", output)
    from pcli.spark.report import page_of
    from pcli.spark.tables.stored_tables import StoredTables

    page = page_of(StoredTables(tables), title).encode()
    if output == "-":
        write_bytes(page)
        return
    part = Path(f"{output}.part")
    try:
        part.write_bytes(page)
        part.replace(output)
    except OSError as error:
        fail(f"{output}: {(error.strerror or str(error)).lower()}; no report was written")
    finally:
        with suppress(OSError):
            part.unlink()
