"""The page of a rule, as `pcli diagnose --explain` prints it and docs/findings/NAME.md holds it.

Its text is the docstring of the rule's module: a line, then what it means, how it looks on the wire, what speaks for
the opposite, and what to do. So it is installed wherever the rule is.
"""

from __future__ import annotations

import sys

from pcli.codec.observe.rules.finding import Rule

__all__ = ["page_of"]


def page_of(rule: Rule) -> str:
    """The page as markdown, with a line at its end."""
    text = (sys.modules[f"{__package__}.{rule.name.replace('-', '_')}"].__doc__ or "").strip()
    facts = ", ".join(f"`{fact}`" for fact in rule.facts)
    return f"# {rule.name}\n\n{text}\n\nAsked of each {rule.group}: {facts}. Wanted by {rule.issue}.\n"
