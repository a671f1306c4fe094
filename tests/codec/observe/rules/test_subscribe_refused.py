"""Rule subscribe-refused: SUBSCRIBE, ERROR."""

import pytest


@pytest.mark.parametrize(("error", "culprit"), [("ConsumerBusy", "application"), ("ServiceNotReady", "broker")])
def test_it_was_refused(evaluate, consumer, tallied, error, culprit):
    [found] = evaluate("subscribe-refused", consumer(refused={error: tallied(2, 20, 21, sample="taken\n")}))
    assert (found.severity, found.culprit, found.sure, found.cause) == ("error", culprit, "certain", error)
    assert found.frames == [20, 21]
    assert "): taken" in found.what


def test_it_succeeded_later(evaluate, consumer, tallied):
    [found] = evaluate("subscribe-refused", consumer(refused={"ConsumerBusy": tallied(1, 4, first=0.5)}))
    assert found.severity == "note"
    assert "frame 6" in found.opposite


def test_it_was_not(evaluate, consumer):
    assert evaluate("subscribe-refused", consumer()) == []


@pytest.mark.parametrize("error", ["IncompatibleSchema", "AuthorizationError"])
def test_other_rules_tell_of_schemas_and_permissions(evaluate, consumer, tallied, error):
    assert evaluate("subscribe-refused", consumer(refused={error: tallied(1, 20)})) == []
