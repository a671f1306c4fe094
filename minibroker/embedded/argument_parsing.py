"""Validation of sizes, times, hosts, ports and settings given as arguments."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings

_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(name: str, value: int | str) -> int:
    """Convert a number or a string such as ``512M`` to a size in bytes.

    Raises LocalError if the size is not above 0.
    """
    match = re.fullmatch(r"(\d{1,15})\s*([KMG]?)I?B?", str(value).strip().upper(), re.ASCII)
    size = int(match[1]) * _UNITS[match[2]] if match is not None else 0
    if size <= 0:
        raise LocalError(f"{name} {value}: must be a size such as 512M, 2G, or a number of bytes")
    return size


def seconds_of(name: str, value: str) -> float:
    """Convert a time such as ``3ms`` to seconds. Raises LocalError if it is invalid."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(us|ms|s)", value.strip(), re.ASCII)
    if match is None:
        raise LocalError(f"{name} {value}: must be a time such as 250us, 3ms or 1.5s")
    return float(match[1]) * _SECONDS[match[2]]


def port_of(name: str, value: int) -> int:
    """Return a port; 0 means any free port. Raises LocalError if it is invalid."""
    if not 0 <= value <= 65535:
        raise LocalError(f"{name} {value}: must be from 0 to 65535")
    return value


def host_of(name: str, value: str) -> str:
    """Return a host for URLs. Raises LocalError if it contains a port or spaces."""
    if re.search(r"[\s/]", value) or value.count(":") == 1:
        raise LocalError(f"{name} {value}: must be a host without a port")
    return value


def setting_text(value: object) -> str:
    """Return the value of a setting as written in a conf file."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def check_exposure(settings: Settings) -> None:
    """Raise LocalError if hosts other than this one can use the broker without authentication.

    Clients need no credentials if there is an anonymous role that may do everything.
    """
    role = settings.anonymousUserRole
    anonymous = role and (not settings.authorizationEnabled or role in settings.superUserRoles)
    if _is_loopback(settings.bindAddress) or (settings.authenticationEnabled and not anonymous):
        return
    raise LocalError(
        f"address {settings.bindAddress or '(all)'}: other hosts could read, change and delete all data, because "
        "clients need no credentials; enable authentication (docs/mini-broker.md), or accept this with --insecure "
        "(insecure=True)"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
