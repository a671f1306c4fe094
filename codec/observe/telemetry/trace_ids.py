"""Trace ids: those that applications write into the properties of messages, and stable ids of all other messages.

Rules of this file
1. The formats are tried in this order: W3C Trace Context (``traceparent``, ``tracestate``), B3 (``b3``, then the
   ``X-B3-…`` names), Jaeger (``uber-trace-id``). Names of properties are compared without case, because the formats
   define them as names of HTTP headers. The last property of a name applies.
2. A malformed header is ignored and returned as `Headers.malformed`. A malformed ``tracestate`` does not affect its
   ``traceparent`` (W3C Trace Context, section 3.3).
3. Ids of traces have 128 bits and ids of spans have 64 bits. None of them is 0. A shorter id in a header is extended
   with zeros on the left.
4. A stable id is the beginning of a SHA-256 digest of what the wire shows at every host, so captures of different hosts
   assign the same id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import unquote


class TraceContext(NamedTuple):
    """The span in which an application created a message."""

    trace_id: int
    span_id: int
    sampled: bool | None = None
    """Whether the application exports the trace; None if the header defers the decision (B3)."""
    state: str = ""
    """The value of ``tracestate``."""

    def merge(self, other: TraceContext) -> TraceContext:
        """Return the context in two headers with the same ids, of which one may lack the decision or the state."""
        decisions = {self.sampled, other.sampled}
        sampled = True if True in decisions else None if None in decisions else False
        return self._replace(sampled=sampled, state=other.state or self.state)


class Headers(NamedTuple):
    """The trace headers in the properties of a message."""

    context: TraceContext | None = None
    """The context in the first valid header; None if there is none."""
    malformed: str = ""
    """The name of the first malformed header; empty if there is none."""


_NONE: Final = Headers()


def is_marked(data: bytes, start: int, end: int) -> bool:
    """Return whether a range of a frame can contain the name of a trace header."""
    return _NAME.search(data, start, end) is not None


def headers_of(properties: Iterable[tuple[str, str]]) -> Headers:
    """Return the trace headers among the properties of a message, which are pairs of name and value."""
    found = {name.lower(): value.strip() for name, value in properties if name.lower() in _NAMES}
    if not found:
        return _NONE
    malformed = ""
    for name, parse in _FORMATS:
        if name in found:
            context = parse(found)
            if context is not None:
                return Headers(context, malformed)
            malformed = malformed or ("" if found[name] in _DECISIONS else name)
    return Headers(None, malformed)


def trace_id(cluster: str, topic: str, ledger: int, entry: int) -> int:
    """Return the stable trace id of a message without trace headers; ``topic`` is the full name.

    It is the first 16 bytes of the SHA-256 digest of ``pulsar``, the cluster, the topic and ``ledger:entry``, each
    followed by a zero byte, in UTF-8.
    """
    return _digest(16, "pulsar", cluster, topic, f"{ledger}:{entry}")


def publication_trace_id(
    cluster: str, topic: str, producer: str, sequence_id: int, publish_ms: int, checksum: int
) -> int:
    """Return the stable trace id of a message that has no id of its own.

    The broker assigned none, or the topic is not persistent, where all ids are 0:0. The digest is that of `trace_id`
    with the producer's name, the sequence id, the publish time and the CRC-32C of the frame instead of the message id.
    ``checksum`` is -1 if it is unknown.
    """
    return _digest(16, "pulsar", cluster, topic, producer, str(sequence_id), str(publish_ms), str(checksum))


def span_id(trace: int, *words: str) -> int:
    """Return the stable id of a span: a digest of its trace id and of the words that distinguish it in the trace."""
    return _digest(8, trace_text(trace), *words)


def trace_text(trace: int) -> str:
    """Return a trace id as 32 hexadecimal digits."""
    return f"{trace:032x}"


def span_text(span: int) -> str:
    """Return the id of a span as 16 hexadecimal digits."""
    return f"{span:016x}"


def _digest(size: int, *words: str) -> int:
    joined = "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape")
    return int.from_bytes(sha256(joined).digest()[:size]) or 1


def _traceparent(found: dict[str, str]) -> TraceContext | None:
    matched = _TRACEPARENT.fullmatch(found["traceparent"])
    if matched is None:
        return None
    version, trace, span, flags, rest = matched.groups()
    if version == "ff" or (version == "00" and rest):
        return None
    state = found.get("tracestate", "")
    return _context(trace, span, bool(int(flags, 16) & 1), state if _TRACESTATE.fullmatch(state) else "")


def _b3(found: dict[str, str]) -> TraceContext | None:
    matched = _B3.fullmatch(found["b3"].lower())
    return None if matched is None else _context(matched[1], matched[2], _B3_SAMPLED.get(matched[3]))


def _b3_multi(found: dict[str, str]) -> TraceContext | None:
    trace, span = found["x-b3-traceid"].lower(), found.get("x-b3-spanid", "").lower()
    if not (_B3_TRACE.fullmatch(trace) and _SPAN.fullmatch(span)):
        return None
    debug = found.get("x-b3-flags") == "1"
    return _context(trace, span, True if debug else _B3_SAMPLED.get(found.get("x-b3-sampled", "").lower()))


def _uber(found: dict[str, str]) -> TraceContext | None:
    matched = _UBER.fullmatch(unquote(found["uber-trace-id"]).lower())
    return None if matched is None else _context(matched[1], matched[2], bool(int(matched[3], 16) & 1))


def _context(trace: str, span: str, sampled: bool | None, state: str = "") -> TraceContext | None:
    """Return a context of hexadecimal ids; None if an id is 0."""
    ids = int(trace, 16), int(span, 16)
    return TraceContext(*ids, sampled, state) if all(ids) else None


_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACESTATE: Final = re.compile(r"(?:[ \t]*(?:[a-z0-9][-_*/@a-z0-9]{0,255}=[ -+\--<>-~]{1,256})?[ \t]*(?:,|$)){1,32}")
_B3_TRACE: Final = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{16})?")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_B3: Final = re.compile(rf"({_B3_TRACE.pattern})-({_SPAN.pattern})(?:-([01d])(?:-{_SPAN.pattern})?)?")
_UBER: Final = re.compile(r"([0-9a-f]{1,32}):([0-9a-f]{1,16}):[0-9a-f]{0,16}:([0-9a-f]{1,2})")
_B3_SAMPLED: Final = {"1": True, "true": True, "d": True, "0": False, "false": False}
_DECISIONS: Final = frozenset("01d")
"""Values of ``b3`` that contain a decision but no trace."""

_FORMATS: Final[tuple[tuple[str, Callable[[dict[str, str]], TraceContext | None]], ...]] = (
    ("traceparent", _traceparent),
    ("b3", _b3),
    ("x-b3-traceid", _b3_multi),
    ("uber-trace-id", _uber),
)
_NAMES: Final = frozenset({
    "traceparent", "tracestate", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags", "uber-trace-id",
})  # fmt: skip
_NAME: Final = re.compile(rb"traceparent|b3|uber-trace-id", re.IGNORECASE)
