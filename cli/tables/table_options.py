"""Options that `analyze`, `spark-analyze` and `spark-stream` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pcli.cli.common.options import argument, option

MAX_DAYS: Final = 36_500
"""Maximum of ``--keep``: about a century."""

Paths = Annotated[list[str], argument("PATH", "Captures, folders, glob patterns, or URIs (s3://bucket/captures).")]
Out = Annotated[str, option("-o --output OUT", "Folder or URI of the tables.")]
Only = Annotated[
    list[str] | None,
    option(
        "--only TABLE,…",
        "Write only these tables, separated by commas: messages, exchanges, topics, subscriptions, consumers, "
        "producers, connections, permits, keys, findings, frames. The tables captures and gaps are always written.",
    ),
]
Cluster = Annotated[
    str, option("--cluster LABEL", "Label of the cluster, or a path pattern with {cluster}: captures/{cluster}/**.")
]
Horizon = Annotated[
    float, option("--horizon HOURS", "Time of the capture after which the rows of an incremental run are final.", min=0)
]
_MASTERS: Final = "local[*], local[4], spark://host:7077, yarn, k8s://https://…"
Master = Annotated[str, option("--master URL", f"{_MASTERS}.")]
MasterOrServer = Annotated[str, option("--master URL", f"{_MASTERS}, sc://host:15002 (Spark Connect).")]
Conf = Annotated[
    list[str] | None, option("--conf KEY=VALUE", "Setting of Spark, for example spark.executor.memory=4g. Repeatable.")
]
Debug = Annotated[bool, option("--debug", "Show the output of Spark, and stack traces of errors.")]
Keep = Annotated[
    float | None,
    option(
        "--keep DAYS",
        "Time for which earlier runs remain readable: by default 7 days, or the last two runs with --incremental.",
        min=0,
        max=MAX_DAYS,
    ),
]
RunNumber = Annotated[int | None, option("--run N", "Use the tables of this run (`pcli tables OUT --runs`).", min=1)]
AsOf = Annotated[str, option("--as-of TIME", "Use the tables of the last run that had finished at this time.")]


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """The options of `analyze` and `spark-analyze`."""

    only: Only = None
    frames: Annotated[bool, option("--frames", "Also write the table of all frames, which is large.")] = False
    cluster: Cluster = ""
    incremental: Annotated[
        bool,
        option(
            "--incremental",
            "Read only files that are new since the last incremental run, and add their rows to the tables.",
        ),
    ] = False
    horizon: Horizon = 24
    since: Annotated[
        str, option("--since TIME", "Ignore packets before this time: 2026-11-20T18:15:11.25Z, or seconds since 1970.")
    ] = ""
    until: Annotated[str, option("--until TIME", "Ignore packets at or after this time.")] = ""
    strict: Annotated[
        bool, option("--strict", "Fail if a file cannot be read to its end, and leave OUT unchanged.")
    ] = False
    report: Annotated[str, option("--report FILE", "Also write an HTML report of the tables.")] = ""
    keep: Keep = None
