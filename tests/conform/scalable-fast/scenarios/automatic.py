"""Automatic splits and merges, with a tick of two seconds and rates over four seconds."""

KEEP = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10}
RATES = {
    "splitMsgRateInThreshold": 5,
    "splitMsgRateOutThreshold": 5,
    "splitBytesRateInThreshold": 1000,
    "splitBytesRateOutThreshold": 1000,
    "mergeMsgRateInThreshold": 1,
    "mergeMsgRateOutThreshold": 1,
    "mergeBytesRateInThreshold": 1,
    "mergeBytesRateOutThreshold": 1,
}
NEVER = {name: 10**9 for name in RATES if name.startswith("split")}


def _policy(s, topic, **values):
    s.admin("POST", s.path(topic, "/autoScalePolicy"), {"splitCooldownSeconds": 0, "mergeCooldownSeconds": 0, **values})


def _split_when(limit):
    """Thresholds of which only one can be reached."""
    return {**RATES, **NEVER, limit: RATES[limit], "minSegments": 2, "maxSegments": 2}


def _layout(s, topic, *more):
    s.admin("GET", s.path(topic, "/stats"), show=["layout.epoch", "layout.lastOperation", *more])


def _topic(s, segments=1):
    """A topic with a controller in a namespace that keeps sealed segments."""
    t = s.scalable(segments, ns=s.namespace(retention=KEEP))
    s.admin("GET", s.path(t, "/stats"))
    return t


def split_by_messages(s):
    """A split by the rate of messages in: the producer is closed, and sessions are told."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    _policy(s, t, **_split_when("splitMsgRateInThreshold"))
    c.dag(t)
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    _layout(s, t, "autoScale.lastSplitAt")


def split_by_bytes(s):
    """A split by the rate of bytes in."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    _policy(s, t, **_split_when("splitBytesRateInThreshold"))
    c.dag(t)
    p.producer(s.segment(t, 0))
    p.send("x" * 20000)
    s.wait(10)
    _layout(s, t)


def split_by_messages_out(s):
    """A split by the rate of messages out."""
    t = _topic(s)
    p, c, d = s.connect("p", "c", "d")
    _policy(s, t, **_split_when("splitMsgRateOutThreshold"))
    c.dag(t)
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(1)
    d.subscribe(s.segment(t, 0), type="Shared", initialPosition="Earliest")
    d.flow(100)
    s.wait(10)
    _layout(s, t)


def no_split_below_the_rates(s):
    """One message is not enough."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    _policy(s, t, **_split_when("splitMsgRateInThreshold"))
    c.dag(t)
    p.producer(s.segment(t, 0))
    p.send("m0")
    s.wait(10)
    _layout(s, t)


def no_split_when_disabled(s):
    """With enabled=false the layout stays."""
    t = _topic(s)
    p = s.connect("p")
    _policy(s, t, enabled=False, **_split_when("splitMsgRateInThreshold"))
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    _layout(s, t, "autoScale.blockedReason")


def no_split_beyond_the_number_of_segments(s):
    """maxSegments is reached."""
    t = _topic(s)
    p = s.connect("p")
    _policy(s, t, **{**_split_when("splitMsgRateInThreshold"), "minSegments": 1, "maxSegments": 1})
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    _layout(s, t)


def no_split_in_the_cool_down(s):
    """After a split by hand, splitCooldownSeconds is not over."""
    t = _topic(s)
    p = s.connect("p")
    s.admin("POST", s.path(t, "/split/0"))
    limits = {**_split_when("splitMsgRateInThreshold"), "maxSegments": 9, "splitCooldownSeconds": 1000}
    _policy(s, t, **limits)
    p.producer(s.segment(t, 1))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    _layout(s, t)


def _split_at_depth(s, limit, splits):
    t = _topic(s)
    p = s.connect("p")
    for number in splits:
        s.admin("POST", s.path(t, f"/split/{number}"))
    _policy(s, t, **{**_split_when("splitMsgRateInThreshold"), "maxSegments": 9, "maxDagDepth": limit})
    p.producer(s.segment(t, splits[-1] + 2 if splits else 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    _layout(s, t)


def split_with_depth_0(s):
    """maxDagDepth does not limit splits: 0, and a segment without parents."""
    _split_at_depth(s, 0, ())


def split_with_depth_2(s):
    """maxDagDepth does not limit splits: 2, and a segment with three generations of parents."""
    _split_at_depth(s, 2, (0, 1, 3))


def no_split_without_a_controller(s):
    """Nobody asked for a controller: no split, whatever the rates."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    _policy(s, t, **_split_when("splitMsgRateInThreshold"))
    c.dag(t)
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)


def split_by_the_policy_of_the_namespace(s):
    """The thresholds of the namespace."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    ns = t.split("/")[2] + "/" + t.split("/")[3]
    body = {"splitCooldownSeconds": 0, **_split_when("splitMsgRateInThreshold")}
    s.admin("POST", f"/admin/v2/namespaces/{ns}/scalableTopicAutoScalePolicy", body)
    c.dag(t)
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    _layout(s, t)


def split_under_a_stream_consumer(s):
    """A split under a stream consumer, which then gets the children."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    c.join(t)
    c.subscribe(s.segment(t, 0), id=2, name="c-seg-0")
    _policy(s, t, **_split_when("splitMsgRateInThreshold"))
    p.producer(s.segment(t, 0))
    p.send(*[f"m{i}" for i in range(60)])
    s.wait(10)
    c.flow(100, id=2)
    c.ack(c.received(2)[-1], id=2, cumulative=True)
    s.wait(12)


def merge(s):
    """Two cold segments are merged after the window."""
    t = _topic(s, 2)
    c = s.connect("c")
    c.dag(t)
    _policy(s, t, mergeWindowSeconds=1)
    s.wait(9)
    _layout(s, t, "autoScale.lastMergeAt")


def merge_three(s):
    """Of three cold segments one pair is merged at a tick; which one, and when the rest."""
    t = _topic(s, 3)
    c = s.connect("c")
    c.dag(t)
    _policy(s, t, mergeWindowSeconds=1)
    s.wait(14)
    _layout(s, t)


def no_merge_below_the_number_of_segments(s):
    """minSegments is reached."""
    t = _topic(s, 2)
    _policy(s, t, mergeWindowSeconds=1, minSegments=2)
    s.wait(7)
    _layout(s, t)


def no_merge_in_the_cool_down(s):
    """After a merge by hand, mergeCooldownSeconds is not over."""
    t = _topic(s, 3)
    s.admin("POST", s.path(t, "/merge/0/1"))
    _policy(s, t, mergeWindowSeconds=1, mergeCooldownSeconds=1000)
    s.wait(7)
    _layout(s, t)


def _merge_at_depth(s, limit):
    t = _topic(s)
    for number in 0, 1, 3:
        s.admin("POST", s.path(t, f"/split/{number}"))
    _policy(s, t, mergeWindowSeconds=1, minSegments=3, maxDagDepth=limit)
    s.wait(9)
    _layout(s, t)


def merge_with_depth_0(s):
    """maxDagDepth 0: no merge."""
    _merge_at_depth(s, 0)


def merge_with_depth_1(s):
    """maxDagDepth counts merges: 1, and three generations of split segments."""
    _merge_at_depth(s, 1)


def _merge_again(s, limit):
    t = _topic(s, 3)
    s.admin("POST", s.path(t, "/merge/0/1"))
    _policy(s, t, mergeWindowSeconds=1, maxDagDepth=limit)
    s.wait(9)
    _layout(s, t)


def merge_again_with_depth_1(s):
    """maxDagDepth 1, and a segment that is the child of a merge."""
    _merge_again(s, 1)


def merge_again_with_depth_2(s):
    """maxDagDepth 2, and a segment that is the child of a merge."""
    _merge_again(s, 2)
