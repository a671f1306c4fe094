"""`pcli stats balances`: shows what became of the messages of each topic and subscription."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.state_view import StateView

if TYPE_CHECKING:
    from pcli.cli.stats.capture_state import CaptureState
    from pcli.codec.observe.tracking.statistics.message_balance import Balance

_ALWAYS: Final = ("sent", "stored")
"""Values that the text shows even if they are 0."""


def _find(state: CaptureState, until_ns: int, name: str, system: bool) -> list[Balance]:
    from pcli.codec.observe.tracking.statistics.message_balance import balances, unknown_balance

    found = balances(state.tracker.subscriptions, until_ns, system=system)
    return [unknown_balance(one, state.doubt) for one in found]


def _sum(found: list[Balance], state: CaptureState) -> list[Balance]:
    from pcli.codec.observe.tracking.statistics.scalable_sums import sum_balances

    topics = state.tracker.subscriptions.lifecycles.topics
    return sum_balances(found, lambda name: topics[name].record)


def _objects(found: Sequence[Balance]) -> dict[str, Any]:
    from pcli.codec.observe.tracking.statistics.message_balance import balance_objects

    return balance_objects(found)


def _show(found: Sequence[Balance], state: CaptureState, until_ns: int) -> None:
    """Print balances as a table, and the reasons for values that are not known."""
    from pcli.codec.observe.text_format import short_topic
    from pcli.codec.observe.tracking.statistics.message_balance import SUBSCRIPTION_VALUES

    print_tree(("", *SUBSCRIPTION_VALUES), _rows(found))
    places = ("/".join(filter(None, (short_topic(one.topic), one.subscription))) for one in found)
    print_reasons((place, {"unknown": _reasons(one)}) for place, one in zip(places, found, strict=True))


def _reasons(one: Balance) -> dict[str, str]:
    """Return the reasons of a balance by value; one reason if no value is known."""
    return {"all values": one.reasons["stored"]} if one.reasons.keys() == one.values.keys() else one.reasons


def _values(one: Balance) -> str:
    """Return the values that are not 0 as text: ``sent 20, stored 21, stored twice 1``."""
    hidden = (0,) if any(value is not None for value in one.values.values()) else (0, None)
    shown = (
        f"{name.replace('_', ' ')} {'?' if value is None else value}"
        for name, value in one.values.items()
        if value not in hidden or name in _ALWAYS
    )
    return ", ".join(shown)


def _rows(found: Sequence[Balance]) -> Iterator[str | list[Any]]:
    for one in found:
        yield [f"  {one.subscription}", *one.values.values()] if one.subscription else f"{one.topic}  {_values(one)}"


VIEW: Final = StateView(
    "balances",
    "Show what became of the messages: sent, stored, delivered, acknowledged, remaining.",
    _find,
    _show,
    noun="topic of an application",
    objects=_objects,
    sum=_sum,
)
