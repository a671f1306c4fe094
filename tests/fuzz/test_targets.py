"""The first inputs of all fuzzing targets, and the inputs that once raised an error."""

import pytest

from tests.fuzz.targets import TARGETS, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_first_inputs(name):
    inputs = list(seeds(name))
    assert inputs
    for data in inputs:
        TARGETS[name](data)
