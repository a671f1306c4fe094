"""Redaction: removes application data from captures so that they can be attached to public issues.

- name_pseudonyms.py: pseudonyms; key_pseudonyms.py: pseudonyms of keys in the same slot; free_text.py: broker messages
- messages.py: the redaction of each field; payloads.py: filler; frames.py, truncated_messages.py: a frame
- capture_rewriter.py, stream_edits.py: a whole capture, packet by packet; frame_selection.py: a part of it
"""

from pcli.codec.observe.redaction.capture_rewriter import CaptureRewriter
from pcli.codec.observe.redaction.frame_selection import DEFAULT_WINDOW, Selection, select_around
from pcli.codec.observe.redaction.name_pseudonyms import Names

__all__ = ["DEFAULT_WINDOW", "CaptureRewriter", "Names", "Selection", "select_around"]
