"""Comparison of the REST responses of two recordings.

Rules of this file
1. Ledger ids are numbered in the order of their first appearance in a recording's responses.
2. Times are compared by presence: zero, negative or positive. The values of rates, which brokers update by the clock,
   addresses, versions, the ledgers of cursors and schemas and the stored size of ranges, which depends on ledger ids,
   are not compared.
3. Lists of names have no order.
4. If a recording has transactions, sizes are compared by presence, because entries contain the ids of transactions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from scenarios.recording import Recording

from pcli.codec.wire.commands import BY_NAME

_NEW_TXN = BY_NAME["NEW_TXN"].number

_TIME = re.compile(
    r"(?i)time(stamp|ms)?$|timestamp|since$|(created|sealed|split|merge|rebucket)At(Ms)?$|^at$|ageSeconds$"
)
_RATE = re.compile(r"(?i)rate|throughput|perSecond|averageMsgSize|chunkedMessageRate")
_IGNORED = re.compile(
    r"address|clientVersion|ownerBroker|controllerBroker|producerName|metadata|cursorLedger(LastEntry)?"
    r"|.*DurationTimeInMills|nonContiguousDeletedMessagesRangesSerializedSize"
)
_SIZE = re.compile(r"(?i)size$|bytes\w*Counter$")
_GENERATED = re.compile(r"\bstandalone-\d+-\d+\b")
_POSITION = re.compile(r"\b(\d+):(-?\d+)\b")


def differences_of_exchanges(first: Recording, second: Recording, made: Callable[..., Any]) -> Iterator[Any]:
    """Yield the differences between the responses."""
    mine, theirs = _Names(first), _Names(second)
    for one, other in zip(first.exchanges, second.exchanges):
        area = f"{one.method} {_template(one.path)}"
        request = f"{one.method} {one.path}"
        if one.status != other.status:
            shown = (f"{each.status} {each.response}"[:300] for each in (one, other))
            yield made(f"{area} status", one.step, *shown, request)
            continue
        left = _flat(mine.plain(one.response), "")
        right = _flat(theirs.plain(other.response), "")
        for path in sorted({**left, **right}):
            values = left.get(path, "absent"), right.get(path, "absent")
            if values[0] != values[1]:
                yield made(f"{area} {_general(path)}", one.step, *(f"{path}={value}" for value in values), request)


def _template(path: str) -> str:
    """Return the path without names."""
    path = path.partition("?")[0]
    path = re.sub(r"^(non-persistent|persistent)/public/~/[^/]+", r"\1/TOPIC", path)
    path = re.sub(r"^scalable/public/~/[^/]+", "scalable/TOPIC", path)
    path = re.sub(r"^segments/public/~/[^/]+/[^/]+", "segments/TOPIC/SEGMENT", path)
    path = re.sub(r"^schemas/public/~/[^/]+", "schemas/TOPIC", path)
    path = re.sub(r"namespaces/public/~", "namespaces/NAMESPACE", path)
    path = re.sub(r"(subscriptions?)/\w+", r"\1/SUB", path)
    return re.sub(r"/\d+", "/N", path)


def _general(path: str) -> str:
    """Return the path of a field without names and indexes."""
    return re.sub(r"(subscriptions|cursors)\.\w+", r"\1.SUB", re.sub(r"\[\d+\]", "[]", path))


class _Names:
    def __init__(self, recording: Recording) -> None:
        self._token = recording.token
        self._ledgers: dict[int, str] = {}
        self._has_transactions = any(one.frame is not None and one.frame.type == _NEW_TXN for one in recording.events)

    def _ledger(self, number: int) -> str:
        return str(number) if number < 0 else self._ledgers.setdefault(number, f"L{len(self._ledgers) + 1}")

    def plain(self, value: Any, name: str = "") -> Any:
        """Return JSON without the values that differ between runs."""
        if isinstance(value, dict):
            kept = sorted(key for key in value if not _IGNORED.fullmatch(key))
            return {self._text(key): self.plain(value[key], key) for key in kept}
        if isinstance(value, list):
            if name == "schemaLedgers":
                value = [{**one, "ledgerId": 0} for one in value]
            plain = [self.plain(one, name) for one in value]
            return sorted(plain) if all(isinstance(one, str) for one in plain) else plain
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            if name in ("ledgerId", "CompactedTopicLedger"):
                return self._ledger(int(value))
            if _TIME.search(name) or (self._has_transactions and _SIZE.search(name)):
                return "positive" if value > 0 else "negative" if value < 0 else 0
            if _RATE.search(name):
                return "rate"
            return value
        if _TIME.search(name):
            return "time" if value else value
        return self._text(value)

    def _text(self, value: str) -> str:
        value = value.replace(self._token, "~").partition("\n\nStacktrace:")[0]
        value = _GENERATED.sub("standalone-N", value)
        return _POSITION.sub(lambda match: f"{self._ledger(int(match[1]))}:{match[2]}", value)


def _flat(value: Any, path: str) -> dict[str, Any]:
    """Return the values of nested JSON by path."""
    has_fields = isinstance(value, list) and any(isinstance(one, dict) for one in value)
    if not value or not (isinstance(value, dict) or has_fields):
        return {path or "body": value}
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for key, one in value.items():
            found |= _flat(one, f"{path}.{key}" if path else key)
    else:
        for index, one in enumerate(value):
            found |= _flat(one, f"{path}[{index}]")
    return found
