"""Rule redirect-loop: brokers that redirect to each other."""

from pcli.codec.observe.tracking.records.connection_records import HostRecord


def test_a_redirect_loop(evaluate, counted):
    host = HostRecord("10.0.0.1", ("10.0.0.2", 6650), redirect_loops=counted(2, 7, 8, sample="t"))
    [found] = evaluate("redirect-loop", host)
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("error", "broker", "certain", [7, 8])
    assert found.subject == {"client": "10.0.0.1", "server": "10.0.0.2:6650"}


def test_normal_redirects(evaluate, counted):
    assert evaluate("redirect-loop", HostRecord("10.0.0.1", ("10.0.0.2", 6650), attempts=counted(5))) == []
