"""Errors of syntax: the texts and positions of a real 4.2.4 (requests to set the deduplication of a namespace)."""

from __future__ import annotations

import pytest

from pcli.minibroker.policies.java_types import BOOLEAN, INT, STRING_LIST, STRING_MAP, EmptyBodyError, convert
from pcli.minibroker.policies.json_parser import JsonError
from pcli.minibroker.policies.policy_types import DELAYED_DELIVERY

KNOWN = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
SOURCE = "Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "


@pytest.mark.parametrize(
    ("text", "kind", "error", "place"),
    [
        ("nonsense", BOOLEAN, f"Unrecognized token 'nonsense': was expecting {KNOWN}", (1, 9)),
        ("NaN", INT, f"Unrecognized token 'NaN': was expecting {KNOWN}", (1, 4)),
        ("{", DELAYED_DELIVERY, "Unexpected end-of-input: expected close marker for Object", (1, 2)),
        ('{"a"', DELAYED_DELIVERY, "Unexpected end-of-input within/between Object entries", (1, 5)),
        ('{"a":5,}', DELAYED_DELIVERY, "Unexpected character ('}' (code 125)): was expecting double-quote", (1, 8)),
        ("5 6", INT, "Trailing token (of type VALUE_NUMBER_INT) found after value (bound as `int`)", (1, 3)),
        ('["x"', STRING_LIST, "Unexpected end-of-input: expected close marker for Array", (1, 5)),
        (
            '{\n  "tickTime" : {}\n}',
            DELAYED_DELIVERY,
            "Cannot deserialize value of type `long` from Object value",
            (2, 16),
        ),
        ('{"unknown":"é",  "tickTime":[[]]}', DELAYED_DELIVERY, "Cannot deserialize value of type `long`", (1, 30)),
        ('{"a":{}}', STRING_MAP, "Cannot deserialize value of type `java.lang.String` from Object value", (1, 6)),
    ],
)
def test_errors(text, kind, error, place):
    with pytest.raises(JsonError) as raised:
        convert(text.encode(), kind)
    assert raised.value.what.startswith(error)
    assert raised.value.place == f"{SOURCE}line: {place[0]}, column: {place[1]}"


def test_the_path_to_the_value():
    with pytest.raises(JsonError) as raised:
        convert(b'["x", []]', STRING_LIST)
    assert raised.value.full.endswith("(through reference chain: java.util.ArrayList[1])")


def test_no_body():
    """It is null for an object, and an error for a primitive type."""
    assert convert(b" ", DELAYED_DELIVERY) is None
    with pytest.raises(EmptyBodyError):
        convert(b"", INT)


@pytest.mark.parametrize(("text", "value"), [('"\\u00e9\\n\\""', 'é\n"'), ("1.5", "1.5"), ("true", "true")])
def test_strings(text, value):
    assert convert(f"[{text}]".encode(), STRING_LIST) == [value]


def test_unknown_fields_are_skipped():
    text = b'{ "x" : [ 1 , {"y": "}"} ] , "tickTime" : 5 }'
    assert convert(text, DELAYED_DELIVERY) == {"tickTime": 5, "active": False, "maxDeliveryDelayInMillis": 0}
