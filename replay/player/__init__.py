"""The player: replays the clients of a capture against a live broker and compares the responses.

- script: the clients' commands in the order in which the broker processed them, and the state that they require
- player.py: the next commands to send (id_translation.py, response_matching.py, entry_holders.py);
  asyncio_player.py runs it on sockets
- comparison: how responses differ, and the rules that allow a difference
- recorded_broker.py: the broker of a capture, replayed to live clients
- replay.py: all these steps for one capture; reproduce: a replay as a pytest test
"""

from pcli.replay.player.comparison.report import Report
from pcli.replay.player.player import Pace, Player
from pcli.replay.player.replay import Replay
from pcli.replay.player.script.build_script import build_script
from pcli.replay.player.script.script import Script

__all__ = ["Pace", "Player", "Replay", "Report", "Script", "build_script"]
