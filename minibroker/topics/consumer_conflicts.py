"""Differences between a new consumer and the attached consumers of a subscription (AbstractSubscription).

All consumers of a subscription have the same type. All Key_Shared consumers also have the same mode and the same
setting of out-of-order delivery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pcli.codec.proto import pb
from pcli.minibroker.topics.dispatcher import KEY_SHARED

__all__ = ["conflict"]


def conflict(active: int, kind: int, active_meta: pb.KeySharedMeta | None, meta: pb.KeySharedMeta | None) -> str:
    """Return why a consumer with the type ``kind`` conflicts with attached ones, or an empty string if it does not."""
    why = _difference("type", pb.CommandSubscribe.SubType.Name, active, kind)
    return _difference_of_meta(active_meta, meta) if not why and kind == KEY_SHARED else why


def _difference(what: str, name: Callable[[Any], str], active: int, new: int) -> str:
    if active == new:
        return ""
    return (
        f"Active subscription {what} of '{name(active)}' is different than "
        f"the connecting consumer's {what} '{name(new)}'."
    )


def _difference_of_meta(active: pb.KeySharedMeta | None, new: pb.KeySharedMeta | None) -> str:
    active, new = active or pb.KeySharedMeta(), new or pb.KeySharedMeta()
    why = _difference("key_shared mode", pb.KeySharedMode.Name, active.keySharedMode, new.keySharedMode)
    if why or active.allowOutOfOrderDelivery == new.allowOutOfOrderDelivery:
        return why
    does, other = ("allows", "does not allow") if active.allowOutOfOrderDelivery else ("does not allow", "allows")
    return f"Active subscription {does} out of order delivery while the connecting consumer {other} it."
