"""REST over HTTP: an ASGI application for clients, tests and dashboards.

The library that serves it is imported when `application` is called, not before. `ENDPOINTS` (in `table`) is all there
is, one row an endpoint; docs/mini-broker.md's list is made from it.
"""

from __future__ import annotations

from pcli.minibroker.admin.app import application

__all__ = ["application"]
