"""`pcli analyze`: writes tables of message lifecycles and findings from captures of any size, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from pcli.cli.common.option_groups import ReadAs
from pcli.cli.tables.table_options import AnalysisOptions, Out, Paths

if TYPE_CHECKING:
    from pcli.spark.engine import InProcess

__all__ = ["analyze"]


def analyze(
    paths: Paths,
    out: Out,
    options: AnalysisOptions,
    read_as: ReadAs,
) -> None:
    """Create Delta Lake tables of captures: lifecycles of messages, requests, consumers, findings, gaps.

    pcli analyze captures/ -o out/

    pcli analyze 'captures/*/*.pcap' -o out/ --cluster 'captures/{cluster}/*' --incremental

    pcli analyze big.pcap.zst -o out/ --only messages,exchanges --report report.html
    """
    from pcli.cli.tables.analysis import request_from, run

    raise typer.Exit(run(request_from(paths, out, options, read_as), options.report, _in_process()))


@contextmanager
def _in_process() -> Iterator[type[InProcess]]:
    """Return the engine that runs in this process."""
    import pyarrow as pa

    from pcli.spark.engine import InProcess

    # Arrow's memory pool returns pages to the system and requests them again, which takes a twelfth of the CPU time.
    pa.set_memory_pool(pa.system_memory_pool())
    yield InProcess
