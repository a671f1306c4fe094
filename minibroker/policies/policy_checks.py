"""Checks of the values of policies, with the texts of the real broker (NamespacesBase, PersistentTopicsBase).

A check gets the converted value, which can be None, and the settings. It raises BadValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pcli.minibroker.policies.errors import BadValueError, unexpected_error
from pcli.minibroker.settings import Settings

Check = Callable[[Any, Settings], None]
"""A check of a value."""


def not_negative(text: str) -> Check:
    """Return a check that a number is not negative. ``text`` is the error."""

    def check(value: int | None, settings: Settings) -> None:
        if value is not None and value < 0:
            raise BadValueError(text)

    return check


def message_size(value: int, settings: Settings) -> None:
    """Check that a maximum message size does not exceed the broker's."""
    if not 0 <= value <= settings.maxMessageSize:
        limits = "greater than or equal to 0 and must be smaller than that in the broker-level"
        raise BadValueError(f"topic-level maxMessageSize must be {limits}")


def auto_topic_creation(value: dict[str, Any] | None, settings: Settings) -> None:
    """Check a type and a number of partitions (AutoTopicCreationOverride.validateOverride)."""
    if value is None or not value["allowAutoTopicCreation"]:
        return
    wrong = "Invalid configuration for autoTopicCreationOverride. the detail is"
    kind, count = value.get("topicType"), value.get("defaultNumPartitions")
    if kind not in ("partitioned", "non-partitioned"):
        raise BadValueError(f"{wrong} Unknown topic type [{'null' if kind is None else kind}]")
    if kind == "non-partitioned" and count is not None:
        raise BadValueError(f"{wrong} [defaultNumPartitions] is not allowed to be set when the type is non-partition.")
    if kind == "non-partitioned":
        return
    if count is None:
        raise BadValueError(f"{wrong} [defaultNumPartitions] cannot be null when the type is partitioned.")
    if count < 1:
        raise BadValueError(f"{wrong} [defaultNumPartitions] cannot be less than 1 for partition type.")


def retention(value: dict[str, Any] | None, settings: Settings) -> None:
    """Check the limits of a retention (validateRetentionPolicies)."""
    if value is None:
        return
    time, size = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
    wrong = "Invalid retention policy:"
    if time < -1:
        raise BadValueError(f"{wrong} time limit must be >= -1", 400)
    if size < -1:
        raise BadValueError(f"{wrong} size limit must be >= -1", 400)
    if (time == 0) != (size == 0):
        text = "Setting a single time or size limit to 0 is invalid when one of the limits has a non-zero value."
        remedy = "Use the value of -1 instead of 0 to ignore a specific limit."
        raise BadValueError(f"{wrong} {text} {remedy} To disable retention both limits must be set to 0.", 400)


_MOST_BOOKIES: Final = 5
"""Maximum number of bookies of an ensemble."""


def persistence(value: dict[str, Any] | None, settings: Settings) -> None:
    """Check that the quorums are possible (validatePersistencePolicies)."""
    if value is None:
        raise BadValueError("persistence policies should not be null", 400)
    sizes = {name: value[f"bookkeeper{name}"] for name in ("Ensemble", "WriteQuorum", "AckQuorum")}
    for name, size in sizes.items():
        if not 0 < size <= _MOST_BOOKIES:
            raise BadValueError(f"Bookkeeper-{name} must be <= {_MOST_BOOKIES} and > 0.", 400)
    ensemble, write, ack = sizes.values()
    if not ensemble >= write >= ack:
        raise BadValueError(f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})", 400)


def entry_filters(value: dict[str, Any] | None, settings: Settings) -> None:
    """Reject all names: the broker has no entry filters."""
    if value is None:
        return
    names = value.get("entryFilterNames", "")
    if not names:
        text = "entryFilterNames can't be empty. To remove entry filters use the remove method."
        raise BadValueError(text, 400)
    raise BadValueError(f"Entry filter '{names.partition(',')[0]}' not found", 400)


def subscription_types(value: list[str | None] | None, settings: Settings) -> None:
    """Reject null, which makes the real broker fail."""
    if value is None or None in value:
        raise BadValueError("", 500)


def topic_subscription_types(value: list[str | None] | None, settings: Settings) -> None:
    """Reject null as the endpoint for topics does."""
    method, name = "java.util.Set.forEach(java.util.function.Consumer)", "subscriptionTypesEnabledSet"
    if value is not None and None in value:
        method, name = "org.apache.pulsar.client.api.SubscriptionType.name()", "subscriptionType"
    if value is None or None in value:
        raise BadValueError(unexpected_error(f'Cannot invoke "{method}" because "{name}" is null'), 500)
