"""Random requests in random order cause responses but no internal errors, and the broker continues to work."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.minibroker.admin.endpoint_table import ENDPOINTS

WORDS = {
    "domain": ["persistent", "non-persistent"],
    "scalable_domain": ["topic", "segment"],
    "segment": ["0", "1", "-1", "x"],
    "other": ["0", "1", "2"],
    "descriptor": ["0000-ffff-0", "0000-7fff-1", "x"],
    "tenant": ["public", "nobody", "%FF"],
    "namespace": ["default", "s", "@"],
    "topic": ["t", "p", "p-partition-0", "p-partition-7", "%2F", "a+b", "s", "."],
    "subscription": ["sub", "other"],
}
OTHERS = ["0", "1", "-1", "9" * 19, "9" * 40, "x", "%00", "dispatcherMaxReadBatchSize"]
KEYS = ["ledgerId", "entryId", "batchIndex", "isExcluded", "properties", "type", "schema", "partitions", "bundles"]
KEYS += ["allowedClusters", "limitSize", "replication_clusters", "backlog_quota_map", "max_producers_per_topic", "key"]

EXPECTED = (
    b"HTTP ERROR 500 Request failed.",
    b"An unexpected error occurred in the server",
    b"couldn't find subscription",
    b"Package Management Service is not enabled",
    b"CompactedTopicContext is not initialized",
    b"Pending ack have not init success!",
    b"Segment topic not loaded: segment://",
)
"""Texts of the responses that are a 500 on the real broker, too. Its pages for PUT and DELETE are empty."""

numbers = st.sampled_from([0, 1, 2, -1, 1 << 31, 1 << 63, 1 << 70])
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | st.sampled_from(["", "AVRO", "KEY_VALUE", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
queries = st.sampled_from(
    (
        *("", "force=true", "applied=true", "perPartition=true", "messagePosition=-1", "mode=ALL", "%FF"),
        *("numInitialSegments=2", "bucketCount=2", "property=a=b", "type=QUEUE", "timestamp=5"),
    )
)


@st.composite
def requests(draw):
    endpoint = draw(st.sampled_from(ENDPOINTS))
    path = re.sub(r"{(\w+)}", lambda part: draw(st.sampled_from(WORDS.get(part[1], OTHERS))), endpoint.path)
    return endpoint.method, f"{path}?{draw(queries)}", draw(json_values | st.binary(max_size=10))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(requests(), min_size=5, max_size=40))
def test_no_request_causes_an_internal_error(make_rest, asked):
    enabled = ("forceDeleteNamespaceAllowed", "transactionCoordinatorEnabled", "scalableTopicsEnabled")
    world, rest = make_rest(**dict.fromkeys(enabled, True))
    rest("PUT", "/admin/v2/persistent/public/default/t/subscription/sub")
    rest("PUT", "/admin/v2/scalable/public/default/s?numInitialSegments=2")
    rest("PUT", "/admin/v2/persistent/public/default/p/partitions", 2)
    client = world.client()
    client.producer("t")
    client.publish()
    for method, target, body in asked:
        answer = rest(method, target, body)
        expected = any(text in answer.data for text in EXPECTED) or (method in ("PUT", "DELETE") and not answer.data)
        assert answer.status < 500 or expected, (method, target, body, answer.data)
    assert rest("GET", "/admin/v2/brokers/health").data == b"ok"
    assert rest("GET", "/metrics").status == 200
