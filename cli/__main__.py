"""``python -m pcli.cli`` runs ``pcli``."""

from pcli.cli.app import main

main()
