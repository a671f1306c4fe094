"""The player. It replays the clients of a capture against a live broker and compares the responses.

- script: the clients' commands in the order in which the broker processed them, and the state that they require
- player.py: determines the next commands to send (with id_translation.py, segment_translation.py and
  response_matching.py); asyncio_player.py runs it on sockets
- comparison: the differences between responses, and the rules that allow a difference
- recorded_broker.py: replays the broker of a capture to live clients
- replay.py: runs all steps of a replay for one capture; reproduce: writes a replay as a pytest test
"""

from pcli.replay.player.comparison.report import Report
from pcli.replay.player.player import Pace, Player
from pcli.replay.player.replay import Replay
from pcli.replay.player.script.build_script import build_script
from pcli.replay.player.script.script import Script

__all__ = ["Pace", "Player", "Replay", "Report", "Script", "build_script"]
