"""The table of dispatchers by subscription type, persistence and setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.classic_dispatchers import (
    PersistentDispatcherMultipleConsumersClassic,
    PersistentStickyKeyDispatcherMultipleConsumersClassic,
    PersistentStreamingDispatcherMultipleConsumers,
    PersistentStreamingDispatcherSingleActiveConsumer,
)
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.non_persistent import (
    NonPersistentDispatcherMultipleConsumers,
    NonPersistentDispatcherSingleActiveConsumer,
    NonPersistentStickyKeyDispatcherMultipleConsumers,
)
from pcli.minibroker.dispatch.single_active import PersistentDispatcherSingleActiveConsumer
from pcli.minibroker.dispatch.sticky_key import PersistentStickyKeyDispatcherMultipleConsumers
from pcli.minibroker.topics.dispatcher import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, Dispatcher

if TYPE_CHECKING:
    from pcli.minibroker.topics.subscription import Subscription


@dataclass(frozen=True, slots=True)
class DispatcherKind:
    """One row of the table: a dispatcher and the conditions that select it."""

    types: tuple[int, ...]
    """The subscription types that the dispatcher serves."""
    domain: str
    """The domain of the topics: persistent or non-persistent."""
    setting: str
    """The setting that selects the dispatcher; empty if it is selected by default."""
    make: Callable[..., Any]
    """The dispatcher's class, named as in Pulsar."""
    since: str
    """The version of Pulsar that introduced the dispatcher."""
    until: str = ""
    """The version of Pulsar that removed the dispatcher; empty if it still exists."""

    @property
    def file(self) -> str:
        """The path of the module that contains the class."""
        return self.make.__module__.removeprefix("pcli.").replace(".", "/") + ".py"


KINDS: Final = (
    DispatcherKind(
        (EXCLUSIVE, FAILOVER),
        "persistent",
        "streamingDispatch",
        PersistentStreamingDispatcherSingleActiveConsumer,
        "2.8",
        "3.1",
    ),
    DispatcherKind((EXCLUSIVE, FAILOVER), "persistent", "", PersistentDispatcherSingleActiveConsumer, "1.16"),
    DispatcherKind(
        (SHARED,), "persistent", "streamingDispatch", PersistentStreamingDispatcherMultipleConsumers, "2.8", "3.1"
    ),
    DispatcherKind(
        (SHARED,),
        "persistent",
        "subscriptionSharedUseClassicPersistentImplementation",
        PersistentDispatcherMultipleConsumersClassic,
        "4.0",
        "5.0",
    ),
    DispatcherKind((SHARED,), "persistent", "", PersistentDispatcherMultipleConsumers, "1.16"),
    DispatcherKind(
        (KEY_SHARED,),
        "persistent",
        "subscriptionKeySharedUseClassicPersistentImplementation",
        PersistentStickyKeyDispatcherMultipleConsumersClassic,
        "4.0",
        "5.0",
    ),
    DispatcherKind((KEY_SHARED,), "persistent", "", PersistentStickyKeyDispatcherMultipleConsumers, "2.4"),
    DispatcherKind((EXCLUSIVE, FAILOVER), "non-persistent", "", NonPersistentDispatcherSingleActiveConsumer, "1.20"),
    DispatcherKind((SHARED,), "non-persistent", "", NonPersistentDispatcherMultipleConsumers, "1.20"),
    DispatcherKind((KEY_SHARED,), "non-persistent", "", NonPersistentStickyKeyDispatcherMultipleConsumers, "2.4"),
)
"""Rows of the table. The first row with a matching type, persistence and setting is used."""


def make_dispatcher(subscription: Subscription, kind: int, meta: pb.KeySharedMeta | None) -> Dispatcher:
    """Return the dispatcher of a subscription of type ``kind`` (SubType) according to the settings."""
    settings = subscription.topic.broker.settings
    row = next(
        row
        for row in KINDS
        if kind in row.types
        and (row.domain == "persistent") == subscription.topic.persistent
        and (not row.setting or getattr(settings, row.setting))
    )
    dispatcher: Dispatcher
    if kind == KEY_SHARED:
        dispatcher = row.make(subscription, meta)
    elif kind == SHARED:
        dispatcher = row.make(subscription)
    else:
        dispatcher = row.make(subscription, failover=kind == FAILOVER)
    return dispatcher
