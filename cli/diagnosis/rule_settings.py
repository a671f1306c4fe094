"""The rules to evaluate and their thresholds, from options and a configuration file.

Rules of this file
1. The file is TOML: ``ignore = ["clock-skew"]`` and a table ``[thresholds]`` with lines such as
   ``never-acked.age = "5s"``.
2. Options extend the file: rules of both are ignored, and a threshold of an option replaces that of the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcli.codec.observe.diagnosis import RuleChoice


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """Which rules are evaluated, with which limits."""

    only: Sequence[str] = ()
    """Names of rules; empty for all rules."""
    ignore: Sequence[str] = ()
    thresholds: Mapping[str, int] | None = None
    """Changed thresholds, as in `Moment.thresholds`."""

    def choice(self) -> RuleChoice:
        """Return the settings as the argument of a diagnosis in several processes."""
        from pcli.codec.observe.diagnosis import RuleChoice

        return RuleChoice(self.only, self.ignore, self.thresholds)


def rule_settings(only: Sequence[str], ignore: Sequence[str], thresholds: Sequence[str], file: str) -> RuleSettings:
    """Return the settings. ``thresholds`` are texts such as ``never-acked.age=5s``. Raises LocalError."""
    from pcli.cli.diagnosis.capture_diagnosis import checked_rules

    ignored, values = _read(file) if file else ([], {})
    values |= dict(_value(text, "--threshold") for text in thresholds)
    ignored += checked_rules(ignore, "--ignore")
    return RuleSettings(checked_rules(only, "--only"), ignored, values)


def _read(name: str) -> tuple[list[str], dict[str, int]]:
    from pcli.cli.diagnosis.capture_diagnosis import checked_rules
    from pcli.codec.errors import LocalError
    from pcli.replay.sources.lazy_file import reason_of

    try:
        content = tomllib.loads(Path(name).read_text())
    except OSError as error:
        raise LocalError(f"--config {name}: {reason_of(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LocalError(f"--config {name}: {error}") from None
    if unknown := content.keys() - {"ignore", "thresholds"}:
        raise LocalError(f"--config {name}: unknown key {min(unknown)}; the keys are ignore and thresholds")
    ignore, thresholds = content.get("ignore", []), content.get("thresholds", {})
    if not isinstance(ignore, list) or not isinstance(thresholds, dict):
        raise LocalError(f"--config {name}: ignore is a list of rules, and thresholds is a table")
    rules = checked_rules([str(one) for one in ignore], f"--config {name}: ignore")
    return rules, dict(_value(text, f"--config {name}:") for text in _lines(thresholds))


def _lines(thresholds: dict[str, Any]) -> Iterator[str]:
    """Yield ``never-acked.age=5s`` for each threshold; TOML reads a name with a dot as a table in a table."""
    for rule, values in thresholds.items():
        if isinstance(values, dict):
            yield from (f"{rule}.{word}={value}" for word, value in values.items())
        else:
            yield f"{rule}={values}"


def _value(text: str, option: str) -> tuple[str, int]:
    from pcli.codec.errors import LocalError
    from pcli.codec.observe.fields.field_table import nearest
    from pcli.codec.observe.filters.literals import parse_duration
    from pcli.codec.observe.rules import RULES

    known = {one.name: one for rule in RULES.values() for one in rule.thresholds}
    name, equals, value = (part.strip() for part in text.partition("="))
    threshold = known.get(name)
    if threshold is None:
        near = nearest(name, list(known)) or f"; the thresholds are {', '.join(known)}"
        raise LocalError(f"{option} {text}: unknown threshold{near}")
    try:
        number = parse_duration(value) if threshold.is_time else int(value)
    except ValueError:
        number = -1
    if number < 0 or not equals:
        example = "5s" if threshold.is_time else str(threshold.default)
        raise LocalError(f"{option} {text}: not a value; for example {name}={example}")
    return name, number
