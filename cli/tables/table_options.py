"""Options that `analyze`, `spark-analyze` and `spark-stream` share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Cluster",
    "Conf",
    "Debug",
    "Frames",
    "Incremental",
    "Master",
    "Only",
    "Out",
    "Paths",
    "Report",
    "Since",
    "Strict",
    "Until",
]

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH…", help="Captures, folders of them, patterns, or URIs (s3://bucket/captures)."),
]
Out = Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="Folder of the tables, or a URI of one.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="TABLE,…",
        help="Make these tables only, as messages,findings: exchanges, topics, subscriptions, consumers, producers, "
        "connections, permits, keys, frames. captures and gaps are always there.",
    ),
]
Frames = Annotated[bool, typer.Option("--frames", help="Make the table of all frames too; it is large.")]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="LABEL",
        help="Label of the cluster, or a path pattern with {cluster}: captures/{cluster}/**.",
    ),
]
Incremental = Annotated[
    bool,
    typer.Option(
        "--incremental", help="Read only files that are new since the last such run; tables hold all of them."
    ),
]
Since = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Leave out packets before this time: 2026-11-20T18:15:11.25Z, or seconds since 1970.",
    ),
]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="Leave out packets from this time on.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Fail when a file cannot be read to its end; OUT stays as it is.")
]
Report = Annotated[str, typer.Option("--report", metavar="FILE", help="Write a report of the tables too, as HTML.")]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="local[*], local[4], spark://host:7077, yarn, k8s://https://….")
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, as spark.executor.memory=4g; again for more."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show what Spark prints, and traces of errors.")]
