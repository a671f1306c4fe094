"""The source of the site: the pages of docs/, a page for each command, and the settings with the navigation.

python docs/site_source.py FOLDER: writes the source into FOLDER. `make site` then builds it with Zensical.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from pcli.cli.command_reference import command_line, markdown

HERE = Path(__file__).parent
ROOT = HERE.parent

FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages that are at the top of the repository, and their names in the site."""

GROUPS = {
    "Start": ("index", "tutorial", "recipes", "coming-from", "install", "platforms"),
    "Commands": ("commands", "commands/*"),
    "Guides": (),
    "Reference": ("filters", "fields", "json", "tables", "delta-tables", "findings/README", "findings/*"),
    "Project": ("changelog", "contributing", "security", "architecture", "style", "scale", "decisions/*"),
}
"""The navigation. A page that no group names is a guide."""


def site_pages() -> dict[str, str]:
    """Return the texts of all pages by their names in the site, with links that are valid there."""
    files = {path.relative_to(ROOT).as_posix(): path for path in HERE.rglob("*.md")}
    names = {name: name.removeprefix("docs/") for name in files} | FROM_ROOT
    pages = {site: with_links((ROOT / name).read_text(), name, names) for name, site in names.items()}
    pages |= command_pages(pages)
    return {name: with_bars(text) for name, text in pages.items()}


def with_links(text: str, name: str, names: dict[str, str]) -> str:
    """Return the text of a page with links to pages of the site. Links to other files of the repository become text."""

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = os.path.normpath(PurePosixPath(name).parent / target)
        if path in names:
            relative = os.path.relpath(names[path], PurePosixPath(names[name]).parent)
            return f"[{words}]({relative}{anchor})"
        if (ROOT / path).suffix in (".pcap", ".pcapng") and path.startswith("docs/"):
            return match[0]
        return words

    return re.sub(r"\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)", link, text)


def with_bars(text: str) -> str:
    r"""Return a page with ``\|`` in code inside tables as HTML, because Python-Markdown would show the backslash."""

    def code(match: re.Match[str]) -> str:
        return f"<code>{html.escape(match[1].replace(chr(92) + '|', '|')).replace('|', '&#124;')}</code>"

    lines = text.split("\n")
    return "\n".join(re.sub(r"`([^`]*\\\|[^`]*)`", code, line) if line.startswith("|") else line for line in lines)


def command_pages(pages: dict[str, str]) -> dict[str, str]:
    """Return a page for each command, with links to the pages that show it, and the list of commands with links."""
    made = {}
    for entry in command_line().subcommands:
        parts = list(markdown(entry))
        showing = [name for name, text in sorted(pages.items()) if "/" not in name and f"{entry.name} " in text]
        if showing:
            parts.append("Pages with examples: " + ", ".join(f"[{title_of(pages[n])}](../{n})" for n in showing) + ".")
        made[f"commands/{entry.name.split()[1]}.md"] = "\n\n".join(parts) + "\n"
    index = re.sub(r"^\| `pcli ([\w-]+)`", r"| [`pcli \1`](commands/\1.md)", pages["commands.md"], flags=re.MULTILINE)
    return made | {"commands.md": index}


def title_of(text: str) -> str:
    """Return the heading of a page."""
    return text.removeprefix("# ").partition("\n")[0]


def navigation(pages: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the groups with the names of their pages, in the order of `GROUPS` and then of the names."""
    named = [pattern for patterns in GROUPS.values() for pattern in patterns]
    for title, patterns in GROUPS.items():
        found = [name for name in sorted(pages) if not any(fnmatchcase(name[:-3], one) for one in named)]
        if patterns:
            by_pattern = ([name for name in sorted(pages) if fnmatchcase(name[:-3], one)] for one in patterns)
            found = list(dict.fromkeys(name for names in by_pattern for name in names))
        yield title, found


def settings(pages: dict[str, str]) -> str:
    """Return the settings of the site with the navigation."""
    groups = (f"  {{ {json.dumps(title)} = {json.dumps(names)} }},\n" for title, names in navigation(pages))
    return (HERE / "zensical.toml").read_text().replace("[project]\n", f"[project]\nnav = [\n{''.join(groups)}]\n", 1)


def main() -> None:
    """Write the source of the site."""
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    pages = site_pages()
    for name, text in pages.items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in (HERE / "site.css", *HERE.glob("*.pcap")):
        shutil.copy(path, folder / "pages")
    shutil.copytree(HERE / "overrides", folder / "overrides")
    (folder / "zensical.toml").write_text(settings(pages))


if __name__ == "__main__":
    main()
