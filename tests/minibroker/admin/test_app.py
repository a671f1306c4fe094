"""The HTTP layer: paths, bodies, errors. One request is one turn of the broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.admin.endpoint_table import ENDPOINTS

TOPIC = "/admin/v2/persistent/public/default/t"


def test_unknown_paths_and_methods(rest):
    """The real broker's HTTP server answers them: with a page, and with the list of methods."""
    answer = rest("GET", "/admin/v2/<x>")
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html;charset=iso-8859-1"
    assert b"<tr><th>URI:</th><td>/admin/v2/&lt;x&gt;</td></tr>" in answer.data
    answer = rest("POST", "/admin/v2/tenants")
    assert (answer.status, b"HTTP ERROR 405 Method Not Allowed" in answer.data) == (405, True)
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize(("method", "path"), [("PUT", "/admin/v2/x"), ("DELETE", "/admin/v2/tenants")])
def test_put_and_delete_are_answered_without_a_page(rest, method, path):
    answer = rest(method, path)
    assert (answer.status >= 404, answer.data) == (True, b"")


@pytest.mark.parametrize(
    ("accepted", "media"),
    [
        ("application/json", "application/json"),
        ("*/*", "text/html;charset=iso-8859-1"),
        ("text/html,application/json", "text/html;charset=iso-8859-1"),
        ("application/json;q=0.5,text/html", "text/html;charset=iso-8859-1"),
    ],
)
def test_an_unknown_path_is_answered_in_json_if_the_client_accepts_it(rest, accepted, media):
    answer = rest("GET", "/admin/namespaces/x", headers={"accept": accepted})
    assert (answer.status, answer.headers["content-type"]) == (404, media)
    if "json" in media:
        expected = {"message": "Not Found", "url": "/admin/namespaces/x", "status": "404"}
        assert expected.items() <= json.loads(answer.data).items()


def test_a_slash_at_the_end(rest):
    """Scripts poll /metrics/ with a slash; the real broker accepts both paths."""
    assert rest("GET", "/metrics/").status == 200
    assert rest("GET", "/admin/v2/tenants/").json == ["public", "pulsar"]


@pytest.mark.parametrize(
    ("sent", "local"),
    [("a%2Bb", "a+b"), ("a+b", "a b"), ("a%20b", "a b"), ("%C3%BC", "ü"), ("a%25b", "a%b"), ("q%3Fx", "q?x")],
)
def test_names_are_percent_encoded(rest, world, sent, local):
    """All clients encode paths as java.net.URLEncoder does: a plus sign is a space."""
    assert rest("PUT", f"/admin/v2/persistent/public/default/{sent}").status == 204
    assert list(world.broker.topics) == [f"persistent://public/default/{local}"]


def test_a_name_with_a_slash_is_invalid(rest):
    assert rest("PUT", "/admin/v2/persistent/public/default/a%2Fb").status == 412


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
def test_an_invalid_json_body(rest, body):
    answer = rest("PUT", f"{TOPIC}", body)
    assert answer.status == 400
    assert b"line: 1, column:" in answer.data


def test_an_oversized_body(rest):
    assert rest("PUT", f"{TOPIC}/partitions", b" " * (17 << 20)).status == 413


def test_an_exception_is_a_500_and_reported(rest, world, monkeypatch):
    monkeypatch.setattr(world.broker, "unload", lambda topic: 1 / 0)
    rest("PUT", TOPIC)
    answer = rest("PUT", f"{TOPIC}/unload")
    assert answer.status == 500
    assert "ZeroDivisionError" in answer.json["reason"]
    assert [type(failure) for failure in world.broker.failures] == [ZeroDivisionError]
    world.broker.failures.clear()


def test_every_endpoint_responds(make_rest):
    """Requests with valid names and no body never cause an internal error. A disabled feature is a 503.

    A missing body is a 500 if it is one on the real broker, and so is the removal of a role from a subscription that is
    not restricted.
    """
    world, rest = make_rest(scalableTopicsEnabled=True)
    rest("PUT", TOPIC)
    words = {"domain": "persistent", "tenant": "public", "namespace": "default", "topic": "t", "subscription": "s"}
    words |= {"scalable_domain": "topic", "descriptor": "0000-ffff-0"}
    numbers = ("timestamp", "count", "seconds", "ledger", "entry", "version", "most", "least", "timeout", "segment")
    numbers += ("other",)
    for endpoint in ENDPOINTS:
        path = re.sub(r"{(\w+)}", lambda part: words.get(part[1], "1" if part[1] in numbers else "none"), endpoint.path)
        answer = rest(endpoint.method, path)
        texts = (b"An unexpected error", b"HTTP ERROR 500", b"couldn't find subscription")
        as_real = answer.status == 503 or not answer.data or any(text in answer.data for text in texts)
        assert answer.status < 500 or as_real, (endpoint.method, path, answer.data)
        assert endpoint.text
    assert not world.broker.failures


def test_no_endpoint_hides_another(rest):
    """Each row of the table is reached by its method and path."""
    seen = {(endpoint.method, re.sub(r"{(?!scalable_domain)\w+}", "{}", endpoint.path)) for endpoint in ENDPOINTS}
    assert len(seen) == len(ENDPOINTS)


def test_a_request_is_a_turn(world, rest):
    """The effects of a REST request on clients are sent in the same turn."""
    client = world.client()
    client.producer("t")
    client.subscribe("t")
    assert rest("PUT", f"{TOPIC}/unload").status == 204
    assert [type(body) for body in client.hear()] == [pb.CommandCloseProducer, pb.CommandCloseConsumer]


def test_rest_serves_the_bundle(world, rest):
    """A topic that a REST request loaded needs no lookup."""
    rest("PUT", TOPIC)
    client = world.client()
    assert isinstance(client.one(pb.CommandProducer(topic="t", producer_id=1)), pb.CommandProducerSuccess)


def test_the_http_library_is_imported_late():
    """The HTTP library is imported only when REST is used."""
    code = "import sys, pcli.minibroker.admin; print('starlette' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize(("body", "status"), [(b"NaN", 400), (b"Infinity", 400), (b"1e999", 500), (b"4294967296", 500)])
def test_numbers_that_are_no_integers(rest, body, status):
    answer = rest("PUT", "/admin/v2/persistent/public/default/p/partitions", body)
    assert (answer.status, bool(answer.data)) == (status, status == 400)


ONE = f"{TOPIC}/subscription/s"
TRANSACTIONS = "/admin/v3/transactions"
PAGE = "text/html;charset=iso-8859-1"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", f"{ONE}/skip/abc", 404),
        ("POST", f"{ONE}/skip/99999999999", 404),
        ("POST", f"{ONE}/expireMessages/99999999999", 404),
        ("POST", f"{TOPIC}/all_subscription/expireMessages/abc", 404),
        ("POST", f"{ONE}/resetcursor/abc", 404),
        ("GET", f"{ONE}/position/abc", 404),
        ("GET", f"{TOPIC}/ledger/1/entry/abc", 404),
        ("GET", f"{TOPIC}/messageid/99999999999999999999", 404),
        ("GET", f"{TOPIC}/examinemessage?messagePosition=abc", 404),
        ("GET", f"{TOPIC}/getMessageIdByIndex?index=abc", 404),
        ("POST", f"{TOPIC}/messageTTL?messageTTL=1.5", 404),
        ("POST", f"{TOPIC}/subscriptionExpirationTime?subscriptionExpirationTime=abc", 404),
        ("POST", "/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=abc", 404),
        ("GET", f"{TRANSACTIONS}/coordinatorStats?coordinatorId=abc", 404),
        ("GET", f"{TRANSACTIONS}/slowTransactions/1?coordinatorId=abc", 404),
        ("GET", f"{TRANSACTIONS}/positionStatsInPendingAck/public/default/t/s/1/abc", 404),
        ("GET", f"{TRANSACTIONS}/positionStatsInPendingAck/public/default/t/s/1/1?batchIndex=abc", 404),
        ("GET", f"{TRANSACTIONS}/coordinatorInternalStats/abc", 500),
        ("GET", f"{TRANSACTIONS}/coordinatorInternalStats/2147483648", 500),
        ("GET", f"{TRANSACTIONS}/slowTransactions/abc", 500),
        ("GET", f"{TRANSACTIONS}/transactionMetadata/0/abc", 500),
        ("GET", "/lookup/v2/topic/abc/public/default/t", 500),
        ("GET", "/lookup/v2/topic/abc/public/default/t/bundle", 500),
    ],
)
def test_a_text_in_place_of_a_number_results_in_a_page(make_rest, method, path, status):
    """Numbers that JAX-RS converts result in a 404, numbers that methods of Pulsar parse in a 500 (4.2.4)."""
    _, rest = make_rest(transactionCoordinatorEnabled=True)
    answer = rest(method, path)
    assert (answer.status, answer.headers["content-type"]) == (status, PAGE)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/admin/v2/schemas/public/default/missing/schema/abc"),
        ("GET", f"{TRANSACTIONS}/transactionInBufferStats/public/default/missing/abc/1"),
        ("GET", f"{TRANSACTIONS}/transactionInPendingAckStats/public/default/missing/s/1/abc"),
        ("POST", f"{TRANSACTIONS}/abortTransaction/abc/1"),
    ],
)
def test_a_text_in_place_of_a_number_in_strings_results_in_json(make_rest, method, path):
    _, rest = make_rest(transactionCoordinatorEnabled=True)
    answer = rest(method, path)
    assert answer.status == 500
    assert 'java.lang.NumberFormatException: For input string: "abc"' in answer.json["reason"]


def test_a_number_may_have_a_sign(make_rest):
    _, rest = make_rest(transactionCoordinatorEnabled=True)
    answer = rest("GET", f"{TRANSACTIONS}/coordinatorInternalStats/+1")
    assert (answer.status, answer.json["reason"]) == (404, "Transaction coordinator not found! coordinator id : 1")


@pytest.mark.parametrize(("query", "header"), [("?listenerName=inner", ""), ("", "inner")])
def test_a_lookup_with_an_unknown_listener(rest, query, header):
    answer = rest(
        "GET", f"/lookup/v2/topic/persistent/public/default/t{query}", headers={"x-pulsar-listenername": header}
    )
    assert answer.status == 500
    assert "the broker do not have inner listener" in answer.json["reason"]


@pytest.mark.parametrize(
    ("setting", "domain"), [("enableNonPersistentTopics", "non-persistent"), ("enablePersistentTopics", "persistent")]
)
def test_a_lookup_in_a_disabled_domain(make_rest, setting, domain):
    _, rest = make_rest(**{setting: False})
    answer = rest("GET", f"/lookup/v2/topic/{domain}/public/default/t")
    assert (answer.status, answer.headers["content-type"]) == (503, PAGE)


def test_the_number_of_partitions_of_a_request_is_limited(rest):
    topics = "/admin/v2/persistent/public/default"
    assert rest("PUT", f"{topics}/huge/partitions", 2_000_000_000).status == 412
    override = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2_000_000_000}
    assert rest("POST", "/admin/v2/namespaces/public/default/autoTopicCreation", override).status == 204
    assert rest("GET", f"{topics}/huge/partitions?checkAllowAutoCreation=true").status == 409


def test_bodies_are_limited(make_rest):
    _, rest = make_rest(httpMaxRequestSize=1000)
    retention = "/admin/v2/namespaces/public/default/retention"
    assert rest("POST", retention, b" " * 1001).status == 413
    assert rest("POST", retention, b"x" * 1000).status == 400
