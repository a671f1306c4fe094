"""`pcli spark-analyze`: the tables of `pcli analyze`, computed by Spark on this machine or on a cluster.

Rules of this file
1. Java, Spark and the master are checked before the first capture is opened.
2. An error is one line, as in every command. With --debug, the traces of Java and Python are printed first.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from pcli.cli.common.option_groups import ReadAs
from pcli.cli.tables.table_options import AnalysisOptions, Conf, Debug, MasterOrServer, Out, Paths
from pcli.codec.errors import PcliError


def spark_analyze(
    paths: Paths,
    out: Out,
    *,
    master: MasterOrServer = "local[*]",
    conf: Conf = None,
    options: AnalysisOptions,
    read_as: ReadAs,
    debug: Debug = False,
) -> None:
    """Create the tables of `pcli analyze` with Spark, for many gigabytes or several machines.

    pcli spark-analyze captures/ -o out/

    pcli spark-analyze /mnt/captures -o /mnt/out --master spark://host:7077 --conf spark.executor.memory=4g

    pcli spark-analyze captures/ -o out/ --incremental --report report.html
    """
    from pcli.cli.tables.analysis import request_from, run

    request = request_from(paths, out, options, read_as)
    with print_traces(debug):
        code = run(request, options.report, _spark(master, conf or [], debug=debug))
    raise typer.Exit(code)


@contextmanager
def _spark(master: str, conf: Sequence[str], *, debug: bool) -> Iterator[Callable[[Any], Any]]:
    """Open an engine that runs in a new Spark session."""
    from pcli.spark.jobs.session import open_context, parsed_conf

    if master.startswith("sc://"):
        from pcli.spark.jobs.connect_engine import ConnectEngine
        from pcli.spark.jobs.connect_session import open_connect

        with open_connect(master, parsed_conf(conf)) as session:
            yield partial(ConnectEngine, session)
        return
    from pcli.spark.jobs.spark_engine import SparkEngine

    with open_context(master, parsed_conf(conf), debug=debug) as spark:
        yield partial(SparkEngine, spark)


@contextmanager
def print_traces(debug: bool) -> Iterator[None]:
    """If ``debug`` is set, print the stack trace of an error that leaves the block."""
    try:
        yield
    except PcliError:
        if debug:
            traceback.print_exc(file=sys.stderr)
        raise
