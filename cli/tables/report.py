"""`pcli report`: writes the tables of an analysis as one HTML page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pcli.cli.common.options import argument, option
from pcli.cli.common.output import complete_file, fail, write_bytes
from pcli.cli.tables.table_options import AsOf, RunNumber

if TYPE_CHECKING:
    from pcli.spark.report import Selection
    from pcli.spark.tables.stored_tables import StoredTables

_NEEDS: Final = ("deltalake", "duckdb", "jinja2", "pyarrow", "vl_convert")
_TITLE: Final = "Pulsar traffic"


def report(
    tables: Annotated[str, argument("OUT", "Folder or URI of the tables.")],
    output: Annotated[str, option("-o --output FILE", "File to write; - is stdout.")] = "report.html",
    title: Annotated[str, option("--title TEXT", "Heading of the page.")] = _TITLE,
    since: Annotated[
        str, option("--since TIME", "Begin at this time: 2026-11-20T18:15:11Z, or seconds since 1970.")
    ] = "",
    until: Annotated[str, option("--until TIME", "End before this time.")] = "",
    topic: Annotated[
        list[str] | None, option("--topic TOPIC", "Report only on this topic and its partitions. Repeatable.")
    ] = None,
    run: RunNumber = None,
    as_of: AsOf = "",
    jobs: Annotated[int | None, option("-j --jobs N", "Number of threads; by default one per core.", min=1)] = None,
    serve: Annotated[bool, option("--serve", "Serve web pages of all objects and rows until Ctrl-C.")] = False,
    port: Annotated[int, option("--port PORT", "Port of --serve; 0 selects any free port.", min=0, max=65535)] = 8088,
    bind: Annotated[str, option("--bind ADDRESS", "Address of --serve.")] = "127.0.0.1",
    insecure: Annotated[bool, option("--insecure", "Serve on an address of the network without credentials.")] = False,
) -> None:
    """Write a self-contained HTML report of the tables of `analyze` or `spark-analyze`.

    The report begins with the incidents and the unhealthy topics. Charts show traffic, latencies, permits and backlogs
    over time; a section describes each topic, subscription, consumer, producer and connection.

    pcli analyze captures/ -o out/ && pcli report out/ -o report.html

    pcli report out/ --topic orders --since 2026-11-20T18:00:00Z

    pcli report out/ --serve
    """
    if not serve:
        check_report("-o", output)
        _write(_page(chosen_tables(tables, run, as_of), title, _selection(since, until, topic), jobs), output)
        return
    _check_extra()
    from pcli.cli.tables import report_serving

    address = report_serving.Address(bind, port, insecure)
    report_serving.serve(lambda: chosen_tables(tables, run, as_of), title, _selection(since, until, topic), address)


def _selection(since: str, until: str, topics: list[str] | None) -> Selection:
    """Return the range and the topics of the options, or end the command if the range is empty."""
    from pcli.cli.common.times import epoch_ns
    from pcli.spark.report import Selection

    since_ns = epoch_ns("--since", since) if since else None
    until_ns = epoch_ns("--until", until) if until else None
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        fail(f"--since {since} is not before --until {until}: the range is empty")
    return Selection(since_ns, until_ns, tuple(topics or ()))


def check_report(option: str, output: str) -> None:
    """End the command if the report cannot be written. ``option`` is the option that specifies the file."""
    _check_extra()
    if output == "-":
        return
    if not Path(output).parent.is_dir():
        fail(f"{option} {output}: there is no folder {Path(output).parent}")
    if Path(output).is_dir():
        fail(f"{option} {output}: this is a folder: name a file in it")


def _check_extra() -> None:
    """End the command if a package of the extra is missing."""
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        fail(f"a report needs {' and '.join(missing)}: pip install 'pulsar-pcli[report]'")


def chosen_tables(place: str, run: int | None, as_of: str) -> StoredTables:
    """Return the tables in a folder that ``--run`` and ``--as-of`` select. Raises LocalError if there are none."""
    from pcli.cli.common.times import epoch_ns
    from pcli.spark.tables.stored_tables import StoredTables

    if run is not None and as_of:
        fail("--run and --as-of exclude each other")
    return StoredTables(place, run=run, at_ns=epoch_ns("--as-of", as_of) if as_of else None)


def write_report(tables: str, output: str, jobs: int | None = None) -> None:
    """Write the page of a folder of tables to a file (``-`` for stdout), or end the command with an error.

    ``jobs`` is the number of threads; None for one on each core.
    """
    from pcli.spark.report import Selection

    _write(_page(chosen_tables(tables, None, ""), _TITLE, Selection(), jobs), output)


def _page(tables: StoredTables, title: str, selection: Selection, jobs: int | None) -> bytes:
    from pcli.spark.report import page_of

    return page_of(tables, title, selection, threads=jobs).encode()


def _write(page: bytes, output: str) -> None:
    if output == "-":
        write_bytes(page)
        return
    try:
        with complete_file(output) as part:
            part.write_bytes(page)
    except OSError as error:
        fail(f"{output}: {(error.strerror or str(error)).lower()}; no report was written")
