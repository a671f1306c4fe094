"""The pages of `pcli report --serve` as an ASGI application: pages on demand, for tables that are too large for a file.

Rules of this file
1. A page shows one run. When a later run has finished, the next request opens it, and pages request a reload.
2. Only addresses that the server listens on are accepted as the host of a request, so that a web page of another origin
   cannot read the tables through a name that resolves to this host.
3. Requests only read. One request is processed at a time, because they share a database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, urlencode

import pyarrow as pa
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pcli.codec.errors import LocalError
from pcli.spark.report.file_page import limits_text, overview_page, reported_values
from pcli.spark.report.incident_rows import read_findings
from pcli.spark.report.number_format import name_text, number
from pcli.spark.report.object_sections import parts_of
from pcli.spark.report.page import Page, render
from pcli.spark.report.page_elements import Cell, Form, Section, TableText
from pcli.spark.report.report_data import Key, open_report_data
from pcli.spark.report.report_objects import KINDS, Kind, Objects, title
from pcli.spark.report.selection import EVERYTHING, Selection
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables

ROWS: Final = 100
"""Number of rows of a page."""
_FIRST: Final = 20
"""Number of objects of a kind in the first page."""
_MAX_TEXT: Final = 1000
"""Maximum number of characters of a value in the rows of a table."""


class _OpenRun:
    """A run with its data, its findings and its objects."""

    def __init__(self, tables: StoredTables, selection: Selection) -> None:
        self._stack = ExitStack()
        self.number = tables.run.run
        self.data = self._stack.enter_context(open_report_data(tables, selection))
        self.found = read_findings(self.data)
        self.objects = Objects(self.data, self.found)
        self.close = self._stack.close


class ReportServer:
    """The application. ``open_tables`` returns the tables of the last run, or of the run that is shown."""

    def __init__(self, open_tables: Callable[[], StoredTables], title: str, selection: Selection = EVERYTHING) -> None:
        """Open the tables. Raises LocalError if there are none."""
        self._open_tables, self._title, self._selection = open_tables, title, selection
        self._lock = Lock()
        self._run = _OpenRun(open_tables(), selection)

    def application(self, hosts: Sequence[str]) -> Any:
        """Return the ASGI application. ``hosts`` are the accepted hosts; ``*`` accepts all."""
        routes = [
            Route("/", self._page(self._overview)),
            Route("/run", self._last_run),
            Route("/tables/{name}", self._page(self._table)),
            Route("/{kind}", self._page(self._list)),
            Route("/{kind}/one", self._page(self._object)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._run.close()

    def _page(self, make: Callable[[_OpenRun, Request], Page | None]) -> Callable[[Request], Response]:
        """Return an endpoint that renders the page that ``make`` returns for the last run; None is not found."""

        def endpoint(request: Request) -> Response:
            try:
                with self._lock, reported_values():
                    self._follow()
                    page = make(self._run, request)
                    text = render(page) if page is not None else ""
            except LocalError as error:
                return PlainTextResponse(f"{error}\n", 500)
            if not text:
                return PlainTextResponse("The run does not contain this page.\n", 404)
            return HTMLResponse(text, headers=_HEADERS)

        return endpoint

    def _follow(self) -> None:
        """Open the last run if it is not open."""
        tables = self._open_tables()
        if tables.run.run != self._run.number:
            later = _OpenRun(tables, self._selection)
            self._run.close()
            self._run = later

    def _last_run(self, _: Request) -> Response:
        try:
            return JSONResponse({"run": self._open_tables().run.run}, headers=_HEADERS)
        except LocalError as error:
            return PlainTextResponse(f"{error}\n", 500)

    def _overview(self, run: _OpenRun, _: Request) -> Page:
        parts = [_first(run, kind) for kind in KINDS.values() if run.objects.of(kind)] if run.data.packets else []
        page = overview_page(run.data, run.found, self._title, _address, parts)
        return self._with_links(run, page.sections, page)

    def _list(self, run: _OpenRun, request: Request) -> Page | None:
        kind = KINDS.get(request.path_params["kind"])
        if kind is None:
            return None
        search = request.query_params.get("search", "")
        rows = [one for one in run.objects.of(kind) if search.lower() in title(kind, one[1]).lower()]
        first = _start(request)
        section = Section(kind.title, kind.name)
        section.tables.append(run.objects.table(kind, _address, rows[first : first + ROWS]))
        section.texts.append(_position(first, len(rows)))
        section.links = _neighbours(f"/{kind.name}", {"search": search}, first, first + ROWS < len(rows))
        return self._with_links(run, [section], form=Form(search))

    def _object(self, run: _OpenRun, request: Request) -> Page | None:
        kind = KINDS.get(request.path_params["kind"])
        key = _key(request.query_params.get("key", ""))
        row = next((one for one in run.objects.of(kind) if one[0] == key), None) if kind is not None else None
        if kind is None or row is None:
            return None
        return self._with_links(run, parts_of(run.data, run.found, run.objects, kind, [row]))

    def _table(self, run: _OpenRun, request: Request) -> Page | None:
        name = request.path_params["name"]
        if name not in run.data.tables.names or name not in TABLES:
            return None
        columns = TABLES[name].schema.names
        search, order = (request.query_params.get(one, "") for one in ("search", "order"))
        first = _start(request)
        rows = _rows(run, name, search, order if order in columns else "", first)
        section = Section(f"Table {name}", "table")
        text = _position(first, None, len(rows))
        section.texts.append(f"{text} Each row is {TABLES[name].row}. A search compares the text of whole rows.")
        cells = [tuple(_value(value) for value in row) for row in rows[:ROWS]]
        types = TABLES[name].schema.types
        numbers = frozenset(at for at, one in enumerate(types) if pa.types.is_integer(one))
        section.tables.append(TableText(f"Rows of {name}", tuple(columns), cells, numbers))
        section.links = _neighbours(f"/tables/{name}", {"search": search, "order": order}, first, len(rows) > ROWS)
        return self._with_links(run, [section], form=Form(search, order, columns))

    def _with_links(
        self, run: _OpenRun, sections: Sequence[Section], page: Page | None = None, form: Form | None = None
    ) -> Page:
        kinds = [(kind.title, f"/{kind.name}") for kind in KINDS.values() if run.objects.of(kind)]
        tables = [(f"table {name}", f"/tables/{name}") for name in run.data.tables.names if name in TABLES]
        clock = run.data.clock if run.data.packets else None
        cards, limits = (page.cards if page is not None else ()), limits_text(run.data.selection)
        links = [("Overview", "/"), *kinds, *tables]
        return Page(self._title, sections, clock, limits, cards, links, run.number, form)


_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _first(run: _OpenRun, kind: Kind) -> Section:
    rows = run.objects.of(kind)
    section = Section(kind.title, kind.name)
    section.tables.append(run.objects.table(kind, _address, rows[:_FIRST]))
    section.links = [(f"All {number(len(rows))} {kind.name}", f"/{kind.name}")] if len(rows) > _FIRST else []
    return section


def _address(name: str, key: Key) -> str:
    """Return the address of the page of an object."""
    return f"/{name}/one?key={quote(json.dumps(key), safe='')}"


def _key(text: str) -> Key | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(found) if isinstance(found, list) else None


def _start(request: Request) -> int:
    """Return the number of the first row of a page."""
    text = request.query_params.get("first", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 15 else 0


def _position(first: int, count: int | None, rows: int = 0) -> str:
    if count is None:
        return f"Rows {number(first + 1)} to {number(first + min(rows, ROWS))}." if rows else "There are no such rows."
    last = min(first + ROWS, count)
    return f"{number(first + 1)} to {number(last)} of {number(count)}." if first < count else "There are no such rows."


def _neighbours(path: str, query: dict[str, str], first: int, more: bool) -> list[tuple[str, str]]:
    """Return the links to the previous and the next page."""
    given = {name: value for name, value in query.items() if value}
    links = []
    if first:
        links.append(("Previous page", f"{path}?{urlencode(given | {'first': max(0, first - ROWS)})}"))
    if more:
        links.append(("Next page", f"{path}?{urlencode(given | {'first': first + ROWS})}"))
    return links


def _rows(run: _OpenRun, name: str, search: str, order: str, first: int) -> list[tuple[Any, ...]]:
    """Return the rows of a page of a table, and one more if there is a next page. ``order`` is a column or empty."""
    columns = ", ".join(f'"{column}"' for column in TABLES[name].schema.names)
    where = "WHERE contains(lower(everything::VARCHAR), lower(?))" if search else ""
    source = f"(SELECT {columns}, everything FROM rows_of_{name} AS everything {where})"  # noqa: S608
    sorted_by = f'ORDER BY "{order}" NULLS LAST' if order else ""
    run.data.register(f"rows_of_{name}", name)
    sql = f"SELECT {columns} FROM {source} {sorted_by} LIMIT {ROWS + 1} OFFSET {first}"  # noqa: S608
    return run.data.rows(sql, [search] if search else [])


def _value(value: Any) -> Cell | str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return Cell(str(value), float(value))
    text = _nested(value)
    return name_text(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…")


def _nested(value: Any) -> str:
    """Return a value as text: structs as ``name: value``, lists in brackets, without null values."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_nested(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list):
        return f"[{'; '.join(map(_nested, value))}]"
    return str(value)
