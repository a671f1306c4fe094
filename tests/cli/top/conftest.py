"""Statistics of topics and findings about them, as a source gives them to `pcli top`."""

from __future__ import annotations

from typing import Any

from pcli.cli.top.rows import Snapshot
from pcli.codec.observe.rules import Cause, Finding

SECOND = 1_000_000_000
ORDERS, BILLS = "persistent://public/default/orders", "persistent://public/default/bills"


def consumer(name: str, permits: int = 10, unacked: int = 0, out: int = 0, **more: Any) -> dict[str, Any]:
    return {"consumerName": name, "availablePermits": permits, "unackedMessages": unacked, "msgOutCounter": out} | more


def subscription(*consumers: dict[str, Any], backlog: int | None = 0, **more: Any) -> dict[str, Any]:
    unacked = sum(one["unackedMessages"] for one in consumers)
    out = sum(one["msgOutCounter"] for one in consumers)
    stats = {"type": "Shared", "msgBacklog": backlog, "unackedMessages": unacked, "msgOutCounter": out}
    return stats | {"consumers": list(consumers)} | more


def topics(scale: int = 1) -> dict[str, Any]:
    work = subscription(consumer("w1", 0, 5, 30 * scale), consumer("w2", 7, 1, 10 * scale), backlog=9)
    return {
        ORDERS: {"msgInCounter": 100 * scale, "subscriptions": {"work": work, "audit": subscription(backlog=100)}},
        BILLS: {"msgInCounter": 3, "subscriptions": {"pay": subscription(consumer("p", 500), backlog=None)}},
    }


SEGMENT = "segment://public/default/sp2/0000-7fff-1"


def scalable() -> Snapshot:
    """A scalable topic with one segment."""
    segment = {"msgInCounter": 4, "subscriptions": {"st": subscription(consumer("s1-seg-1"))}}
    total = {"msgInCounter": 4, "subscriptions": {"st": subscription(consumer("s1"))}}
    layout = {"epoch": 1, "activeSegments": 1, "sealedSegments": 1, "controllerBroker": None}
    return Snapshot(SECOND, {"topic://public/default/sp2": total | layout}, segments={SEGMENT: segment})


def finding(**subject: str) -> Finding:
    text = "w1 holds 5 messages [and] acknowledges none"
    return Finding(
        "error", "certain", Cause("application"), subject, text, 0, [7, 9], advice="Acknowledge.", rule="never-acked"
    )
