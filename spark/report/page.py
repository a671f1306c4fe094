"""The report: one self-contained HTML page about the tables in a folder.

Rules of this file
1. The template escapes all text from the wire. Only charts and scripts, which contain no text from the wire except as
   escaped data, are inserted without escaping.
2. Control characters are printed as escape sequences, because a page can be printed to a terminal.
3. The policy of the page allows scripts only by their hashes, and no connections.
4. Sections about tables that a run did not write are omitted. If no packet was read, all sections are omitted, because
   a report without findings would be misleading.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jinja2
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup, escape

from pcli.codec.errors import LocalError
from pcli.codec.observe.text_format import printable
from pcli.spark.report import capture_sections as captures_of
from pcli.spark.report import incident_sections as incidents_of
from pcli.spark.report import overview_sections as overview
from pcli.spark.report.incident_rows import read_findings
from pcli.spark.report.number_format import duration, moment, number, size
from pcli.spark.report.object_sections import object_sections
from pcli.spark.report.page_elements import Cell, Chart, Section
from pcli.spark.report.report_data import ReportData, open_report_data
from pcli.spark.report.report_objects import Objects
from pcli.spark.report.selection import EVERYTHING, Selection
from pcli.spark.report.vega_charts import live_spec, scripts, static_svg
from pcli.spark.tables.stored_tables import StoredTables

__all__ = ["page_of"]

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def page_of(tables: StoredTables, title: str = "Pulsar traffic", selection: Selection = EVERYTHING) -> str:
    """Return the page for these tables. The memory depends on the numbers of names, findings and gaps.

    Raises LocalError if the tables contain values that pcli does not write, or if nothing is selected.
    """
    try:
        with open_report_data(tables, selection) as data:
            sections = list(_sections(data)) if data.packets else [captures_of.captures(data.captures)]
            return render(data, title, sections)
    except (LookupError, TypeError, ValueError, pa.ArrowException, jinja2.TemplateError) as error:
        raise LocalError(
            f"the tables contain a value that pcli does not write: {printable(str(error))[:200]}"
        ) from None


def render(data: ReportData, title: str, sections: Sequence[Section]) -> str:
    """Return the HTML of sections."""
    clock = data.clock
    first, last = moment(clock.first_ns), moment(clock.last_ns)
    times = f"{first} to {last}, {duration(clock.last_ns - clock.first_ns)}{_limits(data.selection)}"
    code = [_vega(), _file("page.js")]
    return _template().render(
        title=title, subtitle=times if data.packets else "no packets were read", start=first if data.packets else "",
        start_ms=clock.first_ns // 1_000_000, seconds=clock.seconds, sections=sections, cards=_cards(data),
        style=Markup(_file("page.css")), scripts=[Markup(one) for one in code], policy=Markup(_policy(code)),  # noqa: S704
    )  # fmt: skip


def _sections(data: ReportData) -> Iterator[Section]:
    found = read_findings(data)
    roots = {id(one.root) for _, one in found.incidents}
    marks = incidents_of.marks_of([one for one in found.all if id(one.finding) in roots])
    yield incidents_of.incidents(found, data.clock)
    objects = Objects(data, found)
    if found.all:
        yield incidents_of.unhealthy(found, data, objects.anchor)
    if data.has_messages:
        yield overview.traffic(data, marks)
        yield from overview.latencies(data, marks)
        yield overview.unacknowledged(data, marks)
    if {"permits", "consumers"} <= set(data.tables.names):
        yield overview.permits(data, marks)
    if data.has_messages:
        yield overview.slowest(data)
        yield overview.states(data)
    yield from object_sections(data, found, objects)
    yield captures_of.gaps(data.tables.read("gaps"), data.captures)
    yield captures_of.captures(data.captures)


def _limits(selection: Selection) -> str:
    """Return the limits of the report, and which figures they do not concern."""
    topics = f"; only {', '.join(selection.topics)}" if selection.topics else ""
    if selection.since_ns is None and selection.until_ns is None:
        return topics
    return f"{topics}; a part of the recording: the figures and balances of objects are those of the whole recording"


def _cards(data: ReportData) -> list[tuple[str, str]]:
    statuses = data.captures["status"].to_pylist()
    cards = [
        _card("capture", "captures", len(statuses) - statuses.count("not a capture")),
        ("read", size(pc.sum(data.captures["read_bytes"]).as_py() or 0)),
        _card("packet", "packets", data.packets),
        _card("frame", "frames", pc.sum(data.captures["frames"]).as_py() or 0),
    ]
    if data.has_messages:
        [(published, topics)] = data.rows(
            "SELECT sum(messages) FILTER (sent_ns IS NOT NULL), count(DISTINCT (cluster, topic)) FILTER (topic <> '') "
            "FROM entries"
        )
        [(delivered, groups)] = data.rows(
            "SELECT sum(messages), count(DISTINCT (cluster, topic, subscription)) FILTER (subscription <> '') "
            "FROM deliveries"
        )
        cards += [
            _card("message published", "messages published", int(published or 0)),
            _card("message delivered", "messages delivered", int(delivered or 0)),
            _card("topic", "topics", topics),
            _card("subscription", "subscriptions", groups),
        ]
    return cards


def _card(one: str, many: str, count: int) -> tuple[str, str]:
    return (one if count == 1 else many, number(count))


def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, finalize=_without_control)
    environment.filters |= {"marked": _marked, "still": _still, "json": _json, "words": _words}
    return environment.from_string(_file("page.html"))


def _without_control(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return _CONTROL.sub(lambda found: printable(found[0]), value)
    return value


def _marked(text: str) -> Markup:
    """Return text as escaped HTML, with parts in backticks as code elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_without_control(text)))))  # noqa: S704


def _words(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def _still(chart: Chart) -> Markup:
    return Markup(static_svg(chart))  # noqa: S704


def _json(chart: Chart) -> Markup:
    """Return the data of a chart for its script element, in which only ``<`` has a meaning."""
    about = {"spec": live_spec(chart), "names": chart.names, "timed": chart.timed}
    text = json.dumps(about, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _policy(code: Sequence[str]) -> str:
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in code)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'; form-action 'none'"


@cache
def _vega() -> str:
    """Return the scripts of the charts as one script without a tag that would end it."""
    return re.sub("</(script)", r"<\\/\1", scripts(), flags=re.IGNORECASE)


@cache
def _file(name: str) -> str:
    return files("pcli.spark.report").joinpath(name).read_text("utf-8")
