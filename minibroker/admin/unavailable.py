"""Services that a broker started without them rejects: packages and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError

__all__ = ["ENDPOINTS"]

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


def _unavailable(status: int, reason: str) -> Callable[[Call], Any]:
    def reject(call: Call) -> Any:
        raise RestError(status, reason)

    return reject


_no_packages: Final = _unavailable(503, "Package Management Service is not enabled in the broker.")
_no_worker: Final = _unavailable(
    409, "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
)

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
)
