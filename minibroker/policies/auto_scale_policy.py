"""The policy of automatic changes of a scalable topic: values of the topic, the namespace and the broker.

A value of the topic precedes one of the namespace, which precedes the setting of the broker. The names are those of
AutoScalePolicyOverride; the checks and their texts were measured on 5.0.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.policies.errors import BadValueError

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings

AUTO_SCALE_POLICY: Final = "scalableTopicAutoScalePolicy"
"""The name of the policy of a namespace."""
_RATES: Final = ("MsgRateIn", "BytesRateIn", "MsgRateOut", "BytesRateOut")


@dataclass(frozen=True, slots=True)
class AutoScalePolicy:
    """The effective values. Rates are per second; durations are in seconds."""

    enabled: bool
    maxSegments: int  # noqa: N815
    minSegments: int  # noqa: N815
    maxDagDepth: int  # noqa: N815
    splitCooldownSeconds: int  # noqa: N815
    mergeCooldownSeconds: int  # noqa: N815
    splitVsRebucketMinMsgRateInThreshold: float  # noqa: N815
    rebucketCooldownSeconds: int  # noqa: N815
    mergeWindowSeconds: int  # noqa: N815
    splitMsgRateInThreshold: float  # noqa: N815
    splitBytesRateInThreshold: int  # noqa: N815
    splitMsgRateOutThreshold: float  # noqa: N815
    splitBytesRateOutThreshold: int  # noqa: N815
    mergeMsgRateInThreshold: float  # noqa: N815
    mergeBytesRateInThreshold: int  # noqa: N815
    mergeMsgRateOutThreshold: float  # noqa: N815
    mergeBytesRateOutThreshold: int  # noqa: N815

    @property
    def split_limits(self) -> tuple[float, ...]:
        """The rates in and out of a segment, messages and bytes, above which it is split."""
        return tuple(getattr(self, f"split{rate}Threshold") for rate in _RATES)

    @property
    def merge_limits(self) -> tuple[float, ...]:
        """The rates in and out of a segment, messages and bytes, below which it can be merged."""
        return tuple(getattr(self, f"merge{rate}Threshold") for rate in _RATES)

    @property
    def error(self) -> str:
        """Why the values contradict each other; empty if they do not."""
        return next((f"Invalid auto split/merge configuration: {text}" for wrong, text in self._rules() if wrong), "")

    def check(self) -> None:
        """Raise BadValueError if the values contradict each other."""
        if self.error:
            raise BadValueError(self.error)

    def _rules(self) -> Iterator[tuple[bool, str]]:
        yield self.minSegments < 1, "minSegments must be >= 1"
        yield self.maxSegments < self.minSegments, "maxSegments must be >= minSegments"
        yield self.maxDagDepth < 0, "maxDagDepth must be >= 0"
        for name in ("splitCooldown", "mergeCooldown", "rebucketCooldown", "mergeWindow"):
            yield getattr(self, f"{name}Seconds") < 0, f"{name} must not be negative"
        floor = "splitVsRebucketMinMsgRateInThreshold"
        yield getattr(self, floor) < 0, f"{floor} must be >= 0"
        for rate in _RATES:
            split, merge = f"split{rate}Threshold", f"merge{rate}Threshold"
            high, low = getattr(self, split), getattr(self, merge)
            yield high <= 0, f"{split} must be > 0"
            yield low < 0, f"{merge} must be >= 0"
            yield high <= low, f"{split} must be > {merge} (hysteresis)"


def setting_of(name: str) -> str:
    """Return the setting with the broker's value of a field."""
    return "scalableTopicAutoScaleEnabled" if name == "enabled" else f"scalableTopic{name[0].upper()}{name[1:]}"


def effective_policy(settings: Settings, *overrides: Mapping[str, Any] | None) -> AutoScalePolicy:
    """Return the effective values. A later one of the overrides precedes an earlier one."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(AutoScalePolicy):
        name = field.name
        values[name] = getattr(settings, setting_of(name))
        for one in overrides:
            if one is not None and one.get(name) is not None:
                values[name] = one[name]
    return AutoScalePolicy(**values)


def check_override(value: Mapping[str, Any] | None, settings: Settings) -> None:
    """Raise BadValueError if values of a namespace contradict each other or the broker's values."""
    effective_policy(settings, value).check()
