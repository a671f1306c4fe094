"""Backlog quotas: their types, their form in REST, and their relation to retention (BacklogQuotaImpl, AdminResource).

A quota has the keys of the REST API: ``limitSize`` in bytes (and ``limit``, its old name), ``limitTime`` in seconds,
and ``policy``. A negative size, and a time of 0 or less, mean no limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.policies.policy_table import BadValueError

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings

__all__ = ["AGE", "SIZE", "default_quota", "exceeds_retention", "read_quota"]

SIZE: Final = "destination_storage"
AGE: Final = "message_age"

_POLICIES: Final = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_GIGABYTE: Final = 1 << 30
_MEGABYTE: Final = 1 << 20

Quota = dict[str, Any]


def read_quota(body: Any, where: str) -> Quota:
    """Return the quota in a request body; a missing limit is 0.

    ``where`` is the namespace, for the text of the error. Raises BadValueError (400).
    """
    if not isinstance(body, dict):
        raise BadValueError("A backlog quota must be an object", 400)
    size = _integer(body.get("limitSize", body.get("limit")), 64)
    time = _integer(body.get("limitTime"), 32)
    if body.get("policy") not in _POLICIES:
        start = f"Set namespace[{where}] backlog quota failed because the data validation failed."
        raise BadValueError(f"{start} the attribute policy cannot be null", 400)
    return _quota(size, time, body["policy"])


def _integer(value: Any, bits: int) -> int:
    """Return a limit as Jackson converts it: a number in a string is converted, and a fraction is cut off."""
    if isinstance(value, str):
        value = int(value) if _DIGITS.fullmatch(value) else value or None
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1 << bits - 1:
        raise BadValueError(f"Cannot deserialize value of type `{'long' if bits == 64 else 'int'}` from {value!r}", 400)
    return int(value)


def default_quota(settings: Settings) -> Quota:
    """Return the quota of the broker, which applies to both types."""
    size = int(settings.backlogQuotaDefaultLimitGB * _GIGABYTE)
    if size <= 0:
        size = settings.backlogQuotaDefaultLimitBytes
    return _quota(size, settings.backlogQuotaDefaultLimitSecond, settings.backlogQuotaDefaultRetentionPolicy)


def _quota(size: int, time: int, policy: str) -> Quota:
    return {"limit": size, "limitSize": size, "limitTime": time, "policy": policy}


def exceeds_retention(quota: Quota, retention: Any) -> bool:
    """Return whether a quota reaches a limit of the retention (the inverse of AdminResource.checkBacklogQuota)."""
    minutes, megabytes = retention["retentionTimeInMinutes"], retention["retentionSizeInMB"]
    size = bool(megabytes > 0 and quota["limitSize"] >= megabytes * _MEGABYTE)
    return size or bool(minutes > 0 and quota["limitTime"] >= minutes * 60)
