"""Dispatchers, one in each file. `dispatcher_table` selects one by subscription type, persistence and settings.

For persistent topics there are `single_active` (Exclusive, Failover), `multiple_consumers` (Shared) and `sticky_key`
(Key_Shared), each with a Classic or Streaming variant. The modules named `non_persistent_…` contain the dispatchers of
non-persistent topics. The other modules are parts of dispatchers: `active_consumer_election`, `round_robin`,
`consumer_selectors`, `key_hash_ranges`, `draining_hashes`, `redelivery_controller` and `delayed_delivery`.
"""

from pcli.minibroker.dispatch.dispatcher_table import KINDS, DispatcherKind, make_dispatcher
from pcli.minibroker.topics.dispatcher import Dispatcher, PersistentDispatcher

__all__ = ["KINDS", "Dispatcher", "DispatcherKind", "PersistentDispatcher", "make_dispatcher"]
