"""Services that a broker started without them rejects: packages and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, RestError

_PACKAGES: Final = "/admin/v3/packages/{kind}/{tenant}/{namespace}"
_VERSION: Final = f"{_PACKAGES}/{{package}}/{{version}}"
_WORKER: Final = (
    ("GET", "worker/assignments"),
    ("GET", "worker/cluster"),
    ("GET", "worker/cluster/leader"),
    ("GET", "worker/cluster/leader/ready"),
    ("GET", "worker/connectors"),
    ("GET", "worker/drain"),
    ("PUT", "worker/drain"),
    ("GET", "worker/leader/drain"),
    ("PUT", "worker/leader/drain"),
    ("PUT", "worker/rebalance"),
    ("GET", "worker-stats/functionsmetrics"),
    ("GET", "worker-stats/metrics"),
)
_ONE: Final = "{tenant}/{namespace}/{name}"
_INSTANCE: Final = f"{_ONE}/{{instance}}"
_EACH: Final = f"""
    {{tenant}}/{{namespace}}: GET
    {_ONE}: GET DELETE POST* PUT*
    {_ONE}/status: GET
    {_ONE}/restart: POST
    {_ONE}/stop: POST
    {_INSTANCE}/status: GET
    {_INSTANCE}/restart: POST
    {_INSTANCE}/stop: POST
"""
_START: Final = f"""
    {_ONE}/start: POST
    {_INSTANCE}/start: POST
"""
_OLD: Final = f"""
    {_ONE}/trigger: POST*
    {_ONE}/state/{{key}}: GET
    connectors: GET
    download: GET
    upload: POST*
"""
_NEW: Final = f"""
    {_ONE}/state/{{key}}: POST*
    {_ONE}/stats: GET
    {_INSTANCE}/stats: GET
    {_ONE}/download: GET
    leader/{_ONE}: PUT*
    builtins: GET
    builtins/reload: POST
"""
_SINKS: Final = "builtinsinks: GET\nbuiltinsinks/{name}/configdefinition: GET\nreloadBuiltInSinks: POST"
_COMPONENTS: Final = (
    ("/admin/v3/functions", _OLD + _NEW),
    *((f"/admin/v3/{kind}", _SINKS) for kind in ("sinks", "sink")),
    *((f"/admin/v3/{kind}", _SINKS.replace("inks", "ources")) for kind in ("sources", "source")),
    ("/admin/v3/{component}", _EACH + _START),
    ("/admin/v2/functions", _OLD + _EACH),
)
"""The paths of functions, sinks and sources, with their methods; an asterisk means that the body has several parts."""


def _unavailable(status: int, reason: str) -> Callable[[Call], Any]:
    def reject(call: Call) -> Any:
        raise RestError(status, reason)

    return reject


_no_packages: Final = _unavailable(503, "Package Management Service is not enabled in the broker.")
_no_worker: Final = _unavailable(
    409, "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
)


def _no_component(call: Call) -> Any:
    """Raise 409, or 415 (a page) if the content type is not JSON."""
    if call.media and not call.media.startswith("application/json"):
        raise PageError(415)
    _no_worker(call)


def _no_upload(call: Call) -> Any:
    """Raise 409, or 400 or 415 (a page) if the body does not have several parts."""
    if call.media and not call.media.startswith("multipart/form-data"):
        raise PageError(415)
    if "boundary=" not in call.media:
        raise PageError(400)
    _no_worker(call)


def _components() -> Iterator[Endpoint]:
    text = "functions, sinks and sources: not available, as on a broker without them"
    for start, table in _COMPONENTS:
        for path, methods in (row.strip().split(": ") for row in table.splitlines() if row):
            for method in methods.split():
                reject = _no_upload if method.endswith("*") else _no_component
                yield Endpoint(method.rstrip("*"), f"{start}/{path}", reject, text)


ENDPOINTS: Final = (
    *(
        Endpoint(method, path, _no_packages, "packages: not available, as on a standalone broker")
        for method, path in (
            ("GET", _PACKAGES),
            ("GET", f"{_PACKAGES}/{{package}}"),
            ("GET", _VERSION),
            ("POST", _VERSION),
            ("DELETE", _VERSION),
            ("GET", f"{_VERSION}/metadata"),
            ("PUT", f"{_VERSION}/metadata"),
        )
    ),
    *(
        Endpoint(method, f"/admin/v2/{path}", _no_worker, "functions: not available, as on a broker without them")
        for method, path in _WORKER
    ),
    *_components(),
)
