"""`pcli stats consumers`: shows topics, subscriptions and consumers at a given time, as in `topics stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.text_tables import print_reasons, print_tree
from pcli.cli.stats.state_view import StateView

if TYPE_CHECKING:
    from pcli.cli.stats.capture_state import CaptureState

_Stats = dict[str, Any]

_FIGURES: Final = ("type", "msgBacklog", "unackedMessages", "msgOutCounter", "availablePermits", "blocked")

_NO_FIGURES: Final = ("subscriptions", "consumers", "consumerName", "type", "unknown")

_BLOCKED: Final = ("blockedConsumerOnUnackedMsgs", "blockedSubscriptionOnUnackedMsgs")


def _find(state: CaptureState, until_ns: int, name: str, system: bool) -> _Stats:
    from pcli.codec.observe.tracking.statistics.broker_statistics import figures

    found = figures(state.tracker.subscriptions, until_ns, system=system)
    if state.doubt:
        for stats in found.values():
            _mark_unknown(stats, state.doubt)
    return found


def _sum(found: _Stats, state: CaptureState) -> _Stats:
    from pcli.codec.observe.tracking.statistics.scalable_sums import sum_figures

    topics = state.tracker.subscriptions.lifecycles.topics
    return sum_figures(found, lambda name: topics[name].record)


def _show(found: _Stats, state: CaptureState, until_ns: int) -> None:
    print_tree(("", *_FIGURES), _rows(found))
    print_reasons(_places(found))


def _mark_unknown(stats: _Stats, reason: str) -> None:
    """Replace all counts with None for this reason."""
    names = [name for name in stats if name not in _NO_FIGURES]
    stats.update(dict.fromkeys(names), unknown=dict.fromkeys(names, reason))
    for one in (*stats.get("subscriptions", {}).values(), *stats.get("consumers", ())):
        _mark_unknown(one, reason)


def _rows(found: _Stats) -> Iterator[str | list[Any]]:
    for topic, stats in found.items():
        count = stats["msgInCounter"]
        yield f"{topic}  msgInCounter {'?' if count is None else count}"
        for name, subscription in stats["subscriptions"].items():
            yield [f"  {name}", *_values(subscription)]
            for one in subscription["consumers"]:
                yield [f"    {_name(one)}", *_values(one)]


def _values(stats: _Stats) -> Iterator[Any]:
    """Return the values of _FIGURES. Figures that do not exist for a consumer or a subscription are empty."""
    for name in _FIGURES[:-1]:
        yield stats.get(name, "")
    yield next(stats[name] for name in _BLOCKED if name in stats)


def _name(consumer: _Stats) -> str:
    return str(consumer["consumerName"] or "(no name)")


def _places(found: _Stats) -> Iterator[tuple[str, _Stats]]:
    from pcli.codec.observe.text_format import short_topic

    for topic, stats in found.items():
        place = short_topic(topic)
        yield place, stats
        for name, subscription in stats["subscriptions"].items():
            yield f"{place}/{name}", subscription
            for one in subscription["consumers"]:
                yield f"{place}/{name}/{_name(one)}", one


VIEW: Final = StateView(
    "consumers",
    "Show topics, subscriptions and consumers at a given time, with the field names of `topics stats`.",
    _find,
    _show,
    noun="topic of an application",
    sum=_sum,
)
