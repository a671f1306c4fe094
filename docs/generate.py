"""Generates the parts of the docs that are derived from the code: `make docs`. Tests check that they are up to date.

python docs/generate.py [FOLDER]: writes fields.md, tables.md, the table of problems in dissect.md, the lists in
mini-broker.md and findings/ with a page for each rule of diagnose, into docs/ or FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pcli.codec.faults import ACTIONS
from pcli.codec.observe import all_fields
from pcli.codec.observe.rules import RULES
from pcli.codec.observe.rules.rule_pages import page_of
from pcli.codec.wire.problems import KINDS
from pcli.minibroker import capabilities
from pcli.minibroker.settings import IGNORED, Settings
from pcli.spark.tables.documentation import tables_page

HERE = Path(__file__).parent


def fields_page() -> str:
    """Return the page of all fields."""
    lines = [
        "# Fields",
        "",
        "The fields for filters (`-Y`), columns (`-e`) and JSON (`-T ndjson`). Generated from the code by `make docs`.",
        "",
        "| field | type | source | description |",
        "|---|---|---|---|",
    ]
    for field in all_fields():
        cells = (f"`{field.name}`", field.kind, field.source, field.help)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def between(page: str, name: str, text: str) -> str:
    """Return the page with this text between the two markers of that name."""
    first, last = f"<!-- {name}: made by make docs -->\n", f"<!-- end of {name} -->"
    head, _, rest = page.partition(first)
    return f"{head}{first}\n{text}\n{last}{rest.partition(last)[2]}"


def table(titles: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; ``titles`` are separated by bars."""
    lines = [f"| {titles} |", "|" + "---|" * (titles.count("|") + 1)]
    lines += ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return "\n".join(lines) + "\n"


def with_problems(page: str) -> str:
    """Return the page with the table of problems."""
    return between(page, "problems", table("problem | meaning", ((f"`{kind}`", text) for kind, text in KINDS.items())))


def with_lists(page: str) -> str:
    """Return the page of the mini-broker with its dispatchers, settings, endpoints and limits."""
    page = between(page, "faults", table("action | effect", ((f"`{do}`", text) for do, text in ACTIONS.items())))
    dispatchers = (
        (
            f"`{row['class']}`", ", ".join(row["subscriptions"]), row["topics"],
            f"`{row['setting']}=true`" if row["setting"] else "otherwise",
            row["since"] + (f" until {row['until']}" if row["until"] else ""),
            f"[{row['file'].rpartition('/')[2]}](../{row['file']})",
        )
        for row in capabilities.dispatcher_rows()
    )  # fmt: skip
    settings = (
        (f"`{row.name}`", row.kind, f"`{row.default}`" if row.default else "", row.text) for row in Settings.describe()
    )
    endpoints = ((", ".join(row.methods), f"`{row.path}`", row.text) for row in capabilities.endpoint_rows())
    parts = [
        "## Dispatchers\n",
        "The first row that matches a subscription determines its dispatcher. "
        "`pcli broker --dispatchers` prints this table.\n",
        table("class in Pulsar | subscriptions | topics | condition | Pulsar versions | file", dispatchers),
        "## Settings\n",
        "Set them with `--set name=value`, in a file with `--conf broker.conf`, or as arguments in Python. "
        "An unknown name is an error; the message suggests the closest names.\n",
        table("setting | type | default | description", settings),
        "## Endpoints\n",
        "The REST API for clients, tests and dashboards. All other paths return 404.\n",
        table("methods | path | description", endpoints),
        "## Limits\n",
        *limits(),
    ]
    return between(page, "lists", "\n".join(parts))


def limits() -> Iterator[str]:
    """Yield the limits of the mini-broker as list items."""
    yield f"- **Commands that are always refused with NotAllowedError**: {words(capabilities.refused_commands())}."
    yield (
        "- **Commands that close the connection**, because Pulsar 4.2.4 does not support them either: "
        f"{words(capabilities.closing_commands())}."
    )
    missing = "; ".join(f"`{path}` ({text})" for path, text in capabilities.missing_families())
    yield f"- **Missing parts of the REST API**: {missing}."
    policies = words(capabilities.stored_only_policies())
    yield f"- **Policies that are stored and returned but have no effect**: {policies}."
    yield (
        f"- **Settings that are ignored** in a `--conf` file and refused by `--set` ({len(IGNORED)}), mainly for "
        "clusters, BookKeeper, TLS and authentication:\n"
    )
    yield "<details><summary>all of these settings</summary>\n"
    yield f"{words(sorted(IGNORED))}\n"
    yield "</details>\n"


def words(names: Iterable[str]) -> str:
    """Return the names as a comma-separated list of code spans."""
    return ", ".join(f"`{name}`" for name in names)


def findings_index() -> str:
    """Return the index of the pages of the rules."""
    rows = ((f"[{rule.name}]({rule.name}.md)", rule.group, rule.title, rule.issue) for rule in RULES.values())
    return "# Findings\n\nThe rules of `pcli diagnose`. Generated from the code by `make docs`.\n\n" + table(
        "rule | evaluated for each | finds | requested in", rows
    )


def main() -> None:
    """Write the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (folder / "findings").mkdir(exist_ok=True)
    (folder / "findings" / "README.md").write_text(findings_index())
    for rule in RULES.values():
        (folder / "findings" / f"{rule.name}.md").write_text(page_of(rule))
    (folder / "fields.md").write_text(fields_page())
    (folder / "tables.md").write_text(tables_page())
    (folder / "dissect.md").write_text(with_problems((HERE / "dissect.md").read_text()))
    (folder / "mini-broker.md").write_text(with_lists((HERE / "mini-broker.md").read_text()))


if __name__ == "__main__":
    main()
