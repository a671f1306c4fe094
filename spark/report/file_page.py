"""The report in one file: what the page contains.

Sections about tables that a run did not write are omitted. If no packet was read, all sections are omitted, because a
report without findings would be misleading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import jinja2
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.errors import LocalError
from pcli.codec.observe.text_format import printable
from pcli.spark.report import capture_sections as captures_of
from pcli.spark.report import incident_sections as incidents_of
from pcli.spark.report import overview_sections as overview
from pcli.spark.report.incident_rows import Findings, read_findings
from pcli.spark.report.number_format import number, size
from pcli.spark.report.object_sections import object_sections
from pcli.spark.report.page import Page, render
from pcli.spark.report.page_elements import Section
from pcli.spark.report.report_data import ReportData, open_report_data
from pcli.spark.report.report_objects import Href, Objects
from pcli.spark.report.scalable_sections import scalable_topics
from pcli.spark.report.selection import EVERYTHING, Selection
from pcli.spark.tables.stored_tables import StoredTables


def page_of(
    tables: StoredTables,
    title: str = "Pulsar traffic",
    selection: Selection = EVERYTHING,
    *,
    threads: int | None = None,
) -> str:
    """Return the page for these tables. The memory depends on the numbers of names, findings and gaps.

    ``threads`` is that of `open_report_data`.

    Raises LocalError if the tables contain values that pcli does not write, or if nothing is selected.
    """
    with reported_values(), open_report_data(tables, selection, threads=threads) as data:
        found = read_findings(data)
        objects = Objects(data, found)
        parts = list(object_sections(data, found, objects)) if data.packets else []
        return render(overview_page(data, found, title, objects.anchor, parts))


@contextmanager
def reported_values() -> Iterator[None]:
    """Convert errors of values that pcli does not write to LocalError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, pa.ArrowException, jinja2.TemplateError) as error:
        text = printable(str(error))[:200]
        raise LocalError(f"the tables contain a value that pcli does not write: {text}") from None


def overview_page(data: ReportData, found: Findings, title: str, href: Href, parts: Sequence[Section]) -> Page:
    """Return the page with the incidents, the charts of all messages, ``parts``, gaps and captures."""
    if not data.packets:
        return Page(title, [captures_of.captures(data.captures)], None, cards=_cards(data))
    sections = [*_sections(data, found, href), *parts]
    sections += [captures_of.gaps(data.tables.read("gaps"), data.captures), captures_of.captures(data.captures)]
    return Page(title, sections, data.clock, limits_text(data.selection), _cards(data))


def _sections(data: ReportData, found: Findings, href: Href) -> Iterator[Section]:
    roots = {id(one.root) for _, one in found.incidents}
    marks = incidents_of.marks_of([one for one in found.all if id(one.finding) in roots])
    yield incidents_of.incidents(found, data.clock)
    if found.all:
        yield incidents_of.unhealthy(found, data, href)
    if data.has_messages:
        yield overview.traffic(data, marks)
        yield from overview.latencies(data, marks)
        yield overview.unacknowledged(data, marks)
    if {"permits", "consumers"} <= set(data.tables.names):
        yield overview.permits(data, marks)
    if data.has_messages:
        yield overview.slowest(data)
        yield overview.states(data)
    scalable = scalable_topics(data)
    if scalable is not None:
        yield scalable


def limits_text(selection: Selection) -> str:
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
