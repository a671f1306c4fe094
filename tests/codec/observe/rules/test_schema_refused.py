"""Rule schema-refused: PRODUCER, ERROR IncompatibleSchema."""


def test_an_incompatible_schema(evaluate, producer, counted):
    [found] = evaluate("schema-refused", producer(refused={"IncompatibleSchema": counted(1, 20, 21, sample="no\x1b")}))
    assert (found.severity, found.culprit, found.certainty, found.frames) == (
        "error",
        "application",
        "certain",
        [20, 21],
    )
    assert "no\\x1b" in found.what


def test_it_succeeded_later(evaluate, producer, counted):
    [found] = evaluate("schema-refused", producer(refused={"IncompatibleSchema": counted(1, 2, first=0.5)}))
    assert (found.severity, "frame 6" in found.opposite) == ("note", True)


def test_other_errors(evaluate, producer, counted):
    assert evaluate("schema-refused", producer(refused={"ProducerBusy": counted(1, 2)})) == []


def test_captures(diagnosed):
    found = diagnosed("python/09-schemas", "schema-refused")
    assert sorted(one.frames for one in found) == [[137, 139], [220, 221], [233, 234]]
    assert len(diagnosed("java/schema-incompatible", "schema-refused")) == 1
    assert diagnosed("java/schemas", "schema-refused") == []
