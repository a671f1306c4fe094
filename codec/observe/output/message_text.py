"""Lives of messages for people: a block of lines each, or a sequence diagram of a few.

What the capture has not seen is said: an incomplete life may have had more steps.
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

__all__ = ["life_lines", "life_mermaid"]

_WIDTH: Final = 100
"""Columns of the text."""

_INDENT: Final = " " * 40
"""In front of what does not fit behind its step."""


def life_lines(life: Lifecycle) -> Iterator[tuple[str, str]]:
    """A block of lines: each with what it is (head, state, a step's `what`, doubt), for whoever colours them."""
    yield "head", _head(life)
    yield "state", f"  {life.state}: {STATES[life.state]}"
    if life.other_ids:
        others = ", ".join(f"{ledger}:{entry}" for ledger, entry in life.other_ids)
        yield "state", f"  stored more than once: also as {others}"
    for left in _left(life):
        yield "state", f"  {left}"
    steps = steps_of(life)
    start = min((step.time_ns for step in steps if step.time_ns >= 0), default=0)
    for step in steps:
        at = latency_text(step.time_ns - start) if step.time_ns >= 0 else ""
        after = f"+{latency_text(step.after_ns)}" if step.after_ns >= 0 else ""
        who = f"{step.who} → broker" if step.whom == BROKER else f"broker → {step.whom}"
        line = f"  {at:>10} {after:>11}  frame {step.frame:<7} {step.what:<11} {who}"
        fits = len(line) + len(step.says) + 2 <= _WIDTH
        yield step.what, f"{line}  {step.says}".rstrip() if fits else line
        if not fits:
            yield from ((step.what, part) for part in _wrapped(step.says))
    for word in sorted(life.doubts):
        yield "doubt", f"  evidence incomplete: {DOUBTS[word]}"


def _head(life: Lifecycle) -> str:
    topic = short_topic(life.topic.name) if life.topic is not None else "unknown topic"
    place = life.id or "no id"
    batch = f"{life.messages} messages" if life.batch else ""
    chunks = f"{life.num_chunks} chunks" if life.num_chunks > 1 else ""
    key = f"key {printable(life.key)}" if life.key else ""
    txn = f"txn ({life.txn[0]},{life.txn[1]})" if life.txn is not None else ""
    marker = "a marker of the broker" if life.marker else ""
    return "  ".join(filter(None, (topic, place, batch, chunks, size_text(life.size), key, txn, marker)))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)


def _left(life: Lifecycle) -> Iterator[str]:
    """How much a subscription has not acknowledged, and who holds it, or held it last."""
    for name, count in life.unacked.items():
        deliveries = life.deliveries.get(name)
        if count and deliveries:
            holding = [holder_of(one) for one in deliveries if one.held]
            last = deliveries[-1]
            until = f" until frame {last.taken[1]}" if last.taken[1] else ""
            held = f"held by {', '.join(holding)}" if holding else f"last held by {holder_of(last)}{until}"
            yield f"{count} of {life.messages} left: {held}"


def life_mermaid(lives: Iterable[Lifecycle]) -> Iterator[str]:
    """A Mermaid sequence diagram of a life, or a few: producers on the left, the broker, consumers on the right."""
    lives = list(lives)
    steps = [(life, step) for life in lives for step in steps_of(life)]
    senders = dict.fromkeys(step.who for _, step in steps if step.what in ("sent", "sent again"))
    others = dict.fromkeys(name for _, step in steps for name in (step.who, step.whom) if name and name not in senders)
    aliases = {name: f"p{index}" for index, name in enumerate(senders)}
    aliases |= {name: f"c{index}" for index, name in enumerate(others)}
    yield "sequenceDiagram"
    for name in senders:
        yield f"    participant {aliases[name]} as {safe(name)}"
    yield "    participant broker"
    for name in others:
        yield f"    participant {aliases[name]} as {safe(name)}"
    seen: set[int] = set()
    for life, step in steps:
        if id(life) not in seen:
            seen.add(id(life))
            yield f"    Note over broker: {safe(_head(life))}"
        after = f" after {latency_text(step.after_ns)}" if step.after_ns >= 0 else ""
        arrow = f"{aliases.get(step.who, 'broker')}->>{aliases.get(step.whom, 'broker')}"
        yield f"    {arrow}: {safe(f'{step.what}{after} {step.says} (frame {step.frame})')}"
    for life in lives:
        yield f"    Note over broker: {safe(', '.join((life.id, life.state, *_left(life))))}"
