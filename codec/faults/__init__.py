"""What may go wrong on purpose between a client and a broker: a match, an action, a budget.

- fault.py: one fault: which frames, what happens to them, from which and how often; read from words, too
- injector.py: all faults applied to the bytes of all connections; says what goes on, when, and where to
- answers.py: the answer with which a broker refuses a request
- corrupt.py: one bit that is wrong

The mini-broker and the proxy use it; neither clock nor socket is here.
"""

from pcli.codec.faults.answers import error_answer, error_code
from pcli.codec.faults.corrupt import corrupted
from pcli.codec.faults.fault import ACTIONS, Fault, Faults
from pcli.codec.faults.injector import Injector, Step

__all__ = ["ACTIONS", "Fault", "Faults", "Injector", "Step", "corrupted", "error_answer", "error_code"]
