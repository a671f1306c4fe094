"""Options of all commands that connect to a broker: the address and the credentials."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Admin", "Basic", "TlsCert", "TlsKey", "TlsTrust", "Token", "Url"]

_PANEL = "Connection"

Url = Annotated[
    str,
    typer.Option(
        "-u",
        "--url",
        envvar="PCLI_URL",
        metavar="URL",
        help="Service URL: pulsar://host:6650, pulsar+ssl://host:6651 or http://host:8080.",
        rich_help_panel=_PANEL,
    ),
]
"""The service URL; ``pulsar://localhost:6650`` by default."""
Admin = Annotated[
    str,
    typer.Option(
        "--admin",
        metavar="URL",
        help="Compare the findings with a live broker: the URL of its web service, such as http://localhost:8080.",
        rich_help_panel=_PANEL,
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="PCLI_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="JSON web token, or file:PATH of a file that contains it.",
        rich_help_panel=_PANEL,
    ),
]
Basic = Annotated[
    str,
    typer.Option(
        "--basic",
        envvar="PCLI_BASIC",
        show_envvar=True,
        metavar="USER:PASSWORD",
        help="User and password, or file:PATH of a file that contains them.",
        rich_help_panel=_PANEL,
    ),
]
TlsTrust = Annotated[
    str, typer.Option("--tls-trust", metavar="PEM", help="Trusted certificates.", rich_help_panel=_PANEL)
]
TlsCert = Annotated[str, typer.Option("--tls-cert", metavar="PEM", help="Client certificate.", rich_help_panel=_PANEL)]
TlsKey = Annotated[
    str, typer.Option("--tls-key", metavar="PEM", help="Private key of the client certificate.", rich_help_panel=_PANEL)
]
