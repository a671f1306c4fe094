"""Makes the parts of the docs that are tables of the code: `make docs`. Tests hold them fresh.

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
    """The page of all fields."""
    lines = [
        "# Fields",
        "",
        "Made from the code by `make docs`. For filters (`-Y`), columns (`-e`) and JSON (`-T ndjson`).",
        "",
        "| field | type | source | |",
        "|---|---|---|---|",
    ]
    for field in all_fields():
        cells = (f"`{field.name}`", field.kind, field.source, field.help)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def between(page: str, name: str, text: str) -> str:
    """The page with this text between the two marks of that name."""
    first, last = f"<!-- {name}: made by make docs -->\n", f"<!-- end of {name} -->"
    head, _, rest = page.partition(first)
    return f"{head}{first}\n{text}\n{last}{rest.partition(last)[2]}"


def table(titles: str, rows: Iterable[Sequence[str]]) -> str:
    """A table; ``titles`` separated by bars."""
    lines = [f"| {titles} |", "|" + "---|" * (titles.count("|") + 1)]
    lines += ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return "\n".join(lines) + "\n"


def with_problems(page: str) -> str:
    """The page with the table of problems between its two marks."""
    return between(page, "problems", table("problem | means", ((f"`{kind}`", text) for kind, text in KINDS.items())))


def with_lists(page: str) -> str:
    """The page of the mini-broker with what it obeys, serves and does not do."""
    page = between(page, "faults", table("do | what happens", ((f"`{do}`", text) for do, text in ACTIONS.items())))
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
        "The first row that fits serves a subscription; `pcli broker --dispatchers` prints them too.\n",
        table("class in Pulsar | subscriptions | topics | when | in Pulsar since | file", dispatchers),
        "## Settings\n",
        "By `--set name=value`, from a file with `--conf broker.conf`, or as arguments in Python. "
        "Anything else is an error that names the nearest.\n",
        table("setting | kind | default | ", settings),
        "## Endpoints\n",
        "Of the REST API, for clients, tests and dashboards. Any other path answers 404.\n",
        table("methods | path | ", endpoints),
        "## What it does not do\n",
        *limits(),
    ]
    return between(page, "lists", "\n".join(parts))


def limits() -> Iterator[str]:
    """What the mini-broker does not do, item by item."""
    yield f"- **Commands answered with NotAllowedError**, whatever they ask: {words(capabilities.refused_commands())}."
    yield (
        "- **Commands that end the connection**, as on 4.2.4, which does not know them either: "
        f"{words(capabilities.closing_commands())}."
    )
    missing = "; ".join(f"`{path}` ({text})" for path, text in capabilities.missing_families())
    yield f"- **Parts of the REST API that are not there**: {missing}."
    yield f"- **Policies that are kept and given back, without effect**: {words(capabilities.stored_only_policies())}."
    yield (
        f"- **Settings ignored** in a `--conf` file, and refused by `--set` ({len(IGNORED)}): "
        "what is about clusters, BookKeeper, TLS and authentication, and:\n"
    )
    yield "<details><summary>all of them</summary>\n"
    yield f"{words(sorted(IGNORED))}\n"
    yield "</details>\n"


def words(names: Iterable[str]) -> str:
    """Names in a row, as code."""
    return ", ".join(f"`{name}`" for name in names)


def findings_index() -> str:
    """The page that leads to those of the rules."""
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
