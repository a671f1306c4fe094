"""`pcli tables`: lists the tables of an analysis and their runs, and maintains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pcli.cli.common.help_pages import PlainCommand
from pcli.cli.common.options import Output, argument, option
from pcli.cli.common.output import counted, write_line
from pcli.cli.tables.table_options import MAX_DAYS

if TYPE_CHECKING:
    from pcli.spark.tables.table_store import Store

Folder = Annotated[str, argument("OUT", "Folder or URI of the tables.")]


class _ListByDefault(TyperGroup):
    """A group that runs `list` if the first argument is not a subcommand: `pcli tables OUT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListByDefault,
    no_args_is_help=True,
    help="List the tables in a folder with their versions, rows and bytes, or maintain them.",
)


@app.command("list", cls=PlainCommand)
def list_tables(
    out: Folder,
    runs: Annotated[bool, option("--runs", "List the runs that wrote the tables, not the tables.")] = False,
    output: Output = "text",
) -> None:
    """List the tables of the last run: Delta version, rows, bytes and files.

    pcli tables out/

    pcli tables out/ --runs
    """
    from pcli.cli.common.text_tables import print_rows
    from pcli.cli.common.times import moment_text
    from pcli.spark.tables.runs import find_run, read_runs

    store = _store(out)
    found = read_runs(store)
    last = find_run(found, store.root)
    if runs:
        rows = [
            {
                "run": run.run,
                "finished": moment_text(run.finished_ns),
                "tables": len(run.tables),
                "rows": sum(table.rows for table in run.tables),
                "pcli": run.pcli,
            }
            for run in found
        ]
    else:
        rows = [
            {"table": one.name, "version": one.version, "rows": one.rows, "bytes": one.bytes, "files": one.files}
            for one in last.tables
        ]
    print_rows(rows, output, {name: name for name in rows[0]})


@app.command(cls=PlainCommand)
def vacuum(
    out: Folder,
    keep: Annotated[
        float, option("--keep DAYS", "Runs that ended within this time remain readable.", min=0, max=MAX_DAYS)
    ] = 7,
    dry_run: Annotated[bool, option("--dry-run", "Count the files, but remove nothing.")] = False,
) -> None:
    """Remove the files that only earlier runs use. The last run that wrote a table is always kept.

    pcli tables vacuum out/ --keep 1
    """
    from pcli.spark.tables.maintenance import vacuum as remove_files

    removed = remove_files(_store(out), keep_days=keep, dry_run=dry_run)
    files = sum(one.files for one in removed)
    write_line(f"{counted(files, 'file')} {'would be ' if dry_run else ''}removed")


@app.command(cls=PlainCommand)
def compact(out: Folder) -> None:
    """Merge small files. The rows do not change; the tables have new versions.

    pcli tables compact out/
    """
    from pcli.spark.tables.maintenance import compact as merge_files

    store = _store(out)
    run = merge_files(store)
    write_line(f"{store.root}: run {run.run}, {sum(table.files for table in run.tables)} files")


def _store(place: str) -> Store:
    from pcli.cli.tables.analysis import need_tables

    need_tables()
    from pcli.spark.tables.table_store import open_store

    return open_store(place)
