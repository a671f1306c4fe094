"""`--admin URL`: a diagnosis compared with a live broker, here the mini-broker."""

import json
import urllib.request

import pytest

from pcli.minibroker import MiniBroker

NO_FLOW = "python/25-no-flow.pcapng"
STUCK = "python/24-stuck-unacked.pcap"


@pytest.fixture
def rest(broker):
    """Send a request to the admin API."""

    def send(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{broker.http_url}/admin/v2/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status

    return send


@pytest.fixture
def queue(rest):
    """The topic of the capture NO_FLOW, with two of its three subscriptions."""
    rest("PUT", "namespaces/public/25-no-flow", {})
    path = "persistent/public/25-no-flow/queue"
    rest("PUT", path)
    for name in ("never", "single"):
        rest("PUT", f"{path}/subscription/{name}")
    return path


@pytest.fixture
def admin(pcli, broker, small_captures):
    """Diagnose a capture with --admin; return the key ``admin``."""

    def run(capture, folder=small_captures):
        result = pcli("diagnose", "-r", folder / capture, "-T", "json", "--admin", broker.http_url)
        assert result.code == 0, result.err
        found = json.loads(result.out)
        for note in found["admin"]["notes"]:
            assert note["rule"] is None or found["findings"][note["finding"]]["rule"] == note["rule"]
        return found["admin"]

    return run


def verdicts(found, rule):
    return [note["verdict"] for note in found["notes"] if note["rule"] == rule]


def test_the_limit_confirms_a_block(admin, rest, captures):
    rest("PUT", "namespaces/public/24-stuck-unacked", {})
    rest("PUT", "persistent/public/24-stuck-unacked/inbox")
    rest("POST", "persistent/public/24-stuck-unacked/inbox/maxUnackedMessagesOnConsumer", 50)
    found = admin(STUCK, captures)
    assert verdicts(found, "stuck-unacked-limit") == ["confirmed"]


def test_a_limit_of_the_namespace_applies_to_the_topic(admin, rest, captures):
    rest("PUT", "namespaces/public/24-stuck-unacked", {})
    rest("PUT", "persistent/public/24-stuck-unacked/inbox")
    rest("POST", "namespaces/public/24-stuck-unacked/maxUnackedMessagesPerConsumer", 50)
    assert verdicts(admin(STUCK, captures), "stuck-unacked-limit") == ["confirmed"]


def test_the_default_limits_contradict_a_block(admin, rest, captures):
    rest("PUT", "namespaces/public/24-stuck-unacked", {})
    rest("PUT", "persistent/public/24-stuck-unacked/inbox")
    assert verdicts(admin(STUCK, captures), "stuck-unacked-limit") == ["contradicted"]


def test_facts_about_topics_and_subscriptions(admin, queue):
    found = admin(NO_FLOW)
    texts = {note["subject"].get("subscription", ""): note["text"] for note in found["notes"] if not note["rule"]}
    assert texts[""].startswith("Limits: maxUnackedMessagesOnConsumer 50000")
    assert texts["asleep"] == "The subscription of the capture does not exist any more."
    assert verdicts(found, "stuck-no-permits") == ["undecided"]


def test_the_text_has_a_section(pcli, broker, queue, small_captures):
    result = pcli("diagnose", "-r", small_captures / NO_FLOW, "--admin", broker.http_url)
    assert result.code == 0
    place = result.lines.index(
        next(line for line in result.lines if line.startswith(f"confirmed by the broker at {broker.http_url}, now: "))
    )
    assert any(line.startswith("  undecided    stuck-no-permits, consumer never-asks") for line in result.lines[place:])
    page = pcli("diagnose", "-r", small_captures / NO_FLOW, "--admin", broker.http_url, "-T", "html")
    assert "<h2>The broker</h2>" in page.out


def test_why_contains_only_its_object(pcli, broker, queue, small_captures):
    arguments = ("-r", small_captures / NO_FLOW, "--admin", broker.http_url, "-T", "json")
    found = json.loads(pcli("why", "never-asks", *arguments).out)["admin"]
    assert {note["subject"].get("subscription", "never") for note in found["notes"]} == {"never"}
    assert verdicts(found, "stuck-no-permits") == ["undecided"]


def test_a_topic_that_is_not_on_the_broker(admin):
    found = admin(NO_FLOW)
    assert {note["text"] for note in found["notes"]} == {"The topic does not exist on this broker."}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:1", "connection refused"),
        ("{service}", "this is not the URL of a web service: write http://host:8080"),
        ("{binary}", "not an HTTP response"),
    ],
)
@pytest.mark.parametrize("command", [("diagnose",), ("why", "never-asks")])
def test_a_broker_that_does_not_answer(pcli, broker, small_captures, command, url, text):
    binary = broker.service_url.replace("pulsar:", "http:")
    url = url.format(service=broker.service_url, binary=binary)
    result = pcli(*command, "-r", small_captures / NO_FLOW, "--admin", url)
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert text in result.err
    assert ("stuck-no-permits" in result.out) is not url.startswith("pulsar:")


@pytest.mark.parametrize("fail_on", [(), ("--fail-on", "any")])
def test_the_json_form_contains_the_error(pcli, small_captures, fail_on):
    arguments = ("-r", small_captures / NO_FLOW, "--admin", "http://127.0.0.1:1", *fail_on)
    result = pcli("diagnose", *arguments, "-T", "json")
    assert result.code == 2
    admin = json.loads(result.out)["admin"]
    assert "connection refused" in admin["error"]
    lines = [json.loads(line) for line in pcli("diagnose", *arguments, "-T", "ndjson").out.splitlines()]
    assert [line.get("admin") for line in lines[-1:]] == [admin]


def test_credentials(pcli, small_captures):
    pytest.importorskip("jwt")
    with MiniBroker(tokens={"admin": "superuser"}) as broker:
        arguments = ("diagnose", "-r", small_captures / NO_FLOW, "--admin", broker.http_url)
        refused = pcli(*arguments)
        assert refused.code == 2
        assert "status 401" in refused.err
        assert pcli(*arguments, "--token", broker.tokens["admin"]).code == 0


def test_tls(pcli, small_captures):
    pytest.importorskip("cryptography")
    with MiniBroker(tls=True) as broker:
        arguments = ("diagnose", "-r", small_captures / NO_FLOW, "--admin", broker.http_url_tls)
        assert pcli(*arguments).code == 2
        assert pcli(*arguments, "--tls-trust", broker.tls_trust_certs).code == 0
