"""`pcli report`: writes the tables of an analysis as one HTML page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pcli.cli.common.output import complete_file, fail, write_bytes
from pcli.cli.tables.table_options import AsOf, RunNumber

if TYPE_CHECKING:
    from pcli.spark.tables.stored_tables import StoredTables

__all__ = ["check_report", "chosen_tables", "report", "write_report"]

_NEEDS: Final = ("deltalake", "duckdb", "jinja2", "pyarrow", "vl_convert")


def report(
    tables: Annotated[str, typer.Argument(metavar="OUT", help="Folder or URI of the tables.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="File to write; - is stdout.")
    ] = "report.html",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = "Pulsar traffic",
    run: RunNumber = None,
    as_of: AsOf = "",
) -> None:
    """Write a self-contained HTML report of the tables of `analyze` or `spark-analyze`.

    The report shows traffic over time, durations from SEND to receipt, delivery and acknowledgement, permits,
    unacknowledged and redelivered messages, the slowest messages, findings, and gaps in the captures.

    pcli analyze captures/ -o out/ && pcli report out/ -o report.html

    pcli report out/ --as-of 2026-11-20T18:00:00Z
    """
    write_report(tables, output, title, run=run, as_of=as_of)


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


def chosen_tables(place: str, run: int | None, as_of: str) -> StoredTables:
    """Return the tables in a folder that ``--run`` and ``--as-of`` select. Raises LocalError if there are none."""
    from pcli.cli.common.times import epoch_ns
    from pcli.spark.tables.stored_tables import StoredTables

    if run is not None and as_of:
        fail("--run and --as-of exclude each other")
    return StoredTables(place, run=run, at_ns=epoch_ns("--as-of", as_of) if as_of else None)


def write_report(
    tables: str, output: str, title: str = "Pulsar traffic", *, run: int | None = None, as_of: str = ""
) -> None:
    """Write the page of a folder of tables to a file (``-`` for stdout), or end the command with an error."""
    check_report("-o", output)
    from pcli.spark.report import page_of

    page = page_of(chosen_tables(tables, run, as_of), title).encode()
    if output == "-":
        write_bytes(page)
        return
    try:
        with complete_file(output) as part:
            part.write_bytes(page)
    except OSError as error:
        fail(f"{output}: {(error.strerror or str(error)).lower()}; no report was written")
