"""Rule auth-refused: missing permissions."""

from pcli.codec.observe.tracking.records.connection_records import HostRecord


def test_each_error_and_command(evaluate, counted):
    denied = {
        "AuthenticationError CONNECT": counted(16, 1, 2, sample="Failed to authenticate"),
        "AuthorizationError LOOKUP": counted(1, 9),
    }
    found = evaluate("auth-refused", HostRecord("10.0.0.1", ("10.0.0.2", 6650), denied=denied))
    assert [(one.severity, one.culprit, one.certainty, one.variant) for one in found] == [
        ("error", "application", "certain", name) for name in denied
    ]
    assert found[0].what.endswith("CONNECT was refused with AuthenticationError 16 times: Failed to authenticate.")
    assert len({one.identity for one in found}) == 2


def test_a_real_capture(diagnosed):
    found = diagnosed("python/20-token-authentication", "auth-refused")
    assert [(one.variant, one.frames[:2]) for one in found] == [
        ("AuthenticationError CONNECT", [73, 74]),
        ("AuthorizationError PARTITIONED_METADATA", [107, 108]),
    ]


def test_refused_for_other_reasons(diagnosed):
    assert diagnosed("java/refusals", "auth-refused") == []
