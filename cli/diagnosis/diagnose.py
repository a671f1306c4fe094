"""`pcli diagnose`: what is wrong in a capture, in plain words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pcli.cli.common.options import DecodeAs, Files, MoreFiles, decode_as_ports, named_files

__all__ = ["diagnose"]


class _Format(StrEnum):
    text = "text"
    json = "json"
    html = "html"


def diagnose(
    read: Files = None,
    more: MoreFiles = None,
    interface: Annotated[str, typer.Option("-i", "--interface", help="Listen to this interface, until Ctrl-C.")] = "",
    filter_: Annotated[
        str, typer.Option("-Y", "--filter", metavar="FILTER", help="Only findings of which a frame matches.")
    ] = "",
    output: Annotated[_Format, typer.Option("-T", "--format", help="text, json or html (a page).")] = _Format.text,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="RULE", help="Ask this rule; again for more.")
    ] = None,
    explain: Annotated[
        str, typer.Option("--explain", metavar="RULE", help="Show the page of a rule; 'all' lists them.")
    ] = "",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on", metavar="RULE|error|warning|any", help="Exit with 1 when it was found; again for more."
        ),
    ] = None,
    decode_as: DecodeAs = None,
) -> None:
    """Say what is wrong in a capture: since when, by which frames, whose doing, how sure, and what to do.

    pcli diagnose -r capture.pcap

    pcli diagnose -r capture.pcap --only stuck-unacked-limit --only never-acked -T json

    pcli diagnose -r capture.pcap --fail-on error

    pcli diagnose --explain permits-leaked
    """
    from pcli.cli.diagnosis import capture_diagnosis

    rules = capture_diagnosis.checked_rules(only or (), "--only")
    failing = capture_diagnosis.checked_rules(fail_on or (), "--fail-on", capture_diagnosis.FAIL_WORDS)
    if explain:
        capture_diagnosis.explain(explain)
        return
    code = capture_diagnosis.run(
        files=named_files(read, more),
        interface=interface,
        filter_=filter_,
        decode_as=decode_as_ports(decode_as),
        output=output.value,
        only=rules,
        fail_on=failing,
    )
    raise typer.Exit(code)
