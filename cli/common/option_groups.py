"""Groups of options that commands share: a group is a dataclass, and its fields are options.

A command has one parameter for each group: ``def trace(captures: CaptureFiles, *, read_as: ReadAs)``. `commands.py`
registers the command that `flattened` returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

from pcli.cli.common.connection_options import Basic, TlsCert, TlsKey, TlsTrust, Token
from pcli.cli.common.options import argument, option

if TYPE_CHECKING:
    from pcli.codec.capture import ReadOptions
    from pcli.replay.service_url import Security


@dataclass(frozen=True, slots=True)
class CaptureFiles:
    """The captures to read."""

    read: Annotated[
        list[str] | None,
        option(
            "-r --read FILE",
            "Capture to read: pcap or pcapng, optionally compressed (.gz, .zst, .xz, .bz2, .lz4); - is stdin.",
        ),
    ] = None
    more: Annotated[
        list[str] | None, argument("FILE", "More captures. The files of a rotated capture are read in order.")
    ] = None

    @property
    def names(self) -> list[str]:
        """The names of all files."""
        return [*(self.read or ()), *(self.more or ())]


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How captures are read."""

    decode_as: Annotated[
        list[str] | None,
        option(
            "-d --decode-as tcp.port==N[,PROTO]",
            "Treat TCP port N as PROTO: pulsar (default), or other to ignore its traffic.",
        ),
    ] = None
    keylog: Annotated[
        str,
        option(
            "--keylog FILE", "Decrypt TLS 1.2 and 1.3 with the secrets in this key log file (tshark: tls.keylog_file)."
        ),
    ] = ""

    def options(self, *, live: bool = False) -> ReadOptions:
        """Return the options for the decoder. A wrong value ends the command.

        ``live`` states that the capture is live, so that the key log may still be empty.
        """
        from pcli.cli.common.reading_options import read_options

        return read_options(self.decode_as, self.keylog, live=live)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for a broker."""

    token: Token = ""
    basic: Basic = ""
    tls_trust: TlsTrust = ""
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""

    def security(self) -> Security:
        """Return the credentials, without reading any file."""
        from pcli.replay.service_url import Security

        return Security(self.token, self.basic, self.tls_trust, self.tls_cert, self.tls_key)


def flattened(command: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    """Return the command with one parameter for each option: the fields of a group replace its parameter, in order.

    ``without`` are parameters that keep their defaults: they are no options of this command.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}
    fields = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields[name]})
        command(**values)

    options = [option for one in parameters for option in fields.get(one.name, {one.name: one}).values()]
    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options if option.name not in without]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run
