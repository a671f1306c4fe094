"""State machines for both sides of a connection, without sockets or clocks.

- states.py: the states, and the commands that a broker accepts in each
- versions.py: the protocol versions that features require
- keepalive.py: keep-alive with PING, driven by ticks with given times
- timers.py: a timer queue for both sides
- strict.py: strict parsing of commands, which rejects what a peer rejects
- server.py: ServerSession, the broker's side of the handshake
- client.py: ClientSession, requests and their responses
"""

from typing import TYPE_CHECKING

from pcli.codec.lazy_names import lazy_names

if TYPE_CHECKING:
    from pcli.codec.session.client import ClientSession, Event
    from pcli.codec.session.keepalive import KeepAlive, TickAction
    from pcli.codec.session.server import Offer, ServerSession
    from pcli.codec.session.states import State
    from pcli.codec.session.strict import read_command

__all__ = ["ClientSession", "Event", "KeepAlive", "Offer", "ServerSession", "State", "TickAction", "read_command"]

__getattr__ = lazy_names(
    __name__,
    {
        "client": "ClientSession Event",
        "keepalive": "KeepAlive TickAction",
        "server": "Offer ServerSession",
        "states": "State",
        "strict": "read_command",
    },
)
