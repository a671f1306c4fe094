"""The embedded broker: a core without I/O, and servers that connect it to sockets.

Start with `MiniBroker` (embedded/mini_broker.py), which runs a broker in a separate thread for tests and tools::

    from pcli.minibroker import MiniBroker

    with MiniBroker() as broker:
        client = pulsar.Client(broker.service_url)

README.md lists the packages and the files to change for common extensions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcli.minibroker.embedded.mini_broker import MiniBroker

__all__ = ["MiniBroker"]


def __getattr__(name: str) -> Any:
    """Import MiniBroker on first use, because every pytest run imports this package to load the plugin."""
    if name == "MiniBroker":
        from pcli.minibroker.embedded.mini_broker import MiniBroker

        return MiniBroker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
