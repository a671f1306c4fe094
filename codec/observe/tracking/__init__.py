"""What is kept of a recording, so that rules and statistics can read it: bounded, frame by frame.

- tracker.py: Tracker, the doorway; linking.py, publishing.py and lives.py fill the records
- links.py, peers.py, topics.py, life.py: the records; tally.py: counts with evidence; doubts.py: what was not seen
- figures.py: the state as `topics stats` has it; choosing.py: which lives somebody asks for
"""

from pcli.codec.observe.tracking.tracker import Tracker, take_in

__all__ = ["Tracker", "take_in"]
