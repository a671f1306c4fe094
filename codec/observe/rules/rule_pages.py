"""The page of a rule: the output of `pcli diagnose --explain` and the content of docs/findings/NAME.md."""

from __future__ import annotations

from pcli.codec.observe.rules.finding import Rule


def page_of(rule: Rule) -> str:
    """Return the page as Markdown, with the evaluated fields and the issue in the last line."""
    facts = ", ".join(f"`{fact}`" for fact in rule.facts)
    fields = "field" if len(rule.facts) == 1 else "fields"
    origin = (
        f"This rule is evaluated for each {rule.group} and reads the {fields} {facts}. "
        f"For background, see {rule.issue}."
    )
    limits = "".join(
        f"\n- `{one.name}`, {f'{one.default / 1e9:g} s' if one.is_time else one.default}: {one.text}"
        for one in rule.thresholds
    )
    changes = f"\n\nThresholds (`pcli diagnose --threshold NAME=VALUE`):\n{limits}" if limits else ""
    return f"# {rule.name}\n\n{rule.page}\n\n{origin}{changes}\n"
