"""Valid and invalid bytes after the SEND command, and the checks that read them."""


def _producer(s, domain="persistent", ns="public/default", **kw):
    t = s.topic(domain=domain, ns=ns)
    p = s.connect("p")
    p.producer(t, **kw)
    return t, p


def one_byte(s):
    """After an entry of one byte, the broker closes the connection."""
    _t, p = _producer(s)
    p.send("e", entry=b"x")


def two_bytes(s):
    """The broker stores an entry of two bytes."""
    _t, p = _producer(s)
    p.send("e", entry=b"xy")


def half_a_checksum(s):
    """After a truncated checksum section, the broker closes the connection."""
    _t, p = _producer(s)
    p.send("e", entry=b"\x0e\x01\0\0\0")


def garbage_where_it_must_be_read(s):
    """If encryption is required, invalid metadata closes the connection."""
    import wire

    _t, p = _producer(s, ns=s.namespace(encryptionRequired=True), encrypted=True)
    p.send("e", entry=wire.entry(b"\xff\xff\xff", b"x"))


def garbage_and_deduplication(s):
    """Deduplication reads the metadata of chunks only."""
    import wire

    _t, p = _producer(s, ns=s.namespace(deduplication=True))
    p.send("e", entry=wire.entry(b"\xff\xff\xff", b"x"))
    p.send("f", entry=wire.entry(b"\xff\xff\xff", b"x"), is_chunk=True)


def unencrypted(s):
    """If encryption is required, an entry without keys causes MetadataError with its highest sequence id."""
    _t, p = _producer(s, ns=s.namespace(encryptionRequired=True), encrypted=True)
    p.send("x")
    p.send("y", highest=12, seq=10)
    p.send("z", highest=9, seq=10)


def delay_too_long(s):
    """A delay longer than maxDeliveryDelayInMillis causes NotAllowedError."""
    ns = s.namespace()
    _t, p = _producer(s, ns=ns)
    body = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 5000}
    s.admin("POST", f"/admin/v2/namespaces/{ns}/delayedDelivery", body)
    s.wait(1)
    p.send("near", publish_time=1700000000000, deliver_at_time=1700000005000)
    p.send("far", publish_time=1700000000000, deliver_at_time=1700000005001)


def chunks_and_the_topics_limit(s):
    """The topic's maxMessageSize does not apply to chunks."""
    t, p = _producer(s)
    s.policy(t, "maxMessageSize", 100)
    p.send("x" * 200, is_chunk=True, uuid="p1-0", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=400)
    p.send("y" * 200)


def marker_flag_and_deduplication(s):
    """The marker flag of SEND excludes a message from deduplication; a marker_type without it does not."""
    _t, p = _producer(s, ns=s.namespace(deduplication=True))
    p.send("m0", seq=5)
    p.send("flag", seq=5, marker=True)
    p.send("both", seq=5, marker=True, marker_type=10)
    p.send("type", seq=5, marker_type=10)
    p.send("m9", seq=9, marker=True)
    p.send("m8", seq=8)


def chunk_in_statistics(s):
    """msgChunkPublished is false until the rates are measured."""
    t, p = _producer(s)
    p.send("m", is_chunk=True, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=4, chunk_id=0)
    s.admin("GET", s.path(t, "/stats"), show=["msgInCounter", "msgChunkPublished"])
