"""Makes the parts of the docs that are tables of the code: `make docs`. Tests hold them fresh.

python docs/generate.py [FOLDER]: writes fields.md and the table of problems in dissect.md, into docs/ or FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pcli.codec.observe import all_fields
from pcli.codec.wire.problems import KINDS

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


def with_problems(page: str) -> str:
    """The page with the table of problems between its two marks."""
    head, _, rest = page.partition("<!-- problems: made by make docs -->\n")
    _, _, tail = rest.partition("<!-- end of problems -->")
    rows = "| problem | means |\n|---|---|\n" + "".join(f"| `{kind}` | {text} |\n" for kind, text in KINDS.items())
    return f"{head}<!-- problems: made by make docs -->\n\n{rows}\n<!-- end of problems -->{tail}"


def main() -> None:
    """Write the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (folder / "fields.md").write_text(fields_page())
    (folder / "dissect.md").write_text(with_problems((HERE / "dissect.md").read_text()))


if __name__ == "__main__":
    main()
