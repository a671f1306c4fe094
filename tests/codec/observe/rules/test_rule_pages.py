"""Every rule has a page with the four sections and an issue or proposal with background."""

import re

import pytest

from pcli.codec.observe.rules import RULES
from pcli.codec.observe.rules.finding import DEFINED, GROUPS
from pcli.codec.observe.rules.rule_pages import page_of


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_page(rule):
    page = page_of(rule)
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert titles == ["What it means", "On the wire", "What would disprove it", "What to do"]
    assert 15 <= len(page.splitlines()) <= 46
    assert re.search(r"For background, see ([\w-]+/[\w-]+#\d+|PIP-\d+)", page)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_is_registered_under_its_name(rule):
    assert RULES[rule.name] is rule
    assert rule.group in GROUPS
    assert rule.facts


def test_every_defined_rule_has_a_place_in_the_order():
    assert set(DEFINED) == set(RULES)


def test_rules_named_in_pages_exist():
    for rule in RULES.values():
        text = " ".join(page_of(rule).split())
        for name in re.findall(r"(?:[sS]ee(?: also)?|by|is|are|follow):? (?=[a-z-]*)([a-z]+(?:-[a-z]+)+)\b", text):
            assert name in RULES, f"{rule.name} sends people to {name}"
