"""The pages of commands, and manual pages."""

import shutil
import subprocess

import pytest

from pcli.cli.command_reference import command_line, manual_pages, markdown


@pytest.fixture(scope="module")
def entries():
    return {entry.name: entry for entry in command_line().subcommands}


@pytest.fixture(scope="module")
def manual():
    return dict(manual_pages(command_line()))


def test_there_is_a_manual_page_for_each_command_and_subcommand(entries, manual):
    inner = [one for entry in entries.values() for one in entry.subcommands]
    assert set(manual) == {"pcli", *(one.page for one in (*entries.values(), *inner))}
    assert {"pcli-stats-io", "pcli-spark-analyze", "pcli-token-create"} <= set(manual)


def test_a_manual_page_has_the_options_and_the_examples_of_the_help(manual):
    page = manual["pcli-dissect"]
    assert ".TP\n.B \\-Y, \\-\\-filter FILTER\nShow only frames that match" in page
    assert ".SH EXAMPLES\n.nf\npcli dissect \\-r capture.pcapng\n" in page
    assert ".SH SEE ALSO\n.BR pcli (1)\n" in page


def test_text_of_manual_pages_is_ascii_and_never_a_macro(manual):
    for name, page in manual.items():
        assert page.isascii(), name
        macros = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert macros <= {".TH", ".SH", ".TP", ".PP", ".B", ".BR", ".nf", ".fi"}, name


def test_groff_formats_all_manual_pages_without_warnings(manual):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    text = "".join(manual.values())
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=text, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "pcli spark-analyze" in done.stdout


def test_a_page_has_the_subcommands_of_a_group_as_sections(entries):
    parts = list(markdown(entries["pcli stats"]))
    assert parts[0] == "# pcli stats"
    assert "## pcli stats permits" in parts
    assert any("| `-I, --interval SECONDS` | Time interval of each row." in part for part in parts)


def test_examples_are_separate_from_the_text(entries):
    consume = entries["pcli consume"]
    assert consume.examples[0] == "pcli consume orders -s audit --from earliest"
    assert consume.text == [text for text in consume.text if text.startswith("%s payload")]
    produce = entries["pcli produce"]
    assert "seq 1000000 | pcli produce orders" in produce.examples
    assert produce.text == [
        "If the broker refuses a message, the command prints the number of that message and sends no more messages."
    ]
