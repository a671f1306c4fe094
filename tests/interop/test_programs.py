"""The programs of the clients."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_scenario_of_a_program_has_a_test(client, programs):
    scenarios = programs.get(client).play({"scenario": "list", "url": ""}, {})
    named = re.compile(r'(?:play\(|"scenario":)\s*"(\w+)"')
    tested = {name for path in HERE.glob("test_*.py") for name in named.findall(path.read_text())}
    assert set(scenarios) <= tested
