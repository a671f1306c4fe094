"""The report: one self-contained HTML page about the tables in a folder.

Rules of this file
1. The template escapes all text from the wire. Only charts, which contain no text from the wire, are inserted without
   escaping.
2. Control characters are printed as escape sequences, because a page can be printed to a terminal.
3. Sections about tables that a run did not write are omitted. If no packet was read, all sections are omitted, because
   a report without findings would be misleading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

import jinja2
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup, escape

from pcli.codec.errors import LocalError
from pcli.codec.observe.text_format import printable
from pcli.spark.report import message_sections as of_messages
from pcli.spark.report import other_sections as others
from pcli.spark.report.message_figures import COLUMNS, MessageFigures, Span, gather
from pcli.spark.report.number_format import duration, moment, number, size
from pcli.spark.report.page_elements import Section
from pcli.spark.tables.stored_tables import StoredTables

__all__ = ["page_of"]

_CONSUMER: Final = (
    "cluster", "topic", "subscription", "consumer", "system", "connection", "consumer_id", "session", "flows", "lowest",
    "exhausted_ns", "available_permits", "unacked_messages", "msg_out_counter",
)  # fmt: skip


_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def page_of(tables: StoredTables, title: str = "Pulsar traffic") -> str:
    """Return the page for these tables. The memory depends on the numbers of names, findings and gaps.

    Raises LocalError if the tables contain values that pcli does not write.
    """
    try:
        page = _page_of(tables, title)
    except (LookupError, TypeError, ValueError, pa.ArrowException, jinja2.TemplateError) as error:
        raise LocalError(
            f"the tables contain a value that pcli does not write: {printable(str(error))[:200]}"
        ) from None
    return _CONTROL.sub(lambda found: printable(found[0]), page)


def _page_of(tables: StoredTables, title: str) -> str:
    captures = tables.read("captures")
    span = _span(captures)
    packets = pc.sum(captures["packets"]).as_py() or 0
    figures = gather(tables.batches("messages", COLUMNS), span) if packets and "messages" in tables.names else None
    sections = list(_sections(tables, captures, span, figures)) if packets else [others.captures(captures)]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["marked"] = _marked
    template = environment.from_string(files("pcli.spark.report").joinpath("page.html").read_text("utf-8"))
    times = f"{moment(span.first_ns)} to {moment(span.last_ns)}, {duration(span.last_ns - span.first_ns)}"
    subtitle = times if packets else "no packets were read"
    return template.render(title=title, subtitle=subtitle, sections=sections, cards=_cards(captures, figures))


def _sections(
    tables: StoredTables, captures: pa.Table, span: Span, figures: MessageFigures | None
) -> Iterator[Section]:
    names = tables.names
    if "findings" in names:
        yield others.findings(tables.read("findings"))
    if figures is not None:
        yield of_messages.traffic(figures)
        yield from of_messages.durations(figures)
        yield of_messages.held(figures)
        yield of_messages.slowest(figures)
        yield of_messages.states(figures)
    if {"permits", "consumers"} <= set(names):
        yield others.permits(
            lambda where: tables.read("permits", where=where), tables.read("consumers", _CONSUMER), span
        )
    yield others.gaps(tables.read("gaps"), captures)
    yield others.captures(captures)


def _marked(text: str) -> Markup:
    """Return text as escaped HTML, with parts in backticks as code elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704


def _span(captures: pa.Table) -> Span:
    first, last = pc.min(captures["first_ns"]).as_py() or 0, pc.max(captures["last_ns"]).as_py() or 0
    return Span(first, max(last, first + 1))


def _cards(captures: pa.Table, figures: MessageFigures | None) -> list[tuple[str, str]]:
    statuses = captures["status"].to_pylist()
    cards = [
        _card("capture", "captures", len(statuses) - statuses.count("not a capture")),
        ("read", size(pc.sum(captures["read_bytes"]).as_py() or 0)),
        _card("packet", "packets", pc.sum(captures["packets"]).as_py() or 0),
        _card("frame", "frames", pc.sum(captures["frames"]).as_py() or 0),
    ]
    if figures is not None:
        cards += [
            _card("message published", "messages published", int(figures.published.counts.sum())),
            _card("message delivered", "messages delivered", int(figures.delivered.counts.sum())),
            _card("topic", "topics", sum(1 for name in figures.topics.names if name[-1])),
            _card("subscription", "subscriptions", sum(1 for name in figures.subscriptions.names if name[-1])),
        ]
    return cards


def _card(one: str, many: str, count: int) -> tuple[str, str]:
    return (one if count == 1 else many, number(count))
