"""Help pages: readable placeholders."""

import re

import pytest
from typer.main import get_command

from pcli.cli.commands import application

APP = application()
STATS = next(one.typer_instance for one in APP.registered_groups if one.name == "stats")
COMMANDS = [[one.name] for one in APP.registered_commands] + [
    ["stats", one.name or one.callback.__name__] for one in STATS.registered_commands
]
ROOT_COMMAND = get_command(APP)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: "-".join(arguments))
def test_placeholders(pcli, arguments):
    """A page shows no types of Python, and every option with a value has a placeholder."""
    page = pcli(*arguments, "--help").out
    assert not re.search(r"<(str|int|float|list|bool)\b|\bx[<>]=|\{|\[\[", page.replace("{cluster}", "")), page
    flags = re.findall(r"^  (?:-\w, )?(--[\w-]+) {2,}", page, re.MULTILINE)
    command = ROOT_COMMAND
    for name in arguments:
        command = command.commands[name]
    valued = [
        option for param in command.params for option in param.opts
        if param.param_type_name == "option" and not param.is_flag
    ]  # fmt: skip
    assert not set(flags) & set(valued)


def test_repeatable_arguments(pcli):
    assert "Usage: pcli dissect [OPTIONS] [FILE]..." in pcli("dissect", "--help").out
    assert "Usage: pcli consume [OPTIONS] TOPIC" in pcli("consume", "--help").out
