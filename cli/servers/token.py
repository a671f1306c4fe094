"""`pcli token`: creates, prints and validates the JSON Web Tokens of Pulsar's token authentication."""

from __future__ import annotations

import re
import sys
import time
from typing import Annotated, Final

import typer

from pcli.cli.common.help_pages import PlainCommand
from pcli.cli.common.options import argument, option

app = typer.Typer(help="Create, print and validate tokens of clients (JSON Web Tokens).", no_args_is_help=True)

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_FORMS: Final = "a file, file:///PATH, or data:;base64,TEXT"
SecretKey = Annotated[str, option("--secret-key KEY", f"Secret key: {_FORMS}.")]
PublicKey = Annotated[str, option("--public-key KEY", f"Public key: {_FORMS}.")]
PrivateKey = Annotated[str, option("--private-key KEY", f"Private key: {_FORMS}.")]
Token = Annotated[str, argument("TOKEN", "The token, or - for standard input.")]


@app.command("create", cls=PlainCommand)
def create(
    subject: Annotated[str, option("--subject ROLE", "Role of the client, the claim sub.")],
    secret_key: SecretKey = "",
    private_key: PrivateKey = "",
    expiry_time: Annotated[
        str, option("--expiry-time TIME", "Time until the token expires, for example 30s, 12h or 7d.")
    ] = "",
    signature_algorithm: Annotated[
        str,
        option(
            "--signature-algorithm NAME",
            "HS256, HS384, HS512, RS256, …, PS512, ES256, ES384 or ES512. [the default of the key]",
        ),
    ] = "",
) -> None:
    """Create a token and print it.

    pcli token create --secret-key secret.key --subject alice --expiry-time 7d

    pcli token create --private-key private.der --subject alice
    """
    from pcli.cli.common.output import write_line
    from pcli.minibroker.security.tokens import create_token

    claims: dict[str, object] = {"sub": subject}
    if expiry_time:
        claims["exp"] = int(time.time()) + _seconds(expiry_time)
    write_line(create_token(claims, secret=secret_key, private=private_key, algorithm=signature_algorithm))


@app.command("show", cls=PlainCommand)
def show(token: Token) -> None:
    """Print the header and the claims of a token. The signature is not checked.

    pcli token show eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl
    """
    from pcli.cli.common.output import json_text, write_line
    from pcli.minibroker.security.tokens import parts

    header, claims = parts(_text(token))
    write_line(json_text(header))
    write_line(json_text(claims))


@app.command("validate", cls=PlainCommand)
def validate(token: Token, secret_key: SecretKey = "", public_key: PublicKey = "") -> None:
    """Check the signature and the times of a token, and print its claims. The exit code is 2 if it is invalid.

    pcli token validate --secret-key secret.key eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl
    """
    from pcli.cli.common.output import json_text, write_line
    from pcli.codec.errors import LocalError
    from pcli.minibroker.security.tokens import InvalidTokenError, TokenKey

    key = TokenKey(secret=secret_key, public=public_key)
    try:
        claims = key.claims(_text(token), time.time_ns() // 1_000_000)
    except InvalidTokenError as fault:
        raise LocalError(f"invalid token: {fault}") from None
    write_line(json_text(claims))


def _seconds(text: str) -> int:
    """Return the seconds of a time such as ``30s`` or ``7d``. Raises LocalError."""
    from pcli.codec.errors import LocalError

    match = re.fullmatch(r"(\d{1,9})([smhdwy])", text.strip())
    if match is None:
        raise LocalError(f"--expiry-time {text}: must be a number and a unit (s, m, h, d, w or y), for example 12h")
    return int(match[1]) * _UNITS[match[2]]


def _text(token: str) -> str:
    if token != "-":  # noqa: S105  (the name of standard input)
        return token.strip()
    return sys.stdin.read().strip()
