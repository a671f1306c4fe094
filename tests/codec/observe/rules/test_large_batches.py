"""Rule large-batches: a batch exceeds the permits of one consumer while another receives nothing."""

import pytest


@pytest.mark.parametrize(("count", "severity"), [(1, "note"), (2, "warning")])
def test_another_consumer_receives_nothing(evaluate, subscription, counted, count, severity):
    [found] = evaluate("large-batches", subscription(large_batches=counted(count, 40, sample="7:3, 1000 messages")))
    assert (found.severity, found.culprit, found.sure, found.frames) == (severity, "application", "likely", [40])
    assert "7:3, 1000 messages" in found.what


def test_all_consumers_receive_messages(evaluate, subscription):
    assert evaluate("large-batches", subscription()) == []
