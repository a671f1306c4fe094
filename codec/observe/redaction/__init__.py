"""Captures without anything of the application in them, for issues that everybody can read.

- names.py: pseudonyms; keys.py: those of keys, in their slots; texts.py: what brokers say in words
- messages.py: THE table of what becomes of each field; payloads.py: filler; frames.py: a frame
- edits.py, rewriting.py: a whole capture, packet by packet; selecting.py: a part of it
"""

from pcli.codec.observe.redaction.capture_rewriter import Rewriting
from pcli.codec.observe.redaction.frame_selection import DEFAULT_WINDOW, Selection, select_around
from pcli.codec.observe.redaction.name_pseudonyms import Names

__all__ = ["DEFAULT_WINDOW", "Names", "Rewriting", "Selection", "select_around"]
