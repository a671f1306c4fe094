"""`pcli analyze`: tables of message lives and findings from captures of any size, in one process."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.options import DecodeAs, decode_as_ports

__all__ = ["Cluster", "Frames", "Incremental", "Only", "Out", "Paths", "Report", "Since", "Strict", "Until", "analyze"]

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


def analyze(
    paths: Paths,
    out: Out,
    only: Only = None,
    frames: Frames = False,
    cluster: Cluster = "",
    incremental: Incremental = False,
    since: Since = "",
    until: Until = "",
    strict: Strict = False,
    report: Report = "",
    decode_as: DecodeAs = None,
) -> None:
    """Make tables of captures: the life of every message, requests, consumers, findings, gaps. Parquet, a folder each.

    pcli analyze captures/ -o out/

    pcli analyze 'captures/*/*.pcap' -o out/ --cluster 'captures/{cluster}/*' --incremental

    pcli analyze big.pcap.zst -o out/ --only messages,exchanges --report report.html
    """
    from pcli.cli import analyze_run

    request = analyze_run.request_of(
        paths=paths,
        out=out,
        only=only or (),
        frames=frames,
        cluster=cluster,
        incremental=incremental,
        since=since,
        until=until,
        strict=strict,
        decode_as=decode_as_ports(decode_as),
    )
    raise typer.Exit(analyze_run.run(request, report))
