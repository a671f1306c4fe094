"""Options that `analyze`, `spark-analyze` and `spark-stream` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

__all__ = [
    "MAX_DAYS",
    "AnalysisOptions",
    "AsOf",
    "Cluster",
    "Conf",
    "Debug",
    "Horizon",
    "Keep",
    "Master",
    "MasterOrServer",
    "Only",
    "Out",
    "Paths",
    "RunNumber",
]

MAX_DAYS: Final = 36_500
"""Maximum of ``--keep``: about a century."""

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Captures, folders, glob patterns, or URIs (s3://bucket/captures)."),
]
Out = Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="Folder or URI of the tables.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="TABLE,…",
        help="Write only these tables, separated by commas: messages, exchanges, topics, subscriptions, consumers, "
        "producers, connections, permits, keys, findings, frames. The tables captures and gaps are always written.",
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="LABEL",
        help="Label of the cluster, or a path pattern with {cluster}: captures/{cluster}/**.",
    ),
]
Horizon = Annotated[
    float,
    typer.Option(
        "--horizon",
        metavar="HOURS",
        min=0,
        help="Time of the capture after which the rows of an incremental run are final.",
    ),
]
_MASTERS: Final = "local[*], local[4], spark://host:7077, yarn, k8s://https://…"
Master = Annotated[str, typer.Option("--master", metavar="URL", help=f"{_MASTERS}.")]
MasterOrServer = Annotated[
    str, typer.Option("--master", metavar="URL", help=f"{_MASTERS}, sc://host:15002 (Spark Connect).")
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="Setting of Spark, for example spark.executor.memory=4g. Repeatable."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the output of Spark, and stack traces of errors.")]
Keep = Annotated[
    float | None,
    typer.Option(
        "--keep",
        metavar="DAYS",
        min=0,
        max=MAX_DAYS,
        help="Time for which earlier runs remain readable: by default 7 days, or the last two runs with --incremental.",
    ),
]
RunNumber = Annotated[
    int | None,
    typer.Option("--run", metavar="N", min=1, help="Use the tables of this run (`pcli tables OUT --runs`)."),
]
AsOf = Annotated[
    str, typer.Option("--as-of", metavar="TIME", help="Use the tables of the last run that had finished at this time.")
]


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """The options of `analyze` and `spark-analyze`."""

    only: Only = None
    frames: Annotated[bool, typer.Option("--frames", help="Also write the table of all frames, which is large.")] = (
        False
    )
    cluster: Cluster = ""
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Read only files that are new since the last incremental run, and add their rows to the tables.",
        ),
    ] = False
    horizon: Horizon = 24
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Ignore packets before this time: 2026-11-20T18:15:11.25Z, or seconds since 1970.",
        ),
    ] = ""
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Ignore packets at or after this time.")] = ""
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if a file cannot be read to its end, and leave OUT unchanged.")
    ] = False
    report: Annotated[
        str, typer.Option("--report", metavar="FILE", help="Also write an HTML report of the tables.")
    ] = ""
    keep: Keep = None
