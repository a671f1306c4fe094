"""Fault injection between a client and a broker. A fault has a filter, an action and a limit.

- fault.py: one fault and the ordered list of all faults, with a parser for their text form
- injector.py: applies the faults to the bytes of all connections; returns which bytes to send, when, and to which side
- answers.py: the response with which a broker refuses a request
- corrupt.py: a frame with one inverted bit

The mini-broker and the proxy use this package. It has no clocks or sockets.
"""

from pcli.codec.faults.answers import error_answer, error_code
from pcli.codec.faults.corrupt import corrupted
from pcli.codec.faults.fault import ACTIONS, Fault, Faults
from pcli.codec.faults.injector import Injector, Step

__all__ = ["ACTIONS", "Fault", "Faults", "Injector", "Step", "corrupted", "error_answer", "error_code"]
