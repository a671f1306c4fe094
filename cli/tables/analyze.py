"""`pcli analyze`: writes tables of message lifecycles and findings from captures of any size, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pcli.cli.common.option_groups import ReadAs
from pcli.cli.common.options import Jobs
from pcli.cli.tables.table_options import AnalysisOptions, Out, Paths

if TYPE_CHECKING:
    from pcli.spark.engine import Engine


def analyze(
    paths: Paths,
    out: Out,
    *,
    jobs: Jobs = None,
    options: AnalysisOptions,
    read_as: ReadAs,
) -> None:
    """Create Delta Lake tables of captures: lifecycles of messages, requests, consumers, findings, gaps.

    pcli analyze captures/ -o out/

    pcli analyze 'captures/*/*.pcap' -o out/ --cluster 'captures/{cluster}/*' --incremental

    pcli analyze big.pcap.zst -o out/ --only messages,exchanges --report report.html
    """
    from pcli.spark import worker_server

    if jobs != 1 and worker_server.local_size(paths) >= worker_server.SMALL_BYTES:
        worker_server.start_server()
    from pcli.cli.tables.analysis import request_from, run

    raise typer.Exit(run(request_from(paths, out, options, read_as), options.report, _engines(jobs)))


@contextmanager
def _engines(jobs: int | None) -> Iterator[Callable[[Any], Engine]]:
    """Yield a function that returns an engine for a progress callback, with this number of processes."""
    import pyarrow as pa

    from pcli.spark.engine import InProcess
    from pcli.spark.jobs.machine_resources import cpus
    from pcli.spark.processes import Processes

    # Arrow's memory pool returns pages to the system and requests them again, which takes a twelfth of the CPU time.
    pa.set_memory_pool(pa.system_memory_pool())
    count = jobs or cpus()
    with ExitStack() as stack:
        yield InProcess if count == 1 else lambda told: stack.enter_context(closing(Processes(count, told)))
