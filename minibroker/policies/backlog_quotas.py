"""Backlog quotas: their types, their form in REST, and their relation to retention (BacklogQuotaImpl, AdminResource).

A quota has the keys of the REST API: ``limitSize`` in bytes (and ``limit``, its old name), ``limitTime`` in seconds,
and ``policy``. A negative size, and a time of 0 or less, mean no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.policies.errors import BadValueError

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings

SIZE: Final = "destination_storage"
AGE: Final = "message_age"

_GIGABYTE: Final = 1 << 30
_MEGABYTE: Final = 1 << 20

Quota = dict[str, Any]


def read_quota(body: Any, where: str) -> Quota:
    """Return the quota in a converted body (type BACKLOG_QUOTA); a missing limit is 0.

    ``where`` is the namespace, for the text of the error. Raises BadValueError (400).
    """
    read: Quota = body or {}
    if read.get("policy") is None:
        start = f"Set namespace[{where}] backlog quota failed because the data validation failed."
        raise BadValueError(f"{start} the attribute policy cannot be null", 400)
    size: int = read.get("limitSize", read.get("limit", 0)) or 0
    return _quota(size, read.get("limitTime", 0), read["policy"])


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
