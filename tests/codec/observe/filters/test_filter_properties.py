"""Filters compared with a naive evaluation of the JSON, and filters of arbitrary text."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.observe import compile_filter, find_field, flatten
from pcli.codec.observe.filters.parser import parse_filter
from pcli.codec.observe.filters.syntax_tree import (
    And,
    Call,
    Compare,
    FieldName,
    In,
    Literal,
    Not,
    Or,
    Present,
    Range,
    Xor,
    to_text,
)

# -- compared with a naive evaluation of the JSON


def frame_pool(small):
    facts = []
    for name in ("java/txn-commit", "python/02-batched-keys-properties", "java/refusals", "go/batch-index"):
        facts += small.facts(name)[:150]
    return facts


NAMES = (
    "pulsar.number", "pulsar.type", "pulsar.from", "pulsar.latency", "frame.time_epoch", "ip.src", "tcp.dstport",
    "pulsar.request_id", "pulsar.message_id", "pulsar.topic", "pulsar.producer_name", "pulsar.key", "pulsar.system",
    "pulsar.ack.message_id.entryId", "pulsar.ack.message_id.ack_set", "pulsar.subscribe.subType", "pulsar.batch",
    "pulsar.send.num_messages", "pulsar.metadata.publish_time", "pulsar.batch.partition_key", "pulsar.ack.message_id",
    "pulsar.batch.properties.key", "pulsar.error", "pulsar.connect.feature_flags.supports_auth_refresh",
    "pulsar.metadata.schema_version", "pulsar.producer_success.schema_version",
)  # fmt: skip


def values_in(flat, name):
    """Return every value of a field in a flat object, including those in arrays of objects."""
    if name in flat:
        value = flat[name]
        return value if isinstance(value, list) else [value]
    for key, value in flat.items():
        if name.startswith(f"{key}.") and isinstance(value, list):
            return [found for one in value for found in values_in(one, name[len(key) + 1 :])]
    return []


def naive(node, flat):
    """The rules of the language in a simple, slow form."""
    match node:
        case Not(of):
            return not naive(of, flat)
        case And(parts):
            return all(naive(part, flat) for part in parts)
        case Or(parts):
            return any(naive(part, flat) for part in parts)
        case Xor(parts):
            return sum(naive(part, flat) for part in parts) % 2 == 1
        case Present(of):
            return bool(values_in(flat, of.name))
        case In(of, items, quantifier):
            values = values_in(flat, of.name)
            inside = [any(naive_item(of.name, value, item) for item in items) for value in values]
            return bool(values) and (all(inside) if quantifier == "all" else any(inside))
        case Compare(sign, left, right, quantifier):
            values = values_in(flat, left.name)
            want_all = quantifier == "all" or (not quantifier and sign in ("!=", "==="))
            results = [naive_one(left.name, value, sign, right.text) for value in values]
            return bool(results) and (all(results) if want_all else any(results))


def naive_item(name, value, item):
    if isinstance(item, Range):
        return naive_one(name, value, ">=", item.low.text) and naive_one(name, value, "<=", item.high.text)
    return naive_one(name, value, "==", item.text)


def naive_one(name, value, sign, text):
    field = find_field(name)
    if sign == "contains":
        return text in value
    if sign == "matches":
        return re.search(text, value, re.IGNORECASE) is not None
    if field.element in ("number", "time", "duration"):
        one, two = Decimal(value), Decimal(text)
    elif field.element == "bool":
        one, two = value, text == "true"
    elif field.element == "address":
        one, two = ipaddress.ip_address(value), ipaddress.ip_address(text)
    elif field.element == "enum" and sign in ("<", "<=", ">", ">="):
        order = dict(field.words)
        one, two = order[value], order[text]
    else:
        one, two = value, text
    return {
        "==": one == two,
        "===": one == two,
        "!=": one != two,
        "!==": one != two,
        "<": sign == "<" and one < two,
        "<=": sign == "<=" and one <= two,
        ">": sign == ">" and one > two,
        ">=": sign == ">=" and one >= two,
    }[sign]


EQUALITY = ("==", "!=", "===", "!==")
ORDER = (*EQUALITY, "<", "<=", ">", ">=")


def judged(pool):
    """Return filters with values from the frames themselves, so that they match."""
    known = {}
    for facts in pool:
        flat = flatten(facts)
        for name in NAMES:
            known.setdefault(name, set()).update(
                str(value).lower() if isinstance(value, bool) else str(value)
                for value in values_in(flat, name)
                if not isinstance(value, dict) and value != ""
            )

    @st.composite
    def term(draw):
        name = draw(st.sampled_from([one for one in NAMES if known[one] or find_field(one).element == "message"]))
        element = find_field(name).element
        field = FieldName(name)
        if element == "message" or draw(st.integers(0, 5)) == 0:
            return Present(field)
        values = sorted(known[name])
        quoted = element == "text"

        def literal():
            return Literal(draw(st.sampled_from(values)), quoted=quoted)

        quantifier = draw(st.sampled_from(["", "", "any", "all"]))
        if draw(st.integers(0, 3)) == 0:
            items = tuple(
                Range(literal(), literal()) if element in ("number", "time") and draw(st.booleans()) else literal()
                for _ in range(draw(st.integers(1, 3)))
            )
            return In(field, items, quantifier)
        signs = EQUALITY if element in ("bool", "address", "bytes") else ORDER
        if element in ("text", "enum") and draw(st.integers(0, 3)) == 0:
            sign, text = draw(st.sampled_from(["contains", "matches"])), literal().text[:3]
            return Compare(
                sign, field, Literal(re.escape(text) if sign == "matches" else text, quoted=True), quantifier
            )
        return Compare(draw(st.sampled_from(signs)), field, literal(), quantifier)

    return trees(term())


def trees(terms):
    def above(inner):
        many = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.builds(Not, inner) | st.builds(And, many) | st.builds(Or, many) | st.builds(Xor, many)

    return st.recursive(terms, above, max_leaves=6)


@pytest.mark.slow
def test_filters_agree_with_a_naive_evaluation_of_the_json(small):
    pool = frame_pool(small)[::4]
    flats = [flatten(one) for one in pool]
    found = Counter()

    @given(judged(pool))
    @settings(max_examples=250)
    def agree(tree):
        text = to_text(tree)
        match = compile_filter(text).match
        for facts, flat in zip(pool, flats):
            passes = match(facts)
            found[passes] += 1
            assert passes == naive(tree, flat), (text, facts.frame.number)

    agree()
    assert found[True] > 1000
    assert found[False] > 1000


# -- arbitrary text

WORDS = st.sampled_from(["pulsar.type", "tcp.stream", "pulsar.ack.message_id.entryId", "ip.src"])
LITERALS = st.builds(Literal, st.text(max_size=8), st.just(True)) | st.builds(
    Literal, st.sampled_from(["5", "0x1f", "SEND", "1.5ms", "2026-01-01", "10.0.0.0/8", "1:2", "-1"]), st.just(False)
)
OPERANDS = st.builds(FieldName, WORDS) | st.builds(Call, st.sampled_from(["len", "count"]), st.builds(FieldName, WORDS))
ITEMS = st.lists(LITERALS | st.builds(Range, LITERALS, LITERALS), min_size=1, max_size=3).map(tuple)
TERMS = (
    st.builds(Present, OPERANDS)
    | st.builds(Compare, st.sampled_from([*ORDER, "contains", "matches"]), OPERANDS, LITERALS | OPERANDS,
                st.sampled_from(["", "any", "all"]))
    | st.builds(Compare, st.sampled_from(ORDER), LITERALS, OPERANDS)
    | st.builds(In, OPERANDS, ITEMS, st.sampled_from(["", "any", "all"]))
)  # fmt: skip


@given(trees(TERMS))
@settings(max_examples=300)
def test_a_printed_tree_parses_to_the_same_tree(tree):
    assert parse_filter(to_text(tree)) == tree


PIECES = st.sampled_from(
    ["pulsar.type", "pulsar.ack.message_id.entryId", "frame.time_epoch", "ip.src", "pulsar.topic", "==", "!=", "<",
     "and", "or", "not", "in", "{", "}", "(", ")", "contains", "matches", "any", "all", '"', "'", "\\", "..", ",", "5",
     "SEND", "[", "0x", "r\"(\"", "len", "^^", "!", "-", "1e9", "99999-01-01", "\x00", "é", "\ud800",
     "2026-01-01T25:00:00"]
)  # fmt: skip


@pytest.mark.slow
@given(st.text(max_size=40) | st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=1000)
def test_any_text_raises_only_local_errors(text):
    lines, printed, tree = 3, None, None
    try:
        tree = compile_filter(text).tree
        printed = parse_filter(to_text(tree))
    except LocalError as error:
        lines = len(error.text.split("\n"))
    assert lines == 3
    assert printed == tree


def test_filters_of_any_text_match_any_frame_without_raising(small):
    pool = frame_pool(small)[::20]

    @given(trees(TERMS))
    @settings(max_examples=200)
    def never(tree):
        try:
            match = compile_filter(to_text(tree)).match
        except LocalError:
            return
        for facts in pool:
            assert match(facts) in (True, False)

    never()
