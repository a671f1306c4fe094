"""The embedded broker: a pure core and one thin asyncio shell.

Begin with `MiniBroker` (api.py): a broker in a thread of its own, for tests and tools::

    from pcli.minibroker import MiniBroker

    with MiniBroker() as broker:
        client = pulsar.Client(broker.service_url)

The core is broker.py (turns), connection.py, topic.py, subscription.py, consumer.py, producer.py, with commands/ (one
module a group), dispatch/ (one file a dispatcher) and admin/ (REST); the shell is shell.py and web.py. For onlookers:
interception.py (taps and faults), conversation.py (the log), snapshots.py (what a test sees), pytest_plugin.py.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcli.minibroker.api import MiniBroker

__all__ = ["MiniBroker"]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: pytest loads the plugin beside it in every run."""
    if name == "MiniBroker":
        from pcli.minibroker.api import MiniBroker

        return MiniBroker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
