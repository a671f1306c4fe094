"""REST operations on scalable topics, their segments and policies, with good and bad requests."""

ALL = {
    "enabled": True,
    "maxSegments": 8,
    "minSegments": 2,
    "maxDagDepth": 5,
    "splitCooldownSeconds": 7,
    "mergeCooldownSeconds": 8,
    "rebucketCooldownSeconds": 9,
    "mergeWindowSeconds": 10,
    "splitMsgRateInThreshold": 100.0,
    "splitMsgRateOutThreshold": 200.0,
    "splitBytesRateInThreshold": 1000,
    "splitBytesRateOutThreshold": 2000,
    "mergeMsgRateInThreshold": 10.0,
    "mergeMsgRateOutThreshold": 20.0,
    "mergeBytesRateInThreshold": 100,
    "mergeBytesRateOutThreshold": 200,
    "splitVsRebucketMinMsgRateInThreshold": 50.0,
}
BAD_POLICIES = [
    {"maxSegments": 2, "minSegments": 3},
    {"maxSegments": 0},
    {"minSegments": 0},
    {"maxDagDepth": 0},
    {"maxDagDepth": -1},
    {"splitCooldownSeconds": -1},
    {"mergeCooldownSeconds": -1},
    {"rebucketCooldownSeconds": -1},
    {"mergeWindowSeconds": -1},
    {"mergeWindowSeconds": 0},
    {"splitMsgRateInThreshold": 0},
    {"splitMsgRateInThreshold": 1},
    {"splitMsgRateOutThreshold": 1},
    {"splitBytesRateInThreshold": 1},
    {"splitBytesRateOutThreshold": 1},
    {"mergeMsgRateInThreshold": 20000},
    {"mergeMsgRateOutThreshold": -1},
    {"mergeBytesRateInThreshold": -1},
    {"mergeBytesRateOutThreshold": 2**40},
    {"splitVsRebucketMinMsgRateInThreshold": -1},
    {"splitVsRebucketMinMsgRateInThreshold": 10**9},
]


def _ask(s, method, topic, rest="", body=None):
    """Send a request about a topic and record the reason of a refusal."""
    return s.admin(method, s.path(topic, rest), body, show=["reason"])


def _missing(method, rest, body=None):
    def scenario(s):
        t = s.topic(domain="topic")
        _ask(s, method, t, rest, body)
        s.admin("GET", s.path(t), show=["reason"])

    scenario.__doc__ = f"{method} {rest or 'the topic'} of a topic that does not exist, and whether it is created."
    return scenario


missing_get = _missing("GET", "")
missing_delete = _missing("DELETE", "")
missing_delete_forced = _missing("DELETE", "?force=true")
missing_stats = _missing("GET", "/stats")
missing_segment_stats = _missing("GET", "/segments/0/stats")
missing_split = _missing("POST", "/split/0")
missing_merge = _missing("POST", "/merge/0/1")
missing_rebucket = _missing("POST", "/rebucket/0?bucketCount=2")
missing_subscription = _missing("PUT", "/subscriptions/sub")
missing_unsubscribe = _missing("DELETE", "/subscriptions/sub")
missing_seek = _missing("POST", "/subscriptions/sub/seek?timestamp=1")
missing_skip_all = _missing("POST", "/subscriptions/sub/skip-all")
missing_policy = _missing("GET", "/autoScalePolicy")
missing_set_policy = _missing("POST", "/autoScalePolicy", {"maxSegments": 5})
missing_remove_policy = _missing("DELETE", "/autoScalePolicy")
missing_permissions = _missing("GET", "/permissions")
missing_grant = _missing("POST", "/permissions/role", ["produce"])
missing_revoke = _missing("DELETE", "/permissions/role")
missing_migrate = _missing("POST", "/migrate")


def create(s):
    """PUT with properties, and the metadata."""
    t = s.topic(domain="topic")
    s.admin("PUT", s.path(t, "?numInitialSegments=2"), {"team": "a", "x": ""})
    s.admin("GET", s.path(t), show=[""])


def create_without_body(s):
    """PUT without a body and without a number of segments."""
    t = s.topic(domain="topic")
    s.admin("PUT", s.path(t))
    s.admin("GET", s.path(t), show=["segments.#", "properties", "epoch", "nextSegmentId"])


def create_twice(s):
    """The second PUT is refused, also with another number of segments; the topic stays as it was."""
    t = s.scalable(2)
    _ask(s, "PUT", t)
    _ask(s, "PUT", t, "?numInitialSegments=3", {"a": "b"})
    s.admin("GET", s.path(t), show=["segments.#", "properties"])


def create_no_segments(s):
    """numInitialSegments 0 and -1."""
    t = s.topic(domain="topic")
    _ask(s, "PUT", t, "?numInitialSegments=0")
    _ask(s, "PUT", t, "?numInitialSegments=-1")
    _ask(s, "GET", t)


def create_with_a_word(s):
    """numInitialSegments that is no number."""
    t = s.topic(domain="topic")
    s.admin("PUT", s.path(t, "?numInitialSegments=two"))
    _ask(s, "GET", t)


def create_many_segments(s):
    """More segments than maxSegments."""
    t = s.topic(domain="topic")
    _ask(s, "PUT", t, "?numInitialSegments=65")
    s.admin("GET", s.path(t), show=["segments.#", "segments.0.hashRange", "segments.64.hashRange", "nextSegmentId"])


def create_with_a_list(s):
    """A body that is a list, and one that is a number."""
    t = s.topic(domain="topic")
    s.admin("PUT", s.path(t), ["a"])
    s.admin("PUT", s.path(t), 3)
    _ask(s, "GET", t)


def create_with_numbers_as_properties(s):
    """Values of properties that are no strings."""
    t = s.topic(domain="topic")
    s.admin("PUT", s.path(t), {"n": 1, "b": True})
    s.admin("GET", s.path(t), show=["properties"])


def create_with_nested_properties(s):
    """Values of properties that are objects."""
    t = s.topic(domain="topic")
    s.admin("PUT", s.path(t), {"n": {"a": "b"}})
    _ask(s, "GET", t)


def create_in_a_missing_namespace(s):
    """The namespace is not checked."""
    t = s.topic(ns="public/missing", domain="topic")
    _ask(s, "PUT", t)
    s.admin("GET", s.path(t), show=["epoch"])


def create_in_a_missing_tenant(s):
    """The tenant is not checked either."""
    t = s.topic(ns="missing/missing", domain="topic", lookup=False)
    _ask(s, "PUT", t)
    s.admin("GET", s.path(t), show=["epoch"])


def create_with_a_partition_name(s):
    """The name of a partition."""
    t = s.topic(domain="topic")
    s.topics.append(t + "-partition-0")
    _ask(s, "PUT", t + "-partition-0")


def create_with_a_slash(s):
    """An encoded slash in the name."""
    t = s.topic(domain="topic")
    s.topics.append(t + "%2Fx")
    _ask(s, "PUT", t + "%2Fx")
    _ask(s, "GET", t + "%2Fx")


def create_hostile_names(s):
    """Names with a space, a percent sign, a question mark, a hash and letters outside ASCII."""
    t = s.topic(domain="topic")
    for rest in "%20x", "%25x", "%3Fx", "%23x", "%C3%A4", "..", "%22%3Cb%3E":
        s.topics.append(t + rest)
        _ask(s, "PUT", t + rest)
        _ask(s, "GET", t + rest, "")


def create_a_long_name(s):
    """A name of 300 letters."""
    t = s.topic("n" * 300, domain="topic")
    _ask(s, "PUT", t)
    s.admin("GET", s.path(t), show=["epoch"])


def create_beside_a_classic_topic(s):
    """A classic topic of that name does not prevent it."""
    t = s.topic()
    s.admin("PUT", s.path(t))
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "PUT", u)
    s.admin("GET", s.path(u), show=["epoch"])
    s.admin("GET", s.path(t, "/stats"))


def create_with_a_limit_of_topics(s):
    """maxTopicsPerNamespace 1."""
    ns = s.namespace(maxTopicsPerNamespace=1)
    t = s.topic(ns=ns, domain="topic")
    _ask(s, "PUT", t, "?numInitialSegments=2")
    _ask(s, "GET", t)


def create_classic_beside_it(s):
    """A classic topic with the name of a scalable topic, by PUT and with partitions."""
    t = s.scalable(1)
    u = t.replace("topic://", "persistent://")
    s.topics.append(u)
    _ask(s, "PUT", u)
    _ask(s, "PUT", u, "/partitions", 2)
    _ask(s, "GET", u, "/stats")
    _ask(s, "GET", u, "/partitions")
    _ask(s, "DELETE", u)


def classic_requests(s):
    """Requests of classic topics with the name of a scalable topic."""
    u = s.scalable(1).replace("topic://", "persistent://")
    for method, rest in [
        ("GET", "/stats"),
        ("GET", "/internalStats"),
        ("GET", "/subscriptions"),
        ("PUT", "/subscription/sub"),
        ("DELETE", "/subscription/sub"),
        ("PUT", "/unload"),
        ("POST", "/terminate"),
        ("GET", "/lastMessageId"),
        ("GET", "/retention"),
    ]:
        _ask(s, method, u, rest)


def paths_of_other_domains(s):
    """Paths with the words topic and segment instead of persistent."""
    t = s.scalable(1).partition("://")[2]
    s.admin("GET", f"/admin/v2/topic/{t}/stats")
    s.admin("GET", f"/admin/v2/segment/{t}/0000-ffff-0/stats")
    s.admin("GET", f"/admin/v2/persistent/{t}%2F0000-ffff-0/stats", show=["reason"])
    s.admin("GET", f"/admin/v2/segments/{t}/0000-ffff-0")


def lookup_by_rest(s):
    """GET /lookup/v2/topic for a scalable topic, its segment and its persistent:// name."""
    t = s.scalable(1).partition("://")[2]
    s.admin("GET", f"/lookup/v2/topic/topic/{t}", show=[""])
    s.admin("GET", f"/lookup/v2/topic/segment/{t}%2F0000-ffff-0", show=[""])
    s.admin("GET", f"/lookup/v2/topic/segment/{t}%2F0000-ffff-9", show=[""])
    s.admin("GET", f"/lookup/v2/topic/persistent/{t}", show=["reason"])


def wrong_methods(s):
    """Methods that a path does not have."""
    t = s.scalable(1)
    for method, rest in [
        ("POST", ""),
        ("POST", "/stats"),
        ("GET", "/split/0"),
        ("GET", "/merge/0/1"),
        ("PUT", "/rebucket/0"),
        ("GET", "/subscriptions/sub"),
        ("GET", "/subscriptions"),
        ("PUT", "/autoScalePolicy"),
        ("GET", "/migrate"),
        ("GET", "/nothing"),
        ("GET", "/segments/0"),
        ("GET", "/segments"),
    ]:
        s.admin(method, s.path(t, rest))


def names_of_the_domain(s):
    """Paths with a tenant or namespace that cannot be one."""
    s.admin("PUT", "/admin/v2/scalable/public/a%2Fb/t", show=["reason"])
    s.admin("PUT", "/admin/v2/scalable/pub%20lic/default/t", show=["reason"])
    s.admin("GET", "/admin/v2/scalable/public/a:b", show=["", "reason"])
    s.admin("GET", "/admin/v2/scalable/public", show=[])
    s.admin("GET", "/admin/v2/scalable", show=[])


def topics(s):
    """The list of a namespace: sorted, with and without filters."""
    ns = s.namespace()
    for label, properties in ("b", {"team": "a"}), ("a", {"team": "a", "x": "1"}), ("c", {"team": "b"}):
        s.scalable(1, label, ns, **properties)
    path = f"/admin/v2/scalable/{ns}"
    for filters in "", "?property=team=a", "?property=team=a&property=x=1", "?property=x=2", "?property=team=":
        answer = s.http("GET", path + filters)[1]
        s.admin("GET", path + filters, show=["#"])
        s.did(("", f"topics {sorted(answer)}"))
    s.settle()


def topics_with_a_bad_filter(s):
    """Filters without an equal sign, empty ones, and one whose value has an equal sign."""
    ns = s.namespace()
    s.scalable(1, ns=ns, key="a=b")
    path = f"/admin/v2/scalable/{ns}"
    for filters in (
        "?property=key",
        "?property=",
        "?property==x",
        "?property=key=a=b",
        "?property=key=a%3Db",
        "?other=x",
    ):
        s.admin("GET", path + filters, show=["reason", "#"] if "==x" not in filters else ["reason"])


def topics_of_a_missing_namespace(s):
    """A namespace and a tenant that do not exist."""
    s.admin("GET", "/admin/v2/scalable/public/missing-at-all", show=[""])
    s.admin("GET", "/admin/v2/scalable/missing/missing", show=[""])


def delete(s):
    """DELETE, and again."""
    t = s.scalable(2)
    _ask(s, "DELETE", t)
    _ask(s, "GET", t)
    _ask(s, "DELETE", t)
    _ask(s, "DELETE", t, "?force=true")


def delete_after_split(s):
    """DELETE of a topic with a sealed segment, and the creation of a new one."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/0")
    _ask(s, "DELETE", t)
    _ask(s, "PUT", t)
    s.admin("GET", s.path(t), show=["epoch", "nextSegmentId", "segments.#"])


def delete_with_clients(s):
    """DELETE with a producer and a consumer on the segment."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    c.subscribe(s.segment(t, 0))
    c.flow(10)
    _ask(s, "DELETE", t)
    p.send("m0")
    _ask(s, "GET", t)


def delete_with_clients_forced(s):
    """The same with force."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    c.subscribe(s.segment(t, 0))
    c.flow(10)
    _ask(s, "DELETE", t, "?force=true")
    s.wait(0.6)
    _ask(s, "GET", t)


def delete_with_a_stream_consumer(s):
    """DELETE with a registered stream consumer."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    _ask(s, "DELETE", t)
    s.wait(0.6)
    c.leave()
    c.join(t, consumer=2)


def delete_namespace(s):
    """A namespace with a scalable topic cannot be deleted; afterwards it can."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    s.admin("DELETE", f"/admin/v2/namespaces/{ns}", show=["reason"])
    _ask(s, "DELETE", t)
    s.admin("DELETE", f"/admin/v2/namespaces/{ns}", show=["reason"])


def split(s):
    """A split and the metadata after it."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/0")
    s.admin("GET", s.path(t), show=[""])


def split_twice(s):
    """A sealed segment cannot be split."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/0")
    _ask(s, "POST", t, "/split/0")
    s.admin("GET", s.path(t), show=["epoch", "nextSegmentId"])


def split_wrong_segments(s):
    """Segments that do not exist, and ids that are no numbers."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/99")
    _ask(s, "POST", t, "/split/-1")
    for number in "x", "1.5", "99999999999999999999", "", "%20":
        s.admin("POST", s.path(t, f"/split/{number}"))
    s.admin("GET", s.path(t), show=["epoch"])


def split_to_the_end(s):
    """A segment of one hash cannot be split further."""
    t = s.scalable(1)
    for k in range(16):
        s.http("POST", s.path(t, f"/split/{max(0, 2 * k - 1)}"))
    s.admin("GET", s.path(t), show=["epoch", "segments.31.hashRange"])
    _ask(s, "POST", t, "/split/31")
    s.admin("GET", s.path(t), show=["epoch", "nextSegmentId"])


def split_odd_range(s):
    """The ranges of the children of segments whose width is odd."""
    t = s.scalable(3)
    _ask(s, "POST", t, "/split/0")
    _ask(s, "POST", t, "/split/2")
    s.admin("GET", s.path(t), show=[f"segments.{i}.hashRange" for i in range(3, 7)])


def split_with_a_policy(s):
    """maxSegments, maxDagDepth and enabled=false do not limit splits by hand."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/autoScalePolicy", {"enabled": False, "maxSegments": 1, "maxDagDepth": 1})
    _ask(s, "POST", t, "/split/0")
    _ask(s, "POST", t, "/split/1")
    s.admin("GET", s.path(t), show=["epoch"])


def merge(s):
    """A merge and the metadata after it."""
    t = s.scalable(2)
    _ask(s, "POST", t, "/merge/0/1")
    s.admin("GET", s.path(t), show=[""])


def merge_wrong_segments(s):
    """Neighbours that are none, one segment twice, missing segments, words."""
    t = s.scalable(3)
    for pair in "0/2", "2/0", "1/1", "0/9", "9/0", "8/9", "-1/0":
        _ask(s, "POST", t, f"/merge/{pair}")
    for pair in "0", "a/b", "0/1/2":
        s.admin("POST", s.path(t, f"/merge/{pair}"))
    s.admin("GET", s.path(t), show=["epoch"])


def merge_sealed(s):
    """A merge with a sealed segment, and one that was done already."""
    t = s.scalable(2)
    _ask(s, "POST", t, "/split/0")
    _ask(s, "POST", t, "/merge/0/1")
    _ask(s, "POST", t, "/merge/3/1")
    _ask(s, "POST", t, "/merge/3/1")
    s.admin("GET", s.path(t), show=["epoch"])


def merge_different_widths(s):
    """A merge of neighbours of different widths."""
    t = s.scalable(2)
    _ask(s, "POST", t, "/split/0")
    _ask(s, "POST", t, "/merge/1/3")
    s.admin("GET", s.path(t), show=["segments.4"])


def rebucket(s):
    """A rebucket and the metadata after it."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/rebucket/0?bucketCount=6")
    s.admin("GET", s.path(t), show=[""])


def rebucket_same_count(s):
    """The number of entry buckets that the segment already has."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/rebucket/0?bucketCount=4")
    s.admin("GET", s.path(t), show=["epoch", "nextSegmentId"])


def rebucket_wrong_counts(s):
    """No number, 0, -1, 1025 and a word."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/rebucket/0")
    for count in 0, -1, 1025:
        _ask(s, "POST", t, f"/rebucket/0?bucketCount={count}")
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=x"))
    s.admin("GET", s.path(t), show=["epoch"])


def rebucket_limits(s):
    """1024 entry buckets and one."""
    t = s.scalable(2)
    _ask(s, "POST", t, "/rebucket/0?bucketCount=1024")
    _ask(s, "POST", t, "/rebucket/1?bucketCount=1")
    s.admin(
        "GET",
        s.path(t),
        show=["segments.2.entryBucketSplits.#", "segments.3.entryBucketSplits", "segments.3.parentIds"],
    )


def rebucket_wrong_segments(s):
    """A sealed segment, one that does not exist, and a word."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/rebucket/0?bucketCount=2")
    _ask(s, "POST", t, "/rebucket/0?bucketCount=2")
    _ask(s, "POST", t, "/rebucket/9?bucketCount=2")
    s.admin("POST", s.path(t, "/rebucket/x?bucketCount=2"))


def subscription(s):
    """A subscription of each type; what the statistics show."""
    t = s.scalable(2)
    _ask(s, "PUT", t, "/subscriptions/a")
    _ask(s, "PUT", t, "/subscriptions/b?type=QUEUE")
    _ask(s, "PUT", t, "/subscriptions/c?type=STREAM")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def subscription_with_a_backlog(s):
    """Subscriptions that are created after messages were sent begin with the first message."""
    t = s.scalable(1)
    p = s.connect("p")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0", "m1")
    for path in (
        s.path(t, "/subscriptions/a"),
        s.path(t, "/subscriptions/b?type=QUEUE"),
        s.path(g, "/subscription/c"),
    ):
        s.admin("PUT", path)
    for name in "a", "b", "c":
        s.admin("GET", s.path(g, f"/subscription/{name}/backlog"), show=[""])


def stats_of_registered_consumers(s):
    """The statistics show registered consumers in the order of their names."""
    t = s.scalable(2)
    for c, name in zip(s.connect("c", "d", "e", "f"), ("z", "m", "B", "a"), strict=True):
        c.join(t, name)
    s.wait(0.6)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def stats_of_waiting_segments(s):
    """The statistics show the segments that stream consumers do not read yet, also without the subscription."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0")
    for number in 0, 1:
        s.admin("POST", s.path(t, f"/split/{number}"))
    c.join(t)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def stats_of_equal_names(s):
    """The statistics show queue consumers with one name once, also on the segments of a migrated topic."""
    u = s.topic("u")
    c, d = s.connect("c", "d")
    managed = [{"key": "__pulsar.v5.managed", "value": "true"}]
    c.subscribe(u, type="Shared", name="q-seg-0", metadata=managed)
    s.admin("POST", s.path(u.replace("persistent:", "topic:"), "/migrate"))
    t = u.replace("persistent:", "topic:")
    g = s.segment(t, 1)
    c.subscribe(g, type="Shared", id=2, name="q-seg-1")
    d.subscribe(g, type="Shared", name="q-seg-1")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def subscription_twice(s):
    """The same subscription again, and with the other type."""
    t = s.scalable(1)
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.type"])
    _ask(s, "PUT", t, "/subscriptions/a?type=STREAM")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.type"])


def subscription_of_a_wrong_type(s):
    """A type that does not exist, in lower case, and an empty one."""
    t = s.scalable(1)
    for kind in "FOO", "stream", "", "CHECKPOINT":
        s.admin("PUT", s.path(t, f"/subscriptions/a?type={kind}"), show=[""])
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def subscription_hostile_names(s):
    """Names with a slash, a space, a colon, and a long one."""
    t = s.scalable(1)
    for name in "a%2Fb", "a%20b", "a:b", "..", "%C3%A4", "__x", "n" * 200:
        _ask(s, "PUT", t, f"/subscriptions/{name}")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.#"])
    s.did(("", f"names {sorted(s.http('GET', s.path(t, '/stats'))[1]['subscriptions'])}"))
    s.settle()


def subscription_after_split(s):
    """A subscription made after a split exists on the active segments only."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/0")
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def subscription_before_split(s):
    """A subscription made before a split is copied to the children."""
    t = s.scalable(1)
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    _ask(s, "POST", t, "/split/0")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def unsubscribe(s):
    """DELETE of a subscription, again, and of one that never was."""
    t = s.scalable(2)
    _ask(s, "PUT", t, "/subscriptions/a")
    _ask(s, "DELETE", t, "/subscriptions/a")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])
    _ask(s, "DELETE", t, "/subscriptions/a")
    _ask(s, "DELETE", t, "/subscriptions/never")


def unsubscribe_with_a_consumer(s):
    """DELETE of a subscription with a consumer on the segment."""
    t = s.scalable(1)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0), type="Shared")
    c.flow(10)
    _ask(s, "DELETE", t, "/subscriptions/sub")
    s.wait(0.6)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def seek(s):
    """Seek to the start and to a time in the future, with a backlog."""
    t = s.scalable(1)
    p = s.connect("p")
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    p.producer(s.segment(t, 0))
    p.send("m0", "m1")
    _ask(s, "POST", t, "/subscriptions/a/skip-all")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.msgBacklog"])
    _ask(s, "POST", t, "/subscriptions/a/seek?timestamp=1")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.msgBacklog"])
    _ask(s, "POST", t, "/subscriptions/a/seek?timestamp=99999999999999")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.msgBacklog"])


def seek_wrong(s):
    """A missing subscription, no time, a word, a negative time."""
    t = s.scalable(1)
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    _ask(s, "POST", t, "/subscriptions/none/seek?timestamp=1")
    _ask(s, "POST", t, "/subscriptions/a/seek")
    _ask(s, "POST", t, "/subscriptions/a/seek?timestamp=-1")
    s.admin("POST", s.path(t, "/subscriptions/a/seek?timestamp=x"))
    _ask(s, "POST", t, "/subscriptions/none/skip-all")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.none", "subscriptions.a.msgBacklog"])


def skip_all_after_split(s):
    """skip-all with a backlog on a sealed segment."""
    t = s.scalable(1)
    p = s.connect("p")
    _ask(s, "PUT", t, "/subscriptions/a?type=QUEUE")
    p.producer(s.segment(t, 0))
    p.send("m0", "m1")
    _ask(s, "POST", t, "/split/0")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.msgBacklog", "subscriptions.a.segments"])
    _ask(s, "POST", t, "/subscriptions/a/skip-all")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.a.msgBacklog", "subscriptions.a.segments"])


def policy(s):
    """The policy of a topic: none, set, replaced, removed twice."""
    t = s.scalable(1)
    path = s.path(t, "/autoScalePolicy")
    s.admin("GET", path, show=[""])
    s.admin("POST", path, ALL, show=["reason"])
    s.admin("GET", path, show=[""])
    s.admin("POST", path, {"maxSegments": 5})
    s.admin("GET", path, show=[""])
    s.admin("DELETE", path)
    s.admin("GET", path, show=[""])
    s.admin("DELETE", path, show=["reason"])


def policy_in_statistics(s):
    """The statistics show the values in force: of the broker, the namespace and the topic."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    s.admin("GET", s.path(t, "/stats"), show=["autoScale"])
    s.admin("POST", f"/admin/v2/namespaces/{ns}/scalableTopicAutoScalePolicy", {"maxSegments": 9, "minSegments": 2})
    s.wait(0.6)
    s.admin("GET", s.path(t, "/stats"), show=["autoScale.policy.maxSegments", "autoScale.policy.minSegments"])
    _ask(s, "POST", t, "/autoScalePolicy", {"maxSegments": 7})
    s.wait(0.6)
    s.admin("GET", s.path(t, "/stats"), show=["autoScale.policy.maxSegments", "autoScale.policy.minSegments"])
    s.admin("GET", s.path(t), show=["autoScalePolicy"])


def policy_odd_bodies(s):
    """No body, an empty object, an unknown field, a list, and a word where a number belongs."""
    path = s.path(s.scalable(1), "/autoScalePolicy")
    s.admin("POST", path, show=["reason"])
    s.admin("GET", path, show=[""])
    s.admin("POST", path, {})
    s.admin("GET", path, show=[""])
    s.admin("POST", path, {"unknown": 1, "maxSegments": 3})
    s.admin("GET", path, show=[""])
    s.admin("POST", path, [1])
    s.admin("POST", path, {"maxSegments": "many"})
    s.admin("POST", path, {"maxSegments": "4"})
    s.admin("POST", path, {"maxSegments": 4.7})
    s.admin("GET", path, show=[""])


def policy_wrong_values(s):
    """Values of a topic's policy that are refused, one by one."""
    path = s.path(s.scalable(1), "/autoScalePolicy")
    for body in BAD_POLICIES:
        s.admin("POST", path, body, show=["reason"])
    s.admin("GET", path, show=[""])


def policy_of_a_namespace(s):
    """The policy of a namespace: none, set, replaced, removed twice."""
    path = f"/admin/v2/namespaces/{s.namespace()}/scalableTopicAutoScalePolicy"
    s.admin("GET", path, show=[""])
    s.admin("POST", path, ALL, show=["reason"])
    s.admin("GET", path, show=[""])
    s.admin("POST", path, {"maxSegments": 5})
    s.admin("GET", path, show=[""])
    s.admin("DELETE", path)
    s.admin("GET", path, show=[""])
    s.admin("DELETE", path, show=["reason"])


def policy_of_a_namespace_wrong_values(s):
    """The same refused values for a namespace."""
    path = f"/admin/v2/namespaces/{s.namespace()}/scalableTopicAutoScalePolicy"
    for body in BAD_POLICIES:
        s.admin("POST", path, body, show=["reason"])
    s.admin("GET", path, show=[""])


def policy_of_a_missing_namespace(s):
    """A namespace and a tenant that do not exist."""
    for ns in "public/missing-at-all", "missing/missing":
        for method, body in ("GET", None), ("POST", {"maxSegments": 5}), ("DELETE", None):
            s.admin(method, f"/admin/v2/namespaces/{ns}/scalableTopicAutoScalePolicy", body, show=["reason"])


def permissions(s):
    """Permissions of a topic: none, granted, granted again, revoked twice."""
    t = s.scalable(1)
    s.admin("GET", s.path(t, "/permissions"), show=[""])
    _ask(s, "POST", t, "/permissions/role", ["produce", "consume"])
    s.admin("GET", s.path(t, "/permissions"), show=["#"])
    _ask(s, "POST", t, "/permissions/role", ["consume"])
    s.admin("GET", s.path(t, "/permissions"), show=[""])
    _ask(s, "POST", t, "/permissions/role", ["unknown"])
    _ask(s, "DELETE", t, "/permissions/role")
    s.admin("GET", s.path(t, "/permissions"), show=[""])
    _ask(s, "DELETE", t, "/permissions/role")
    _ask(s, "DELETE", t, "/permissions/never")


def migrate(s):
    """A classic topic, and the metadata after it."""
    t = s.topic()
    s.admin("PUT", s.path(t))
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "POST", u, "/migrate")
    s.admin("GET", s.path(u), show=[""])


def migrate_partitions(s):
    """A classic topic of three partitions."""
    t = s.topic()
    s.admin("PUT", s.path(t, "/partitions"), 3)
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "POST", u, "/migrate")
    s.admin("GET", s.path(u), show=[""])


def migrate_twice(s):
    """A topic that was migrated, and one that was scalable from the start."""
    t = s.topic()
    s.admin("PUT", s.path(t))
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "POST", u, "/migrate")
    _ask(s, "POST", u, "/migrate")
    _ask(s, "POST", u, "/migrate?force=true")
    _ask(s, "POST", s.scalable(1, "v"), "/migrate")


def migrate_with_clients(s):
    """With old clients it is refused; with force they are told, and a new producer is refused."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("m0")
    c.subscribe(t, initialPosition="Earliest")
    c.flow(10)
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "POST", u, "/migrate")
    _ask(s, "POST", u, "/migrate?force=true")
    s.wait(0.6)
    p.producer(t, id=2)
    c.PARTITIONED_METADATA(topic=t)
    c.subscribe(t, id=2, sub="other")


def migrate_a_session(s):
    """A session of the classic topic gets the DAG of the migrated one."""
    t = s.topic()
    s.admin("PUT", s.path(t, "/partitions"), 2)
    c = s.connect("c")
    c.dag(t)
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "POST", u, "/migrate")
    s.wait(0.6)


def migrate_with_subscriptions(s):
    """Subscriptions of the classic topic are those of the new segments."""
    t = s.topic()
    s.admin("PUT", s.path(t))
    p = s.connect("p")
    s.admin("PUT", s.path(t, "/subscription/sub"), show=["reason"])
    p.producer(t)
    p.send("m0")
    p.CLOSE_PRODUCER(producer_id=1)
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    _ask(s, "POST", u, "/migrate")
    s.admin("GET", s.path(u, "/stats"), show=["subscriptions"])


def stats(s):
    """The statistics of an idle topic."""
    t = s.scalable(2)
    s.admin("GET", s.path(t, "/stats"), show=[""])


def stats_with_clients(s):
    """The statistics with a producer, a queue consumer and a stream consumer."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 0))
    p.send("m0", "m1", "m2")
    c.subscribe(s.segment(t, 0), sub="qu", type="Shared", name="q1-seg-0", initialPosition="Earliest")
    c.flow(2)
    d.join(t, "s1", sub="st")
    d.subscribe(s.segment(t, 0), sub="st", name="s1-seg-0", initialPosition="Earliest")
    d.flow(1)
    s.admin("GET", s.path(t, "/stats"), show=["producers", "subscriptions"])
    d.leave()
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.st.type", "subscriptions.st.consumers"])


def stats_after_split(s):
    """The layout in the statistics after a split and a merge."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/0")
    s.admin("GET", s.path(t, "/stats"), show=["layout", "autoScale.lastSplitAt", "autoScale.lastMergeAt"])
    _ask(s, "POST", t, "/merge/1/2")
    s.admin("GET", s.path(t, "/stats"), show=["layout.lastOperation", "layout.epoch", "autoScale.lastMergeAt"])
    _ask(s, "POST", t, "/rebucket/3?bucketCount=2")
    s.admin("GET", s.path(t, "/stats"), show=["layout.lastOperation", "autoScale.lastRebucketAt"])


def stats_after_a_failure(s):
    """A refused split in the statistics."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/5")
    s.admin("GET", s.path(t, "/stats"), show=["layout.lastOperation"])
    _ask(s, "POST", t, "/merge/0/0")
    s.admin("GET", s.path(t, "/stats"), show=["layout.lastOperation"])
    _ask(s, "POST", t, "/rebucket/0?bucketCount=0")
    s.admin("GET", s.path(t, "/stats"), show=["layout.lastOperation"])


def segment_stats(s):
    """The statistics of one segment, idle and with clients."""
    t = s.scalable(2)
    s.admin("GET", s.path(t, "/segments/0/stats"), show=[""])
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    p.send("m0", "m1")
    c.subscribe(s.segment(t, 0), type="Shared", initialPosition="Earliest")
    c.flow(1)
    s.admin("GET", s.path(t, "/segments/0/stats"), show=[""])


def segment_stats_of_a_sealed_segment(s):
    """The statistics of a sealed segment and of its child."""
    t = s.scalable(1)
    _ask(s, "POST", t, "/split/0")
    s.admin("GET", s.path(t, "/segments/0/stats"), show=[""])
    s.admin("GET", s.path(t, "/segments/1/stats"), show=[""])


def segment_stats_of_wrong_segments(s):
    """Segments that do not exist, and words."""
    t = s.scalable(1)
    _ask(s, "GET", t, "/segments/9/stats")
    _ask(s, "GET", t, "/segments/-1/stats")
    s.admin("GET", s.path(t, "/segments/x/stats"))
    s.admin("GET", s.path(t, "/segments//stats"))


def segment_create(s):
    """PUT of a segment: one of the layout, one that is not in it, one of a topic that does not exist."""
    t = s.scalable(1)
    g = t.replace("topic://", "segment://")
    _ask(s, "PUT", f"{g}/0000-ffff-0", "", [])
    _ask(s, "PUT", f"{g}/0000-ffff-9", "", ["sub"])
    _ask(s, "GET", f"{g}/0000-ffff-9", "/subscription/sub/backlog")
    _ask(s, "PUT", f"{g}x/0000-ffff-0", "", [])
    s.admin("GET", s.path(t), show=["segments.#"])
    _ask(s, "DELETE", f"{g}/0000-ffff-9")
    _ask(s, "DELETE", f"{g}x/0000-ffff-0")


def segment_bad_descriptors(s):
    """Descriptors that cannot be read."""
    g = s.scalable(1).replace("topic://", "segment://")
    for descriptor in "zz", "0000-ffff", "0000-ffff-x", "ffff-0000-0", "0000-fffff-0", "0-ffff-0", "0000-FFFF-0":
        _ask(s, "PUT", f"{g}/{descriptor}", "", [])
        _ask(s, "POST", f"{g}/{descriptor}", "/terminate")
        _ask(s, "DELETE", f"{g}/{descriptor}")


def segment_create_odd_bodies(s):
    """PUT of a segment without a body, with an object and with a number."""
    g = s.scalable(1).replace("topic://", "segment://") + "/0000-ffff-9"
    s.admin("PUT", s.path(g), show=["reason"])
    s.admin("PUT", s.path(g), {})
    s.admin("PUT", s.path(g), 3)
    _ask(s, "DELETE", g)


def segment_terminate(s):
    """A segment is terminated, twice; its producer is told. The layout does not change."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    _ask(s, "POST", g, "/terminate")
    p.producer(g, id=2)
    _ask(s, "POST", g, "/terminate")
    s.admin("GET", s.path(t), show=["segments.0.state"])


def segment_terminate_missing(s):
    """A segment and a topic that do not exist."""
    g = s.scalable(1).replace("topic://", "segment://")
    _ask(s, "POST", f"{g}/0000-ffff-9", "/terminate")
    _ask(s, "POST", f"{g}x/0000-ffff-0", "/terminate")


def segment_subscription(s):
    """A subscription of one segment: made twice, backlog, skip-all, seek, removed twice."""
    t = s.scalable(1)
    p = s.connect("p")
    g = s.segment(t, 0)
    _ask(s, "PUT", g, "/subscription/sub")
    _ask(s, "PUT", g, "/subscription/sub")
    p.producer(g)
    p.send("m0", "m1")
    s.admin("GET", s.path(g, "/subscription/sub/backlog"), show=[""])
    _ask(s, "POST", g, "/subscription/sub/skip-all")
    s.admin("GET", s.path(g, "/subscription/sub/backlog"), show=[""])
    _ask(s, "POST", g, "/subscription/sub/seek?timestamp=1")
    s.admin("GET", s.path(g, "/subscription/sub/backlog"), show=[""])
    _ask(s, "DELETE", g, "/subscription/sub")
    _ask(s, "GET", g, "/subscription/sub/backlog")
    _ask(s, "DELETE", g, "/subscription/sub")


def segment_subscription_wrong(s):
    """Operations on a subscription that does not exist."""
    g = s.segment(s.scalable(1), 0)
    _ask(s, "PUT", g, "/subscription/sub")
    _ask(s, "GET", g, "/subscription/none/backlog")
    _ask(s, "POST", g, "/subscription/none/skip-all")
    _ask(s, "POST", g, "/subscription/none/seek?timestamp=1")
    _ask(s, "POST", g, "/subscription/sub/seek")
    s.admin("POST", s.path(g, "/subscription/sub/seek?timestamp=x"))
    _ask(s, "DELETE", g, "/subscription/none")


def segment_subscription_of_a_missing_segment(s):
    """Operations on a subscription of a segment that does not exist."""
    g = s.scalable(1).replace("topic://", "segment://") + "/0000-ffff-9"
    _ask(s, "GET", g, "/subscription/sub/backlog")
    _ask(s, "POST", g, "/subscription/sub/skip-all")
    _ask(s, "POST", g, "/subscription/sub/seek?timestamp=1")
    _ask(s, "DELETE", g, "/subscription/sub")
    _ask(s, "PUT", g, "/subscription/sub")
    _ask(s, "GET", g, "/subscription/sub/backlog")
    _ask(s, "DELETE", g)


def segment_delete(s):
    """DELETE of a segment of the layout, and again: what remains of the topic."""
    t = s.scalable(2)
    g = s.segment(t, 0)
    _ask(s, "DELETE", g)
    _ask(s, "DELETE", g)
    s.admin("GET", s.path(t), show=["epoch", "segments.#"])
    p = s.connect("p")
    p.producer(g)


def segment_delete_with_a_producer(s):
    """DELETE of a segment with a producer, without and with force."""
    t = s.scalable(1)
    p = s.connect("p")
    g = s.segment(t, 0)
    p.producer(g)
    _ask(s, "DELETE", g)
    p.send("m0")
    _ask(s, "DELETE", g, "?force=true")
    s.wait(0.6)
