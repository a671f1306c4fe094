"""Rules about schemas that the shared scenarios do not cover."""

STRING = {"name": "s", "type": "String", "schema_data": b""}
BROKEN = {"name": "s", "type": "Avro", "schema_data": b"{"}


def none_is_passed_on(s):
    """PRODUCER registers a schema of type None; for GET_OR_CREATE_SCHEMA, that type is no schema."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t, schema={"name": "s", "type": "None", "schema_data": b""})
    c.GET_SCHEMA(topic=t)
    c.GET_OR_CREATE_SCHEMA(topic=t, schema={"name": "s", "type": "None", "schema_data": b""})


def consumer_of_a_used_non_persistent_topic(s):
    """After a message without schema, the schema of a consumer is refused although the producer has left."""
    t = s.topic(domain="non-persistent")
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("m0")
    p.CLOSE_PRODUCER(producer_id=1)
    c.subscribe(t, schema=STRING)


def enforced(s):
    """With schemaValidationEnforced, a producer without a schema is refused if the topic has one."""
    t = s.topic(ns=s.namespace(schemaValidationEnforced=True))
    c = s.connect("c")
    c.producer(t, schema=STRING)
    c.producer(t, id=2)


def versions(s):
    """GET_SCHEMA with an unknown version, a version of nine bytes, and the version -1."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t, schema=STRING)
    c.GET_SCHEMA(topic=t, schema_version=b"\0\0\0\0\0\0\0\x07")
    c.GET_SCHEMA(topic=t, schema_version=b"\0\0\0\0\0\0\0\0\x01")
    c.GET_SCHEMA(topic=t, schema_version=b"\xff" * 8)


def bad_name(s):
    """After GET_OR_CREATE_SCHEMA with an invalid topic name, the broker closes the connection."""
    c = s.connect("c")
    c.GET_OR_CREATE_SCHEMA(topic="persistent://a/b", schema=STRING)


def deleted_with_the_topic(s):
    """The schema is deleted together with its topic."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t, schema=STRING)
    s.admin("DELETE", s.path(t, "?force=true"))
    c.GET_SCHEMA(topic=t)
    s.look_up(t)
    c.producer(t, id=2, schema={"name": "s", "type": "Int32", "schema_data": b""})


def auto_consume_says_nothing(s):
    """After a consumer with AutoConsume, the next consumer's schema is registered."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t, "a", id=1, schema={"name": "s", "type": "AutoConsume", "schema_data": b""})
    c.subscribe(t, "b", id=2, schema=STRING)
    c.GET_SCHEMA(topic=t)


def a_consumer_without_a_schema_does(s):
    """After a consumer without a schema, a consumer with a schema is refused."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t, "a", id=1)
    c.subscribe(t, "b", id=2, schema=STRING)


def invalid_schema_of_a_consumer(s):
    """The schema of a consumer is not validated: on an unused topic it is ignored, otherwise its type is compared."""
    t, u = s.topic(), s.topic()
    c = s.connect("c")
    c.subscribe(t, "a", id=1, schema=BROKEN)
    c.GET_SCHEMA(topic=t)
    c.subscribe(t, "b", id=2, schema=BROKEN)
    c.producer(u, schema=STRING)
    c.subscribe(u, "a", id=3, schema=BROKEN)
