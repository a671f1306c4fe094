"""Message lifecycles as text: a block of lines for each lifecycle, or a sequence diagram of a few lifecycles.

The output states what the capture lacks: an incomplete lifecycle may have had more steps.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from pcli.codec.observe.output.sequence_diagram import safe
from pcli.codec.observe.text_format import latency_text, printable, short_topic, size_text
from pcli.codec.observe.tracking.message_timeline import BROKER, holder_of, steps_of
from pcli.codec.observe.tracking.records.lifecycle import STATES, Lifecycle
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS

_WIDTH: Final = 100
"""Default width of the text in columns."""

_INDENT: Final = " " * 40
"""Indentation of text that does not fit on the line of its step."""


def lifecycle_lines(lifecycle: Lifecycle, width: int = _WIDTH) -> Iterator[tuple[str, str]]:
    """Return a block of lines, each with a role that determines its color (head, state, a step's `what`, doubt).

    If the text of a step exceeds ``width`` columns, it continues on further lines.
    """
    yield "head", _head(lifecycle)
    yield "state", f"  {lifecycle.state}: {STATES[lifecycle.state]}"
    if lifecycle.other_ids:
        others = ", ".join(f"{ledger}:{entry}" for ledger, entry in lifecycle.other_ids)
        yield "state", f"  stored more than once: also as {others}"
    if lifecycle.moved:
        yield "state", f"  {lifecycle.moved} of {lifecycle.messages} messages sent again on another segment"
    for left in _left(lifecycle):
        yield "state", f"  {left}"
    steps = steps_of(lifecycle)
    start = min((step.time_ns for step in steps if step.time_ns >= 0), default=0)
    for step in steps:
        at = latency_text(step.time_ns - start) if step.time_ns >= 0 else ""
        after = f"+{latency_text(step.after_ns)}" if step.after_ns >= 0 else ""
        route = f"{step.sender} → broker" if step.receiver == BROKER else f"broker → {step.receiver}"
        line = f"  {at:>10} {after:>11}  frame {step.frame:<7} {step.what:<11} {route}"
        fits = len(line) + len(step.text) + 2 <= width
        yield step.what, f"{line}  {step.text}".rstrip() if fits else line
        if not fits:
            yield from ((step.what, part) for part in _wrapped(step.text, width))
    for word in sorted(lifecycle.doubts):
        yield "doubt", f"  evidence incomplete: {DOUBTS[word]}"


def _head(lifecycle: Lifecycle) -> str:
    topic = short_topic(lifecycle.topic.name) if lifecycle.topic is not None else "unknown topic"
    place = lifecycle.id or "no id"
    batch = f"{lifecycle.messages} messages" if lifecycle.batch else ""
    chunks = f"{lifecycle.num_chunks} chunks" if lifecycle.num_chunks > 1 else ""
    key = f"key {printable(lifecycle.key)}" if lifecycle.key else ""
    txn = f"txn ({lifecycle.txn[0]},{lifecycle.txn[1]})" if lifecycle.txn is not None else ""
    marker = "a marker of the broker" if lifecycle.marker else ""
    return "  ".join(filter(None, (topic, place, batch, chunks, size_text(lifecycle.size), key, txn, marker)))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)


def _left(lifecycle: Lifecycle) -> Iterator[str]:
    """Describe what a subscription has not acknowledged, and its current or last consumer."""
    for name, count in lifecycle.unacked.items():
        deliveries = lifecycle.deliveries.get(name)
        if count and deliveries:
            holding = [holder_of(one) for one in deliveries if one.held]
            last = deliveries[-1]
            until = f" until frame {last.taken[1]}" if last.taken[1] else ""
            held = f"held by {', '.join(holding)}" if holding else f"last held by {holder_of(last)}{until}"
            yield f"{count} of {lifecycle.messages} left: {held}"


def lifecycle_diagram(lifecycles: Iterable[Lifecycle]) -> Iterator[str]:
    """Return a Mermaid sequence diagram of a few lifecycles: producers, then the broker, then consumers."""
    lifecycles = list(lifecycles)
    steps = [(lifecycle, step) for lifecycle in lifecycles for step in steps_of(lifecycle)]
    senders = dict.fromkeys(step.sender for _, step in steps if step.what in ("sent", "sent again"))
    others = dict.fromkeys(
        name for _, step in steps for name in (step.sender, step.receiver) if name and name not in senders
    )
    aliases = {name: f"p{index}" for index, name in enumerate(senders)}
    aliases |= {name: f"c{index}" for index, name in enumerate(others)}
    yield "sequenceDiagram"
    for name in senders:
        yield f"    participant {aliases[name]} as {safe(name)}"
    yield "    participant broker"
    for name in others:
        yield f"    participant {aliases[name]} as {safe(name)}"
    seen: set[int] = set()
    for lifecycle, step in steps:
        if id(lifecycle) not in seen:
            seen.add(id(lifecycle))
            yield f"    Note over broker: {safe(_head(lifecycle))}"
        after = f" after {latency_text(step.after_ns)}" if step.after_ns >= 0 else ""
        arrow = f"{aliases.get(step.sender, 'broker')}->>{aliases.get(step.receiver, 'broker')}"
        yield f"    {arrow}: {safe(f'{step.what}{after} {step.text} (frame {step.frame})')}"
    for lifecycle in lifecycles:
        yield f"    Note over broker: {safe(', '.join((lifecycle.id, lifecycle.state, *_left(lifecycle))))}"
