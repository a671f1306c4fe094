"""Python source, formatted like ruff's formatter."""

import ast
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.replay.player.reproduce.python_source import Group, formatted_lines, literal, split_literal


@given(st.one_of(st.text(), st.binary()))
def test_a_literal_is_its_value(value):
    assert ast.literal_eval(literal(value)) == value


@given(st.one_of(st.text(min_size=1), st.binary(min_size=1)), st.integers(min_value=20, max_value=100))
def test_split_literals_join_to_the_value(value, width):
    found = split_literal(value, width)
    assert ast.literal_eval(" ".join(found)) == value
    assert max(map(len, found)) <= width


def test_quotes():
    assert literal("it's") == '"it\'s"'
    assert literal('say "no"') == "'say \"no\"'"
    assert literal(b"a\x00b") == 'b"a\\x00b"'


def call(*items, head="f("):
    return Group(head, [("", one) for one in items], ")")


@pytest.mark.parametrize("size", [3, 30, 60, 90])
def test_ruff_changes_nothing(size, tmp_path):
    word = literal("x" * size)
    listed = Group("[", [("", word), ("", word), ("", "1")], "]", call=False)
    table = Group("{", [('"a": ', word), ('"b": ', listed)], "}", call=False)
    nodes = [call(word), call(word, word, word), call("1", listed), call(table, call(word, word), "m.at()"), call()]
    path = tmp_path / "laid.py"
    path.write_text("".join(f"{line}\n" for node in nodes for line in formatted_lines("name = ", node, 0)))
    words = (sys.executable, "-m", "ruff", "format", "--no-cache", "--diff", "--line-length", "120", str(path))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
