"""Frames as a Mermaid sequence diagram, for issues and docs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pcli.codec.observe.fields.general_fields import problems_of
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.observe.text_format import latency_text, printable
from pcli.codec.wire.commands import name_of

# In Mermaid, ; ends a statement and # begins an entity, so both are written as entities. < and > would be HTML.
_ENTITIES = str.maketrans({";": "#59;", "#": "#35;", "<": "#lt;", ">": "#gt;", "%": "#37;"})


def mermaid_lines(conversation: Iterable[Facts]) -> Iterator[str]:
    """Return the lines of the diagram: a participant per connection, one for the broker, and an arrow per frame.

    A note marks each frame with problems. Pass a selection of frames: a diagram with a thousand arrows is unreadable.
    """
    yield "sequenceDiagram"
    yield "    autonumber"
    known: set[int] = set()
    for facts in conversation:
        frame = facts.frame
        client = f"c{frame.stream.number}"
        if frame.stream.number not in known:
            known.add(frame.stream.number)
            address, port = frame.stream.client
            yield f"    participant {client} as {safe(f'{address}:{port}')}"
            if len(known) == 1:
                yield "    participant broker"
        arrow = f"{client}->>broker" if frame.from_client else f"broker->>{client}"
        late = f" ({latency_text(facts.latency_ns)})" if facts.latency_ns >= 0 else ""
        yield f"    {arrow}: {safe(f'{name_of(frame.type)} {describe(facts)}{late}')}"
        for problem in problems_of(facts):
            yield f"    Note over broker: {safe(f'frame {frame.number}: {problem}')}"


def safe(text: str) -> str:
    """Return a string on one line, with Mermaid's special characters escaped."""
    return " ".join(printable(text).translate(_ENTITIES).split())
