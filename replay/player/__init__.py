"""The player: the clients of a capture, played against a live broker, and its answers compared.

- script.py: a capture as a play (ends, reorder, sends); seeding.py: what was there before it
- preparation.py: what the broker must have (interventions, swallowed, calls)
- player.py: what to say now (ids, book, holders); shell.py: the same on sockets
- compare.py: how answers differ; rules.py: why they may (rules_of_*, evidence, deliveries, transactions);
  report.py: the sums
- replay.py: all of it for one capture
- reproducing.py: a replay as a pytest test (noting, retelling, wording, python_text)
"""

from pcli.replay.player.player import Pace, Player
from pcli.replay.player.replay import Replay
from pcli.replay.player.report import Report
from pcli.replay.player.script import Script, build_script

__all__ = ["Pace", "Player", "Replay", "Report", "Script", "build_script"]
