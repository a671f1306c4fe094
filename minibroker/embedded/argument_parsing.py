"""What people write for sizes, hosts and ports, checked before anything starts."""

from __future__ import annotations

import re
from typing import Final

from pcli.codec.errors import LocalError

__all__ = ["host_of", "port_of", "size_of"]

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(name: str, value: int | str) -> int:
    """Bytes, of a number or of ``512M``; LocalError when it is no size above 0."""
    match = re.fullmatch(r"(\d{1,15})\s*([KMG]?)I?B?", str(value).strip().upper(), re.ASCII)
    size = int(match[1]) * _UNITS[match[2]] if match is not None else 0
    if size <= 0:
        raise LocalError(f"{name} {value}: write a size: 512M, 2G, or bytes")
    return size


def port_of(name: str, value: int) -> int:
    """A port, 0 for any; LocalError when it is none."""
    if not 0 <= value <= 65535:
        raise LocalError(f"{name} {value}: 0 to 65535")
    return value


def host_of(name: str, value: str) -> str:
    """A host for URLs; LocalError when it has a port, or blanks."""
    if re.search(r"[\s/]", value) or value.count(":") == 1:
        raise LocalError(f"{name} {value}: a host, without a port")
    return value
