"""Rule subscribe-refused: SUBSCRIBE, ERROR."""

import pytest


@pytest.mark.parametrize(("error", "culprit"), [("ConsumerBusy", "application"), ("ServiceNotReady", "broker")])
def test_a_refused_subscribe(evaluate, consumer, counted, error, culprit):
    [found] = evaluate("subscribe-refused", consumer(refused={error: counted(2, 20, 21, sample="taken\n")}))
    assert (found.severity, found.culprit, found.certainty, found.variant) == ("error", culprit, "certain", error)
    assert found.frames == [20, 21]
    assert "): taken" in found.what


def test_it_succeeded_later(evaluate, consumer, counted):
    [found] = evaluate("subscribe-refused", consumer(refused={"ConsumerBusy": counted(1, 4, first=0.5)}))
    assert found.severity == "note"
    assert "frame 6" in found.opposite


def test_no_finding(evaluate, consumer):
    assert evaluate("subscribe-refused", consumer()) == []


@pytest.mark.parametrize("error", ["IncompatibleSchema", "AuthorizationError"])
def test_schemas_and_permissions_have_other_rules(evaluate, consumer, counted, error):
    assert evaluate("subscribe-refused", consumer(refused={error: counted(1, 20)})) == []
