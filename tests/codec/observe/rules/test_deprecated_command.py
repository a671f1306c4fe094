"""Rule deprecated-command: features that newer versions have replaced."""

import pytest


@pytest.mark.parametrize("what", ["CONNECT.auth_method", "CONSUMER_STATS", "SEND without checksum"])
def test_each_deprecated_feature(evaluate, connection, counted, what):
    [found] = evaluate("deprecated-command", connection(deprecated={what: counted(2, 7)}))
    assert (found.severity, found.culprit, found.certainty, found.variant) == ("note", "client", "certain", what)
    assert f"uses the deprecated {what} (twice)" in found.what


def test_a_real_capture(diagnosed):
    [found] = diagnosed("rust/cumulative-ack", "deprecated-command")
    assert (found.variant, found.frames) == ("CONSUMER_STATS", [122])


def test_other_old_clients(diagnosed):
    assert diagnosed("java/old-client-2.4.2", "deprecated-command") == []
