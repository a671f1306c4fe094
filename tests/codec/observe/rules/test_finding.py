"""Certainties of facts and causes."""

import importlib
import pkgutil

import pytest

from pcli.codec.observe import rules
from pcli.codec.observe.rules.finding import CERTAINTIES, CULPRITS, Cause, Finding


@pytest.mark.parametrize("fact", CERTAINTIES)
@pytest.mark.parametrize("cause", CERTAINTIES)
def test_a_cause_is_not_more_certain_than_its_fact(fact, cause):
    finding = Finding("note", fact, Cause("broker", cause, ("a",), "b"), {}, "what", 0)
    assert CERTAINTIES.index(finding.cause_certainty) == max(map(CERTAINTIES.index, (fact, cause)))


def causes():
    """Return all causes that the modules of rules define, with their names."""
    for found in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"{rules.__name__}.{found.name}")
        yield from ((f"{found.name}.{name}", one) for name, one in vars(module).items() if isinstance(one, Cause))


@pytest.mark.parametrize(("name", "cause"), list(causes()))
def test_an_uncertain_cause_has_alternatives_and_a_way_to_decide(name, cause):
    assert cause.culprit in CULPRITS
    assert cause.certainty in CERTAINTIES
    assert bool(cause.alternatives) == bool(cause.decide) == (cause.certainty != "certain"), name
    assert all(one[0].islower() and one[-1] not in ".," for one in cause.alternatives)
    assert not cause.decide or (cause.decide[-1] == "." and not cause.decide[0].islower())
