"""``python -m pcli.cli`` is ``pcli``."""

from pcli.cli.app import main

__all__: list[str] = []

main()
