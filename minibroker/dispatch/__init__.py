"""Dispatchers: one file each, chosen by subscription type and persistence in `kinds`.

`base` is what they share; `single_active` (Exclusive, Failover), `multiple_consumers` (Shared) and `sticky_key`
(Key_Shared) are those of persistent topics, each with its Classic or Streaming kind beside it, `non_persistent_…` those
of non-persistent ones. `election`, `round_robin`, `selectors`, `draining`, `redelivery` and `delayed` are the rules
that they are made of.
"""

from pcli.minibroker.dispatch.dispatcher_table import KINDS, DispatcherKind, make_dispatcher
from pcli.minibroker.topics.dispatcher import Dispatcher, PersistentDispatcher

__all__ = ["KINDS", "Dispatcher", "DispatcherKind", "PersistentDispatcher", "make_dispatcher"]
