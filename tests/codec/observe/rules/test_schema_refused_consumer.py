"""Rule schema-refused-consumer: SUBSCRIBE, ERROR IncompatibleSchema."""


def test_an_incompatible_schema(evaluate, consumer, counted):
    [found] = evaluate("schema-refused-consumer", consumer(refused={"IncompatibleSchema": counted(1, 20, 21)}))
    assert (found.severity, found.culprit, found.frames) == ("error", "application", [20, 21])


def test_it_succeeded_later(evaluate, consumer, counted):
    [found] = evaluate("schema-refused-consumer", consumer(refused={"IncompatibleSchema": counted(1, 2, first=0.5)}))
    assert found.severity == "note"


def test_other_errors(evaluate, consumer, counted):
    assert evaluate("schema-refused-consumer", consumer(refused={"ConsumerBusy": counted(1, 2)})) == []


def test_captures(diagnosed):
    for name, count in (
        ("python/09-schemas", 2),
        ("java/schema-incompatible", 1),
        ("go/reader", 1),
        ("java/schemas", 0),
    ):
        assert len(diagnosed(name, "schema-refused-consumer")) == count
