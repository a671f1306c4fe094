"""The only bookie, and the racks of bookies. Racks are stored, but have no effect (BookiesBase)."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.admin.body_types import BOOKIE_INFO
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, RestError

__all__ = ["ENDPOINTS"]

_BOOKIES: Final = "/admin/v2/bookies"
_RACKS: Final = f"{_BOOKIES}/racks-info"
_PORT: Final = 3181
"""The default port of a bookie."""


def _all(call: Call) -> Any:
    return {"bookies": [{"bookieId": f"{call.broker.host}:{_PORT}"}]}


def _racks(call: Call) -> Any:
    return call.broker.policies.bookie_racks


def _missing(name: str) -> RestError:
    return RestError(404, f"Bookie rack placement configuration not found: {name}")


def _rack(call: Call) -> Any:
    name = call.path_text("bookie")
    for bookies in call.broker.policies.bookie_racks.values():
        if name in bookies:
            return bookies[name]
    raise _missing(name)


def _set(call: Call) -> None:
    """Store the rack of a bookie in a group, and remove the bookie from the other groups."""
    name, group = call.path_text("bookie"), call.query.get("group")
    if not group:
        raise RestError(412, "Bookie 'group' parameters is missing")
    if call.body is None:
        raise PageError(500)
    _remove(call, name)
    call.broker.policies.bookie_racks.setdefault(group, {})[name] = call.body


def _delete(call: Call) -> None:
    name = call.path_text("bookie")
    if not _remove(call, name):
        raise _missing(name)


def _remove(call: Call, name: str) -> bool:
    """Remove a bookie from its group. Return whether it had one."""
    groups = call.broker.policies.bookie_racks
    for group, bookies in groups.items():
        if bookies.pop(name, None) is not None:
            if not bookies:
                del groups[group]
            return True
    return False


ENDPOINTS: Final = (
    Endpoint("GET", f"{_BOOKIES}/all", _all, "the bookies (one that does not exist)"),
    Endpoint("GET", _RACKS, _racks, "racks of the bookies by group (stored only)"),
    Endpoint("GET", f"{_RACKS}/{{bookie}}", _rack, "rack of a bookie (stored only)"),
    Endpoint("POST", f"{_RACKS}/{{bookie}}", _set, "set the rack of a bookie", BOOKIE_INFO),
    Endpoint("DELETE", f"{_RACKS}/{{bookie}}", _delete, "remove the rack of a bookie"),
)
