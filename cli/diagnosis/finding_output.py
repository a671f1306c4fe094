"""Findings as text, as JSON, and as a self-contained HTML page.

Rules of this file
1. Rules escape control characters in the text of findings; this module escapes them in subjects and lines of frames. In
   HTML, all text is escaped.
2. Times are seconds since the first frame, as in `dissect`.
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import SEVERITY_COLORS, json_text

if TYPE_CHECKING:
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.rules import Finding

__all__ = ["FindingText", "shown_html", "shown_json", "shown_ndjson", "shown_text", "summary", "wrapped"]

_WIDTH: Final = 110
"""Width of the text if it is not printed on a terminal."""


class FindingText:
    """The context of a finding's text: the time of the first frame, and lines and packet numbers of frames."""

    def __init__(
        self,
        first_ns: int,
        line_of: Callable[[int], str],
        packets: PacketIndex | None = None,
        *,
        width: int = _WIDTH,
        color: bool = False,
    ) -> None:
        self.first_ns = first_ns
        self.line_of = line_of
        self.packets = packets
        """Packet numbers to show after frame numbers; None if they are not shown."""
        self.width = width
        self.color = color

    def since(self, finding: Finding) -> float | None:
        """Return the start of the finding in seconds since the first frame; None if unknown."""
        return None if finding.since_ns <= 0 else round((finding.since_ns - self.first_ns) / 1e9, 6)

    def head(self, finding: Finding) -> str:
        """Return a title such as ``stuck-no-permits, since 4.213 s: caused by the application, certain``."""
        since = self.since(finding)
        when = "" if since is None else f", since {since:.3f} s"
        if since is not None and since < 0:  # TCP packets precede the first frame
            when = f", since {-since:.3f} s before the first frame"
        return f"{finding.rule}{when}: {_CAUSES[finding.culprit]}, {finding.sure}"


_CAUSES: Final = {
    "application": "caused by the application",
    "client": "caused by the client library",
    "broker": "caused by the broker",
    "network": "caused by the network",
    "capture": "caused by the capture",
}


def shown_text(finding: Finding, text: FindingText) -> str:
    """Return a finding as lines of text, with an empty line at the end."""
    severity = finding.severity.upper()
    if text.color:
        severity = f"{SEVERITY_COLORS[finding.severity]}{severity}\x1b[0m"
    label = (lambda words: words) if text.packets is None else text.packets.label
    rows = [f"{severity}  {text.head(finding)}", *wrapped("  ", label(finding.what), text.width)]
    for number in finding.frames:
        rows += wrapped(label(f"    frame {number}") + "  ", text.line_of(number) or " ", text.width)
    rows += wrapped("  against it: ", label(finding.opposite), text.width)
    rows += wrapped("  what to do: ", finding.advice, text.width)
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


def shown_json(found: Sequence[Finding], diagnosis: Diagnosis, text: FindingText) -> str:
    """Return all findings as one JSON object."""
    from pcli.codec.observe.tracking.records.counters import Occurrences

    capture = diagnosis.capture
    values = {one.name: getattr(capture, one.name) for one in fields(capture)}
    return (
        json_text(
            {
                "findings": [_row(one, text) for one in found],
                "looked_at": diagnosis.checked_counts(),
                "capture": {
                    name: value.count if isinstance(value, Occurrences) else value for name, value in values.items()
                },
            },
            indent=1,
        )
        + "\n"
    )


def _row(finding: Finding, text: FindingText) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "cause": finding.cause,
        "severity": finding.severity,
        "culprit": finding.culprit,
        "sure": finding.sure,
        "subject": finding.subject,
        "what": finding.what,
        "since": text.since(finding),
        "frames": [_frame_row(number, text) for number in finding.frames],
        "opposite": finding.opposite,
        "advice": finding.advice,
    }


def _frame_row(number: int, text: FindingText) -> dict[str, Any]:
    packet = {} if text.packets is None else {"packet": text.packets.packet_of(number)}
    return {"number": number, **packet, "line": text.line_of(number)}


def shown_ndjson(found: Sequence[Finding], text: FindingText) -> str:
    """Yield each finding as one line of JSON."""
    return "".join(json_text(_row(one, text)) + "\n" for one in found)


def shown_html(found: Sequence[Finding], diagnosis: Diagnosis, text: FindingText, files: Sequence[str]) -> str:
    """Return all findings as one HTML page."""
    title = f"pcli diagnose {' '.join(files)}".strip()
    parts = [_HEAD.format(title=_safe(title)), f"<h1>{_safe(title)}</h1>", f"<p>{_safe(summary(found, diagnosis))}</p>"]
    for finding in found:
        frames = "".join(f"<li>frame {number} <code>{_safe(text.line_of(number))}</code>" for number in finding.frames)
        parts.append(
            f'<section class="{_safe(finding.severity)}"><h2>{_safe(text.head(finding))}</h2>'
            f"<p>{_safe(finding.what)}</p><ul>{frames}</ul>"
            f"<p><b>Against it:</b> {_safe(finding.opposite)}</p><p><b>What to do:</b> {_safe(finding.advice)}</p>"
            f"<details><summary>More on {_safe(finding.rule)}</summary>"
            f"<pre>{_safe(_page(finding.rule))}</pre></details>"
            "</section>"
        )
    return "\n".join([*parts, "</body></html>", ""])


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
h1 {{ font-size: 1.4em }} h2 {{ font-size: 1.1em }} code, pre {{ font-size: 0.9em }} pre {{ white-space: pre-wrap }}
h1, h2, p, code, pre {{ overflow-wrap: anywhere }} ul {{ padding-left: 1.2em }}
</style></head><body>"""
