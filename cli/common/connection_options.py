"""Options of all commands that connect to a broker: the address and the credentials."""

from __future__ import annotations

from typing import Annotated

from pcli.cli.common.options import option

_PANEL = "Connection"

Url = Annotated[
    str,
    option(
        "-u --url URL",
        "Service URL: pulsar://host:6650, pulsar+ssl://host:6651 or http://host:8080.",
        envvar="PCLI_URL",
        rich_help_panel=_PANEL,
    ),
]
"""The service URL; ``pulsar://localhost:6650`` by default."""
Admin = Annotated[
    str,
    option(
        "--admin URL",
        "Compare the findings with a live broker: the URL of its web service, such as http://localhost:8080.",
        rich_help_panel=_PANEL,
    ),
]
Token = Annotated[
    str,
    option(
        "--token TOKEN",
        "JSON web token, or file:PATH of a file that contains it.",
        envvar="PCLI_TOKEN",
        show_envvar=True,
        rich_help_panel=_PANEL,
    ),
]
Basic = Annotated[
    str,
    option(
        "--basic USER:PASSWORD",
        "User and password, or file:PATH of a file that contains them.",
        envvar="PCLI_BASIC",
        show_envvar=True,
        rich_help_panel=_PANEL,
    ),
]
TlsTrust = Annotated[str, option("--tls-trust PEM", "Trusted certificates.", rich_help_panel=_PANEL)]
TlsCert = Annotated[str, option("--tls-cert PEM", "Client certificate.", rich_help_panel=_PANEL)]
TlsKey = Annotated[str, option("--tls-key PEM", "Private key of the client certificate.", rich_help_panel=_PANEL)]
