"""Addons (-s): Python scripts with functions that pcli calls for frames, as the scripts of mitmproxy.

Rules of this file
1. A script defines one or more of ``frame(frame)``, ``connection(connection)`` and ``done()``.
2. If a function raises an exception, the frame is processed as if there were no script. Each error is reported once, in
   one line. The command then ends with exit code 1.
3. When the file changes, it is loaded again before the next call. If it cannot be loaded, the error is reported, and
   the functions of the last good version are called.
4. In `proxy` and `broker`, a frame has actions. The functions run in the thread of the server, so they delay it.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import Message

from pcli.cli.common.output import counted, say
from pcli.codec.errors import LocalError
from pcli.codec.faults import ACTIONS, Fault
from pcli.codec.observe import column, find_field
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.frame import Frame

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address
    from pcli.codec.observe import Facts

_HOOKS: Final = ("frame", "connection", "done")
_CHECK_S: Final = 0.5
"""Minimum number of seconds between two checks of the file."""


class AddonConnection:
    """A TCP connection, the argument of ``connection``."""

    def __init__(self, number: int, client: Address, server: Address) -> None:
        self.number = number
        """tcp.stream."""
        self.client = client
        """IP address and port of the client."""
        self.server = server


class AddonFrame:
    """A frame, the argument of ``frame``."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.number = facts.frame.number
        """pulsar.number."""
        self.time_ns = facts.frame.time_ns
        """Nanoseconds since 1970."""
        self.type = name_of(facts.frame.type)
        """The name of the command, such as SEND."""
        self.from_client = facts.frame.from_client
        self.stream = facts.frame.stream.number
        """tcp.stream of the connection."""

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field as in JSON, or None; raise LocalError if there is no field with this name."""
        return column(find_field(name), secrets=True, payload=True)(self._facts)

    @property
    def command(self) -> Any:
        """The body of the command as a protobuf message, such as CommandSend."""
        return Frame.of(bytes(self.data)).body

    @property
    def data(self) -> bytes:
        """The bytes of the whole frame."""
        return self._facts.frame.data

    def __getattr__(self, name: str) -> Any:
        """Raise LocalError for an action, which only a LiveAddonFrame has."""
        if name in ACTIONS or name == "replace":
            raise LocalError("actions are possible in pcli proxy and pcli broker only")
        raise AttributeError(f"a frame has no attribute {name!r}")


class LiveAddonFrame(AddonFrame):
    """A frame that a proxy or a broker has not forwarded yet. The last action of the script applies."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.action: Fault | None = None

    def drop(self) -> None:
        """Do not forward the frame."""
        self.action = Fault(do="drop")

    def delay(self, ms: int) -> None:
        """Forward the frame, and all later frames of its direction, after this time."""
        if not isinstance(ms, int) or ms <= 0:
            raise LocalError(f"delay({ms!r}): write a number of milliseconds above 0")
        self.action = Fault(do="delay", ms=ms)

    def duplicate(self) -> None:
        """Forward the frame twice."""
        self.action = Fault(do="duplicate")

    def reorder(self) -> None:
        """Forward the frame after the next frame of its direction."""
        self.action = Fault(do="reorder")

    def corrupt(self) -> None:
        """Invert one bit of the payload, or of the command if there is no payload."""
        self.action = Fault(do="corrupt")

    def error(self, error: str = "") -> None:
        """Refuse a client's request with a ServerError: a name, or a name and text, ``ServiceNotReady: later``."""
        self.action = Fault(do="error", error=error)

    def close(self) -> None:
        """Close the connection."""
        self.action = Fault(do="close")

    def replace(self, command: Message) -> None:
        """Forward a different command of any type. Metadata and payload are kept."""
        if not isinstance(command, Message):
            raise LocalError(f"replace({command!r}): write a command, such as frame.command")
        data = bytes(self.data)
        frame = Frame.of(data)
        self.action = Fault(do="drop")
        self.action.do, self.action.replacement = "replace", push_frame(command, data[frame.parts.command_end :])


class Addon:
    """A script. Its functions are called in one thread at a time."""

    def __init__(self, path: str) -> None:
        """Load the script; raise LocalError if it cannot be loaded or defines none of the functions."""
        self.path = Path(path)
        self._reported: set[str] = set()
        self._checked = time.monotonic()
        self._version = self._read_version()
        self._module = self._load()

    @property
    def failed(self) -> bool:
        """Whether an error was reported."""
        return bool(self._reported)

    def frame(self, frame: AddonFrame) -> bool:
        """Call ``frame``; return whether it raised no exception."""
        return self._call("frame", frame)

    def connection(self, connection: AddonConnection) -> None:
        """Call ``connection``."""
        self._call("connection", connection)

    def done(self) -> None:
        """Call ``done``."""
        self._call("done")

    def _call(self, name: str, *args: object) -> bool:
        self._reload_if_changed()
        hook: Callable[..., object] | None = getattr(self._module, name, None)
        try:
            if hook is not None:
                hook(*args)
        except (Exception, SystemExit) as error:
            self._report(self._text_of(error, hook))
            return False
        return True

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            say(text)

    # -- the file

    def _reload_if_changed(self) -> None:
        now = time.monotonic()
        if now - self._checked < _CHECK_S:
            return
        self._checked = now
        version = self._read_version()
        if version == self._version:
            return
        self._version = version
        try:
            self._module = self._load()
        except LocalError as error:
            self._report(error.text)
        else:
            say(f"{self.path}: loaded again")

    def _read_version(self) -> tuple[int, int]:
        """Return the modification time and the size of the file; zeros if it cannot be read."""
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size

    def _load(self) -> ModuleType:
        module = ModuleType(f"pcli_addon_{id(self)}")
        module.__file__ = str(self.path)
        folder = str(self.path.resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            source = self.path.read_bytes()
            sys.modules[module.__name__] = module  # a dataclass looks up its module
            code = compile(source, str(self.path), "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102  (the user's own script)
        except OSError as error:
            raise LocalError(f"{self.path}: {(error.strerror or str(error)).lower()}") from None
        except (Exception, SystemExit) as error:
            raise LocalError(self._text_of(error)) from None
        if not any(callable(getattr(module, name, None)) for name in _HOOKS):
            raise LocalError(f"{self.path}: the script defines none of the functions {', '.join(_HOOKS)}")
        return module

    def _text_of(self, error: BaseException, hook: Callable[..., object] | None = None) -> str:
        """Return the last line of the script in the traceback, or the line of its function, and the error."""
        if isinstance(error, SyntaxError):
            return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(self.path)]
        code = getattr(hook, "__code__", None)
        number = frames[-1].lineno if frames else getattr(code, "co_firstlineno", None)
        line = "" if number is None else f":{number}"
        if isinstance(error, LocalError):
            return f"{self.path}{line}: {error.text}"
        return f"{self.path}{line}: {type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


class AddonFault(Fault):
    """The actions of an addon as a fault of a proxy or a broker."""

    __slots__ = ("_addon",)

    def __init__(self, addon: Addon) -> None:
        super().__init__()
        self._addon = addon
        self.is_script = True

    def __repr__(self) -> str:
        return f"Addon({self._addon.path}; {counted(self.fired, 'action')})"

    def admit(self, facts: Facts) -> bool:
        """Call ``frame`` of the script, and return whether it chose an action."""
        frame = LiveAddonFrame(facts)
        succeeded = self._addon.frame(frame)
        chosen = frame.action
        if chosen is None or not succeeded:
            return False
        self.do, self.ms, self.error, self.error_text = chosen.do, chosen.ms, chosen.error, chosen.error_text
        self.replacement = chosen.replacement
        if self.do == "error" and self.answer(facts) is None:
            return False
        self.fired += 1
        return True


class AddonTap:
    """A tap that calls ``connection`` for each connection of a proxy or a broker."""

    def __init__(self, addon: Addon) -> None:
        self._addon = addon

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Call ``connection``."""
        self._addon.connection(AddonConnection(number, client, server))

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Ignore bytes."""

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Ignore the end of a connection."""


def watched_by(addons: Iterable[Addon], facts: Generator[Facts, None, None]) -> Generator[Facts, None, None]:
    """Yield the frames of a capture after the addons have seen them, and call ``done`` at the end."""
    scripts, streams = list(addons), set[int]()
    try:
        for one in facts:
            stream = one.frame.stream
            for script in scripts:
                if stream.number not in streams:
                    script.connection(AddonConnection(stream.number, stream.client, stream.server))
                script.frame(AddonFrame(one))
            streams.add(stream.number)
            yield one
    finally:
        facts.close()
        for script in scripts:
            script.done()
