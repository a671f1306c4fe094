"""The dispatchers. `dispatcher_table` selects one by subscription type, persistence and settings.

For persistent topics there are `single_active` (Exclusive, Failover), `multiple_consumers` (Shared) and `sticky_key`
(Key_Shared); their variants of earlier versions are in `classic_dispatchers`. `non_persistent` contains the dispatchers
of non-persistent topics. The other modules are parts of dispatchers: `round_robin`, `consumer_selectors`,
`key_hash_ranges`, `draining_hashes`, `redelivery_controller` and `delayed_delivery`.
"""

from pcli.minibroker.dispatch.dispatcher_table import KINDS, DispatcherKind, make_dispatcher
from pcli.minibroker.topics.dispatcher import Dispatcher, PersistentDispatcher

__all__ = ["KINDS", "Dispatcher", "DispatcherKind", "PersistentDispatcher", "make_dispatcher"]
