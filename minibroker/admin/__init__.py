"""The REST API: an ASGI application for clients, tests and dashboards.

The HTTP packages are imported when `application` is called. `ENDPOINTS` in `endpoint_table` lists all endpoints;
docs/mini-broker.md contains a table generated from it.
"""

from __future__ import annotations

from pcli.minibroker.admin.app import application

__all__ = ["application"]
