"""Findings as text, as JSON, and as a self-contained HTML page.

Rules of this file
1. Rules escape control characters in the text of findings; this module escapes them in subjects and lines of frames. In
   HTML, all text is escaped.
2. Times are seconds since the first frame, as in `dissect`.
"""

from __future__ import annotations

import html
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import SEVERITY_COLORS, json_text
from pcli.codec.observe.rules.finding_text import cause_text

if TYPE_CHECKING:
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.cli.diagnosis.evidence_lines import FrameLines
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.incidents import Incident
    from pcli.codec.observe.rules import Finding

WIDTH: Final = 110
"""Width of the text if it is not printed on a terminal."""

JSON_VERSION: Final = 2
"""Version of the JSON form, see docs/json.md."""


@dataclass(slots=True)
class FindingText:
    """The context of a finding's text: the time of the first frame, the lines of frames, and the inputs."""

    first_ns: int
    lines: FrameLines
    origin: Callable[[int], tuple[str, int]]
    """The function that returns the file of a packet and its number in the file."""
    inputs: Sequence[str] = ()
    """The values of -r."""
    packets: PacketIndex | None = None
    """Packet numbers to show after frame numbers; None if they are not shown."""
    _: KW_ONLY
    width: int = WIDTH
    color: bool = False

    def frame(self, number: int) -> dict[str, Any]:
        """Return number, file, packet, time and line of a frame; only the number if the frame was dropped."""
        line = self.lines.line(number)
        if line is None:
            return {"number": number}
        file, packet = self.origin(line.packet)
        return {
            "number": number,
            "file": file,
            "packet": packet,
            "time": self.seconds(line.time_ns),
            "line": line.text,
        }

    def frame_text(self, number: int) -> str:
        """Return ``packet 40 of a.pcap, 1.204 s  FLOW  1000 permits``; the file only if there are several inputs."""
        frame = self.frame(number)
        if "line" not in frame:
            return ""
        file = f" of {frame['file']}" if len(self.inputs) > 1 else ""
        return f"packet {frame['packet']}{file}, {frame['time']:.3f} s  {frame['line']}"

    def command(self, finding: Finding) -> str:
        """Return the command that shows the frames of a finding; empty for a live capture or stdin."""
        if not finding.frames or not self.inputs or "-" in self.inputs:
            return ""
        frames = ", ".join(map(str, sorted(finding.frames)))
        files = " ".join(f"-r {shlex.quote(name)}" for name in self.inputs)
        return f"pcli dissect {files} -Y 'pulsar.number in {{{frames}}}'"

    def seconds(self, time_ns: int) -> float:
        """Return a time in seconds since the first frame."""
        return round((time_ns - self.first_ns) / 1e9, 6)

    def since(self, finding: Finding) -> float | None:
        """Return the start of the finding in seconds since the first frame; None if unknown."""
        return None if finding.since_ns <= 0 else self.seconds(finding.since_ns)

    def until(self, finding: Finding) -> float | None:
        """Return the end of the finding in seconds since the first frame; None if it continues or is unknown."""
        return None if finding.until_ns <= 0 else self.seconds(finding.until_ns)

    def severity(self, severity: str) -> str:
        """Return a severity in capital letters, with its colour if there are colours."""
        word = severity.upper()
        return f"{SEVERITY_COLORS[severity]}{word}\x1b[0m" if self.color else word

    def label(self, words: str) -> str:
        """Return a text with packet numbers after frame numbers, if they are shown."""
        return words if self.packets is None else self.packets.label(words)

    def head(self, finding: Finding) -> str:
        """Return a title such as ``stuck-no-permits, since 4.213 s (fact: certain)``."""
        return f"{finding.rule}{self.when(finding)} (fact: {finding.certainty})"

    def when(self, finding: Finding) -> str:
        """Return ``, since 4.2 s``, ``, at 4.2 s`` or ``, 4.2 s to 5.1 s``; empty if the start is unknown."""
        since, until = self.since(finding), self.until(finding)
        if since is None:
            return ""
        if since < 0:  # TCP packets precede the first frame
            return f", since {-since:.3f} s before the first frame"
        if until is None:
            return f", since {since:.3f} s"
        return f", at {since:.3f} s" if until == since else f", {since:.3f} s to {until:.3f} s"


def incidents_text(incidents: Sequence[Incident], wanted: Collection[Finding], text: FindingText) -> str:
    """Return the incidents as text: first the summary of each with several findings, and then these findings.

    Of the findings, only those in ``wanted`` are contained.
    """
    parts, identities = [], {one.identity for one in wanted}
    for one in incidents:
        if one.effects:
            severity = text.severity(one.severity)
            parts += [
                f"{severity}  incident with {len(one.findings)} findings{text.when(one.root)} ({one.certainty})",
                *wrapped("  ", text.label(one.summary()), text.width),
                "",
            ]
        parts += [shown_text(finding, text) for finding in one.findings if finding.identity in identities]
    return "\n".join(parts)


def shown_text(finding: Finding, text: FindingText) -> str:
    """Return a finding as lines of text, with an empty line at the end."""
    cause = finding.cause
    rows = [f"{text.severity(finding.severity)}  {text.head(finding)}"]
    rows += wrapped("  ", text.label(finding.what), text.width)
    for number in finding.frames:
        rows += wrapped(f"    frame {number}  ", text.frame_text(number), text.width)
    rows += wrapped("  cause: ", cause_text(cause.culprit, finding.cause_certainty, cause.alternatives), text.width)
    rows += wrapped("  to decide: ", cause.decide, text.width) if cause.decide else []
    rows += wrapped("  against it: ", text.label(finding.opposite), text.width)
    rows += wrapped("  what to do: ", finding.advice, text.width)
    if command := text.command(finding):
        rows.append(f"  show: {command}")
    return "\n".join([*rows, f"  more: pcli diagnose --explain {finding.rule}", ""])


def wrapped(lead: str, words: str, width: int) -> list[str]:
    """Return the lead and the words as lines of this width. Later lines are indented by the length of the lead."""
    if len(lead) + len(words) <= width:
        return [f"{lead}{words}".rstrip()]
    return textwrap.wrap(
        words, width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def summary(found: Sequence[Finding], diagnosis: Diagnosis) -> str:
    """Return a summary such as ``2 findings (1 error, 1 note) in ...``, followed by the amount of data examined."""
    from pcli.codec.observe.diagnosis import checked_counts_text

    looked_at = checked_counts_text(diagnosis.checked_counts())
    if not found and not diagnosis.capture.frames:
        return "no Pulsar frames: nothing to diagnose"
    if not found:
        return f"nothing found in {looked_at}"
    counts = Counter(one.severity for one in found)
    words = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items())
    dropped = f" and {diagnosis.dropped} more that were dropped" if diagnosis.dropped else ""
    return f"{len(found)} finding{'s' if len(found) > 1 else ''}{dropped} ({words}) in {looked_at}"


def shown_json(
    incidents: Sequence[Incident], diagnosis: Diagnosis, text: FindingText, admin: dict[str, Any] | None = None
) -> str:
    """Return all incidents and findings as one JSON object. An incident refers to findings by their index.

    ``admin`` is the report of the broker.
    """
    from pcli.codec.observe.tracking.records.counters import Occurrences

    capture = diagnosis.capture
    values = {one.name: getattr(capture, one.name) for one in fields(capture)}
    values["losses"] = [
        {"stream": stream, "from": "client" if from_client else "broker", "frame": loss.frame}
        for (stream, from_client), loss in capture.losses.items()
    ]
    return (
        json_text(
            {
                "version": JSON_VERSION,
                "incidents": list(_incident_rows(incidents, text)),
                "findings": [finding_row(one, text) for incident in incidents for one in incident.findings],
                "looked_at": diagnosis.checked_counts(),
                "capture": {
                    name: value.count if isinstance(value, Occurrences) else value for name, value in values.items()
                },
                **({} if admin is None else {"admin": admin}),
            },
            indent=1,
        )
        + "\n"
    )


def _incident_rows(incidents: Sequence[Incident], text: FindingText) -> Iterator[dict[str, Any]]:
    first = 0
    for one in incidents:
        count = len(one.findings)
        yield {
            "severity": one.severity,
            "certainty": one.certainty,
            "summary": one.summary(),
            "since": text.since(one.root),
            "findings": list(range(first, first + count)),
        }
        first += count


def finding_row(finding: Finding, text: FindingText) -> dict[str, Any]:
    """Return a finding as the keys and values of its JSON form."""
    cause = finding.cause
    return {
        "rule": finding.rule,
        "variant": finding.variant,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "cause": {
            "culprit": cause.culprit,
            "certainty": finding.cause_certainty,
            "alternatives": list(cause.alternatives),
            "decide": cause.decide,
        },
        "subject": finding.subject,
        "what": finding.what,
        "count": finding.count,
        "since": text.since(finding),
        "until": text.until(finding),
        "frames": [text.frame(number) for number in finding.frames],
        "command": text.command(finding),
        "opposite": finding.opposite,
        "advice": finding.advice,
    }


def shown_ndjson(incidents: Sequence[Incident], text: FindingText, admin: dict[str, Any] | None = None) -> str:
    """Return each finding as one line of JSON; ``admin``, the report of the broker, is the last line."""
    rows = [finding_row(one, text) for incident in incidents for one in incident.findings]
    rows += [] if admin is None else [{"admin": admin}]
    return "".join(json_text(row) + "\n" for row in rows)


def shown_html(
    incidents: Sequence[Incident],
    diagnosis: Diagnosis,
    text: FindingText,
    files: Sequence[str],
    admin: Sequence[str] = (),
) -> str:
    """Return all incidents and findings as one HTML page; ``admin`` contains the lines of the report of the broker."""
    title = f"pcli diagnose {' '.join(files)}".strip()
    found = [one for incident in incidents for one in incident.findings]
    parts = [_HEAD.format(title=_safe(title)), f"<h1>{_safe(title)}</h1>", f"<p>{_safe(summary(found, diagnosis))}</p>"]
    for incident in incidents:
        if incident.effects:
            parts.append(f"<h2>Incident: {_safe(incident.certainty)}</h2><p>{_safe(incident.summary())}</p>")
        parts += [_section(one, text) for one in incident.findings]
    if admin:
        parts.append(f"<h2>The broker</h2><pre>{_safe(chr(10).join(admin))}</pre>")
    return "\n".join([*parts, "</body></html>", ""])


def _section(finding: Finding, text: FindingText) -> str:
    frames = "".join(f"<li>frame {number} <code>{_safe(text.frame_text(number))}</code>" for number in finding.frames)
    cause = finding.cause
    culprit = cause_text(cause.culprit, finding.cause_certainty, cause.alternatives)
    decide = f"<p><b>To decide:</b> {_safe(cause.decide)}</p>" if cause.decide else ""
    return (
        f'<section class="{_safe(finding.severity)}"><h3>{_safe(text.head(finding))}</h3>'
        f"<p>{_safe(finding.what)}</p><ul>{frames}</ul><p><b>Cause:</b> {_safe(culprit)}</p>{decide}"
        f"<p><b>Against it:</b> {_safe(finding.opposite)}</p><p><b>What to do:</b> {_safe(finding.advice)}</p>"
        f"<p><code>{_safe(text.command(finding))}</code></p>"
        f"<details><summary>More on {_safe(finding.rule)}</summary>"
        f"<pre>{_safe(_page(finding.rule))}</pre></details>"
        "</section>"
    )


def _page(rule: str) -> str:
    from pcli.codec.observe.rules import RULES
    from pcli.codec.observe.rules.rule_pages import page_of

    return page_of(RULES[rule])


def _safe(text: str) -> str:
    """Return the text escaped for HTML, including attributes."""
    from pcli.codec.observe.text_format import printable

    return "\n".join(html.escape(printable(line)) for line in text.split("\n"))


_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }}
section {{ border-left: 6px solid #999; padding: 0 1em; margin: 1.5em 0 }}
section.error {{ border-color: #c22 }} section.warning {{ border-color: #d90 }} section.note {{ border-color: #48c }}
h1 {{ font-size: 1.4em }} h2 {{ font-size: 1.2em }} h3 {{ font-size: 1.1em }}
code, pre {{ font-size: 0.9em }} pre {{ white-space: pre-wrap }}
h1, h2, h3, p, code, pre {{ overflow-wrap: anywhere }} ul {{ padding-left: 1.2em }}
</style></head><body>"""
