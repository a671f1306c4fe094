"""`pcli spark-stream`: keeps the tables of a folder with rotated captures up to date."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.common.options import DecodeAs, KeyLogFile
from pcli.cli.common.output import Exit, say
from pcli.cli.tables.table_options import Cluster, Conf, Debug, Keep, Master, Only, Out

if TYPE_CHECKING:
    from pcli.spark.request import Request
    from pcli.spark.summary import Summary

__all__ = ["spark_stream"]


def spark_stream(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder that receives finished captures.")],
    out: Out,
    checkpoint: Annotated[
        str,
        typer.Option("--checkpoint", metavar="FOLDER", help="Folder where Spark records the files that it has read."),
    ],
    master: Master = "local[*]",
    conf: Conf = None,
    only: Only = None,
    cluster: Cluster = "",
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1, help="Time between two scans of the folder.")
    ] = 10,
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Maximum number of files in a batch.")] = 1000,
    once: Annotated[
        bool, typer.Option("--once", help="Read the files that exist, then exit; use this option with cron.")
    ] = False,
    keep: Keep = None,
    decode_as: DecodeAs = None,
    keylog: KeyLogFile = "",
    debug: Debug = False,
) -> None:
    """Read the files of a rotated capture as they are finished, and keep the tables up to date, until Ctrl-C.

    Each file is read once, even after an interruption or a crash: the next run continues with the remaining files.
    Move files into the folder when they are finished, for example with tcpdump -G 60 -z.

    pcli spark-stream captures/ -o out/ --checkpoint state/

    pcli spark-stream captures/ -o out/ --checkpoint state/ --once
    """
    from pcli.cli.tables.analysis import request_from
    from pcli.cli.tables.spark_analyze import print_traces

    request = request_from({**context.params, "paths": [folder], "incremental": True})
    with print_traces(debug):
        code = _run(
            request,
            master,
            conf or [],
            checkpoint=checkpoint,
            every_s=every,
            most=most,
            once=once,
            key_log=keylog,
            debug=debug,
        )
    raise typer.Exit(code)


def _run(
    request: Request,
    master: str,
    conf: Sequence[str],
    *,
    checkpoint: str,
    every_s: float,
    most: int,
    once: bool,
    key_log: str,
    debug: bool,
) -> Exit:
    """Read files until stopped. Return the exit code, which is 3 if a file could not be read to its end."""
    from pcli.spark.jobs.session import open_spark, parsed_conf
    from pcli.spark.jobs.stream import Stream
    from pcli.spark.tables.uri_redaction import hidden

    damaged = False

    def print_batch(number: int, files: int, summary: Summary) -> None:
        nonlocal damaged
        damaged = damaged or bool(summary.troubles)
        say(f"batch {number}: {files} file{'s' if files != 1 else ''}; run {summary.run}")
        for path, status, error in summary.troubles:
            say(f"{path}: {status}: {error}")

    # SIGTERM, from `kill` or a service manager, has the effect of Ctrl-C. The next run repeats an interrupted batch.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with open_spark(master, parsed_conf(conf), debug=debug) as spark:
        stream = Stream(spark, request, checkpoint, most=most, key_log=key_log, on_batch=print_batch)
        if not once:
            say(f"watching {hidden(request.paths[0])}: Ctrl-C ends it")
        try:
            stream.run(every_s=every_s, once=once)
        except KeyboardInterrupt:
            stream.stop()  # this is the regular way to end
    return Exit.DAMAGED if damaged else Exit.FINE
