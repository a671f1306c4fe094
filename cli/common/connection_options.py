"""Options of all commands that connect to a broker: where it is, and how to prove who one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pcli.replay.service import Security

__all__ = ["TlsCert", "TlsKey", "TlsTrust", "Token", "Url", "security"]

_PANEL = "Connection"

Url = Annotated[
    str,
    typer.Option(
        "-u",
        "--url",
        envvar="PCLI_URL",
        metavar="URL",
        help="Service URL: pulsar://host:6650, pulsar+ssl://, http://.",
        rich_help_panel=_PANEL,
    ),
]
"""Goes with the default ``pulsar://localhost:6650``."""
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="PCLI_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="A token, or file:PATH of one.",
        rich_help_panel=_PANEL,
    ),
]
TlsTrust = Annotated[
    str, typer.Option("--tls-trust", metavar="PEM", help="Certificates to trust.", rich_help_panel=_PANEL)
]
TlsCert = Annotated[
    str, typer.Option("--tls-cert", metavar="PEM", help="Certificate of one's own.", rich_help_panel=_PANEL)
]
TlsKey = Annotated[str, typer.Option("--tls-key", metavar="PEM", help="Its private key.", rich_help_panel=_PANEL)]


def security(token: str, trust: str, cert: str, key: str) -> Security:
    """What the options say; nothing is read yet."""
    from pcli.replay.service import Security

    return Security(token=token, trust=trust, cert=cert, key=key)
