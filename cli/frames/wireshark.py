"""`pcli wireshark`: writes a dissector for Wireshark and tshark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pcli.cli.common.options import option

_NAME = "pcli-pulsar.lua"


def wireshark(
    install: Annotated[
        bool, option("--install", "Write the dissector to the personal plugin folder of Wireshark.")
    ] = False,
    output: Annotated[Path | None, option("-o --output FILE", "Write the dissector to this file.")] = None,
) -> None:
    """Write a dissector of Pulsar's protocol for Wireshark and tshark. Without an option, print it.

    The fields have the names that pcli fields lists.

    pcli wireshark --install

    pcli wireshark -o pulsar.lua && tshark -X lua_script:pulsar.lua -r orders.pcap -Y 'pulsar.type == "SEND_ERROR"'
    """
    from pcli.cli import __version__
    from pcli.cli.common.output import complete_file, say, write_line
    from pcli.codec.errors import LocalError
    from pcli.codec.wireshark import lua_dissector

    if install and output is not None:
        raise LocalError("--install and -o name two places: use one of them")
    target = _plugin_folder() / _NAME if install else output
    text = lua_dissector(__version__)
    if target is None:
        write_line(text)
        return
    if install:
        target.parent.mkdir(parents=True, exist_ok=True)
    with complete_file(target) as path:
        path.write_text(text, "utf-8")
    say(f"{target}: written; Wireshark loads it at its next start" if install else f"{target}: written")


def _plugin_folder() -> Path:
    """Return the folder that tshark names, or the default of this system if there is no tshark."""
    import os
    import re
    import shutil
    import subprocess
    import sys

    program = shutil.which("tshark")
    if program is not None:
        done = subprocess.run([program, "-G", "folders"], capture_output=True, check=False)  # noqa: S603
        found = re.search(rb"^Personal Lua Plugins:\s*(.+?)\s*$", done.stdout, re.MULTILINE)
        if found is not None:
            return Path(os.fsdecode(found[1]))
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home())) / "Wireshark" / "plugins"
    return Path.home() / ".local" / "lib" / "wireshark" / "plugins"
