"""`pcli diagnose`: finds problems in a capture, and shows evidence and advice."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pcli.cli.common.completion import complete_rule, complete_severity_or_rule
from pcli.cli.common.connection_options import Admin
from pcli.cli.common.option_groups import CaptureFiles, Credentials, ReadAs
from pcli.cli.common.options import CaptureFilter, Interface, Jobs, NoColor, PacketNumbers, filter_option, option

_Format = Literal["text", "json", "ndjson", "html"]


def diagnose(
    captures: CaptureFiles,
    *,
    interface: Interface = "",
    capture_filter: CaptureFilter = "",
    filter_: Annotated[str, filter_option("Show only findings that list a matching frame.")] = "",
    output: Annotated[
        _Format, option("-T --format", "Output format; ndjson: one finding per line; html: a page.")
    ] = "text",
    only: Annotated[
        list[str] | None, option("--only RULE", "Check only this rule. Repeatable.", autocompletion=complete_rule)
    ] = None,
    ignore: Annotated[
        list[str] | None, option("--ignore RULE", "Do not check this rule. Repeatable.", autocompletion=complete_rule)
    ] = None,
    threshold: Annotated[
        list[str] | None,
        option(
            "--threshold NAME=VALUE",
            "Change a limit of a rule, for example never-acked.age=5s; see --explain RULE. Repeatable.",
        ),
    ] = None,
    config: Annotated[str, option("--config FILE", "TOML file with rules to ignore and thresholds.")] = "",
    explain: Annotated[
        str,
        option(
            "--explain RULE", "Show the description of a rule; 'all' lists the rules.", autocompletion=complete_rule
        ),
    ] = "",
    fail_on: Annotated[
        list[str] | None,
        option(
            "--fail-on RULE|error|warning|any",
            "Exit with code 1 if there is such a finding. Repeatable.",
            autocompletion=complete_severity_or_rule,
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        option("--compare FILE", "Compare with this later capture: new, missing and remaining findings."),
    ] = None,
    packet_numbers: PacketNumbers = False,
    jobs: Jobs = None,
    read_as: ReadAs,
    no_color: NoColor = False,
    admin: Admin = "",
    credentials: Credentials,
) -> None:
    """Find problems in a capture, and show the time, frames, cause, certainty and advice for each.

    pcli diagnose -r capture.pcap

    pcli diagnose -r capture.pcap --only stuck-unacked-limit --only never-acked -T json

    pcli diagnose -r capture.pcap --fail-on error --ignore clock-skew --threshold never-acked.age=30s

    pcli diagnose -r capture.pcap --admin http://localhost:8080

    pcli diagnose -r before.pcap --compare after.pcap

    pcli diagnose --explain permits-leaked
    """
    from pcli.cli.diagnosis import capture_diagnosis
    from pcli.cli.diagnosis.broker_query import admin_api
    from pcli.cli.diagnosis.finding_comparison import run_comparison
    from pcli.cli.diagnosis.rule_settings import rule_settings
    from pcli.codec.errors import LocalError

    rules = rule_settings(only or (), ignore or (), threshold or (), config)
    failing = capture_diagnosis.checked_rules(fail_on or (), "--fail-on", capture_diagnosis.FAIL_WORDS)
    if explain:
        capture_diagnosis.explain(explain)
        return
    options = read_as.options(live=bool(interface))

    def run_of(files: list[str]) -> capture_diagnosis.DiagnosisRun:
        return capture_diagnosis.DiagnosisRun(
            files, interface, capture_filter, options, rules, filter_, color=not no_color,
            packet_numbers=packet_numbers, jobs=jobs, alone="the broker is compared" if admin else "",
        )  # fmt: skip

    if compare:
        if interface or admin or output == "html":
            raise LocalError("--compare reads captures and prints text or JSON: it excludes -i, --admin and -T html")
        code = run_comparison(run_of(captures.names), run_of(compare), output=output, fail_on=failing)
    else:
        api = admin_api(admin, credentials.security())
        code = capture_diagnosis.run(run_of(captures.names), output=output, fail_on=failing, api=api)
    raise typer.Exit(code)
