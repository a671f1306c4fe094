"""Schemas: what the shared scenarios leave open."""

STRING = {"name": "s", "type": "String", "schema_data": b""}


def none_is_passed_on(s):
    """A schema of type None is registered by PRODUCER, and asked for with GET_OR_CREATE_SCHEMA is no schema."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t, schema={"name": "s", "type": "None", "schema_data": b""})
    c.GET_SCHEMA(topic=t)
    c.GET_OR_CREATE_SCHEMA(topic=t, schema={"name": "s", "type": "None", "schema_data": b""})


def enforced(s):
    """Validation enforced: without a schema no producer gets in where there is one."""
    t = s.topic(ns=s.namespace(schemaValidationEnforced=True))
    c = s.connect("c")
    c.producer(t, schema=STRING)
    c.producer(t, id=2)


def versions(s):
    """A version that does not exist; one of nine bytes; one of -1."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t, schema=STRING)
    c.GET_SCHEMA(topic=t, schema_version=b"\0\0\0\0\0\0\0\x07")
    c.GET_SCHEMA(topic=t, schema_version=b"\0\0\0\0\0\0\0\0\x01")
    c.GET_SCHEMA(topic=t, schema_version=b"\xff" * 8)


def bad_name(s):
    """GET_OR_CREATE_SCHEMA of a name that is none costs the connection."""
    c = s.connect("c")
    c.GET_OR_CREATE_SCHEMA(topic="persistent://a/b", schema=STRING)


def deleted_with_the_topic(s):
    """The topic takes its schema along."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t, schema=STRING)
    s.admin("DELETE", s.path(t, "?force=true"))
    c.GET_SCHEMA(topic=t)
    s.look_up(t)
    c.producer(t, id=2, schema={"name": "s", "type": "Int32", "schema_data": b""})


def auto_consume_says_nothing(s):
    """A consumer that takes any schema does not count as one without: the next one's is registered."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t, "a", id=1, schema={"name": "s", "type": "AutoConsume", "schema_data": b""})
    c.subscribe(t, "b", id=2, schema=STRING)
    c.GET_SCHEMA(topic=t)


def a_consumer_without_a_schema_does(s):
    """A consumer without a schema does: then one with a schema is refused."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t, "a", id=1)
    c.subscribe(t, "b", id=2, schema=STRING)
