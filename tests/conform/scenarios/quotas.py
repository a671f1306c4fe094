"""Backlog quotas: values that REST accepts, and their relation to retention."""

PRODUCER = {"policy": "producer_exception"}
MEGABYTES = 5 * 1024 * 1024
BODIES = (
    {},
    {"limitSize": 10},
    PRODUCER,
    {"limit": 10, **PRODUCER},
    {"limitTime": 60, **PRODUCER},
    {"limitSize": 10, "limitTime": 5, "policy": "other"},
    {"limitSize": "x", **PRODUCER},
    {"limitSize": "12", "limitTime": "13", **PRODUCER},
    {"limitSize": 14.7, "limitTime": 1e30, **PRODUCER},
    {"limitSize": 14.7, "limitTime": None, **PRODUCER},
    {"limitSize": True, **PRODUCER},
    {"limitSize": "", **PRODUCER},
    [],
    "x",
    5,
    {"limitSize": 10, "unknown": 1, **PRODUCER},
    {"limitSize": -5, "limitTime": -7, "policy": "consumer_backlog_eviction"},
)


def _values(s, base):
    for body in BODIES:
        s.admin("POST", f"{base}/backlogQuota", body)
        s.admin("GET", f"{base}/backlogQuotaMap", show=[""])
    s.admin("POST", f"{base}/backlogQuota?backlogQuotaType=message_age", {"limitTime": 60, **PRODUCER})
    s.admin("POST", f"{base}/backlogQuota?backlogQuotaType=other", PRODUCER)
    s.admin("GET", f"{base}/backlogQuotaMap", show=[""])
    s.admin("DELETE", f"{base}/backlogQuota?backlogQuotaType=other")
    s.admin("DELETE", f"{base}/backlogQuota")
    s.admin("GET", f"{base}/backlogQuotaMap", show=[""])
    s.admin("DELETE", f"{base}/backlogQuota?backlogQuotaType=message_age")
    s.admin("GET", f"{base}/backlogQuotaMap", show=[""])


def _retention(s, base):
    time = {"limitSize": 0, "limitTime": 600, **PRODUCER}
    s.admin("POST", f"{base}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10})
    s.admin("GET", f"{base}/retention", until=bool)
    s.admin("POST", f"{base}/backlogQuota", {"limitSize": 4 * MEGABYTES, "limitTime": -1, **PRODUCER})
    s.admin("POST", f"{base}/backlogQuota", {"limitSize": MEGABYTES, "limitTime": 600, **PRODUCER})
    s.admin("POST", f"{base}/backlogQuota?backlogQuotaType=message_age", time)
    s.admin("DELETE", f"{base}/backlogQuota?backlogQuotaType=message_age")
    s.admin("POST", f"{base}/backlogQuota", {"limitSize": MEGABYTES, "limitTime": 599, **PRODUCER})
    s.admin("GET", f"{base}/backlogQuotaMap", show=[""], until=lambda answer: "destination_storage" in answer)
    for minutes, megabytes in ((5, 10), (50, 5), (50, 6), (0, 1), (1, 0), (-1, -1), (0, 0)):
        body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        s.admin("POST", f"{base}/retention", body)


def _create(s, t):
    p = s.connect("p")
    p.producer(t)
    p.CLOSE_PRODUCER(producer_id=1)


def of_a_namespace(s):
    """The quotas of a namespace, and those that apply to its topics."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    base = f"/admin/v2/namespaces/{ns}"
    _create(s, t)
    s.admin("GET", s.path(t, "/backlogQuotaMap"), show=[""])
    _values(s, base)
    s.admin("POST", f"{base}/backlogQuota?backlogQuotaType=message_age", {"limitTime": 60, **PRODUCER})
    s.admin("GET", s.path(t, "/backlogQuotaMap?applied=true"), show=[""])
    s.admin("DELETE", f"{base}/backlogQuota?backlogQuotaType=message_age")
    _retention(s, base)
    other = s.namespace()
    u = s.topic("u", ns=other)
    s.connect("q").producer(u)
    s.admin("GET", s.path(u, "/backlogQuotaMap?applied=true"), show=[""])


def of_a_topic(s):
    """The quotas of a topic."""
    t = s.topic(ns=s.namespace())
    _create(s, t)
    _values(s, s.path(t, ""))
    _retention(s, s.path(t, ""))


def of_nothing(s):
    """Namespaces and topics that do not exist."""
    s.topic()
    for base in ("/admin/v2/namespaces/public/missing", "/admin/v2/persistent/public/default/missing"):
        s.admin("POST", f"{base}/backlogQuota", {"limitSize": 5, **PRODUCER})
        s.admin("GET", f"{base}/backlogQuotaMap")
        s.admin("DELETE", f"{base}/backlogQuota")
