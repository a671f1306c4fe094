"""Redaction: removal of application data from captures, so that they can be attached to public issues.

- name_pseudonyms.py: pseudonyms; key_pseudonyms.py: pseudonyms of keys in the same slot; free_text.py: broker messages
- messages.py: redaction of each field; payloads.py: filler; frames.py, truncated_messages.py: redaction of a frame
- capture_rewriter.py, stream_edits.py: redaction of a capture; frame_selection.py: selection of frames in a capture
"""

from pcli.codec.observe.redaction.capture_rewriter import CaptureRewriter
from pcli.codec.observe.redaction.frame_selection import DEFAULT_WINDOW, Selection, select_around
from pcli.codec.observe.redaction.name_pseudonyms import Names

__all__ = ["DEFAULT_WINDOW", "CaptureRewriter", "Names", "Selection", "select_around"]
