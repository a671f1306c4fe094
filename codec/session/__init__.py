"""A connection as a state machine, both roles: no socket, no clock, only what may come when and what it means.

- states.py: the states, and what a broker takes in which
- versions.py: what a protocol version lets a peer see
- keepalive.py: PING by ticks with given times
- timers.py: timers as data, for both ends
- strict.py: commands read as a peer must, or not at all
- server.py: ServerSession, the broker's side of the handshake
- client.py: ClientSession, requests and their answers
"""

from pcli.codec.session.client import ClientSession, Event
from pcli.codec.session.keepalive import Beat, KeepAlive
from pcli.codec.session.server import Offer, ServerSession
from pcli.codec.session.states import State
from pcli.codec.session.strict import read_command

__all__ = ["Beat", "ClientSession", "Event", "KeepAlive", "Offer", "ServerSession", "State", "read_command"]
