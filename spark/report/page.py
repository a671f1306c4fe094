"""The HTML of a page, from the template page.html.

Rules of this file
1. The template escapes all text from the wire. Only charts and scripts, which contain no text from the wire except as
   escaped data, are inserted without escaping.
2. Control characters are printed as escape sequences, because a page can be printed to a terminal.
3. The policy of the page allows scripts only by their hashes. A page in a file cannot connect to anything; a page of
   `pcli report --serve` connects to its server only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from pcli.codec.observe.text_format import printable
from pcli.spark.report.number_format import duration, moment
from pcli.spark.report.page_elements import Cell, Chart, Form, Section
from pcli.spark.report.report_data import Clock
from pcli.spark.report.vega_charts import live_spec, scripts, static_svg

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page."""

    title: str
    sections: Sequence[Section]
    clock: Clock | None
    """None if no packets were read."""
    limits: str = ""
    """A text on the limits of the report, after its range of time."""
    cards: Sequence[tuple[str, str]] = ()
    """Names and values of the most important figures."""
    links: Sequence[tuple[str, str]] = ()
    """Texts and addresses of other pages; empty in a file."""
    run: int = 0
    """The run that a page of a server shows; 0 in a file."""
    form: Form | None = None


def render(page: Page) -> str:
    """Return the HTML of a page."""
    clock = page.clock or Clock(0, 1)
    first, last = moment(clock.first_ns), moment(clock.last_ns)
    times = f"{first} to {last}, {duration(clock.last_ns - clock.first_ns)}{page.limits}"
    charts = any(map(_has_charts, page.sections))
    code = [*([_vega()] if charts else []), _file("page.js")]
    return _template().render(
        page=page, subtitle=times if page.clock else "no packets were read", start=first if page.clock else "",
        start_ms=clock.first_ns // 1_000_000, seconds=clock.seconds, charts=charts,
        style=Markup(_file("page.css")), scripts=[Markup(one) for one in code],  # noqa: S704
        policy=Markup(_policy(code, served=bool(page.run))),  # noqa: S704
    )  # fmt: skip


def _has_charts(section: Section) -> bool:
    return bool(section.charts) or any(map(_has_charts, section.parts))


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


def _policy(code: Sequence[str], *, served: bool) -> str:
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in code)
    own = "connect-src 'self'; form-action 'self'" if served else "form-action 'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'; {own}"


@cache
def _vega() -> str:
    """Return the scripts of the charts as one script without a tag that would end it."""
    return re.sub("</(script)", r"<\\/\1", scripts(), flags=re.IGNORECASE)


@cache
def _file(name: str) -> str:
    return files("pcli.spark.report").joinpath(name).read_text("utf-8")
