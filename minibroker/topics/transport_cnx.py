"""TransportCnx: the interface of a client's connection that topics, producers and consumers use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from pcli.codec.session import ServerSession
    from pcli.minibroker.errors import Refused


class TransportCnx(Protocol):
    """A client's connection (interface TransportCnx; implemented by `connection.Connection`)."""

    peer: tuple[str, int]
    """Address and port of the client."""
    session: ServerSession
    closing: bool
    """Whether the connection ignores input and closes after the frames queued so far."""
    writable: bool
    """Whether entries may be sent: True while the client reads fast enough."""

    @property
    def role(self) -> str:
        """The role of the authenticated client; empty without authentication."""

    def send(self, data: bytes) -> None:
        """Queue a whole frame for the client."""

    def send_pieces(self, pieces: Sequence[bytes]) -> None:
        """Queue the pieces of whole frames for the client."""

    def send_command(self, body: Message, entry: bytes = b"") -> None:
        """Queue a command. An entry follows a MESSAGE command."""

    def answer_error(self, request_id: int, refused: Refused) -> None:
        """Queue an ERROR for a request."""

    def close(self, reason: str = "") -> None:
        """Close the connection after the frames queued so far."""

    def check_liveness(self, on_answer: Callable[[bool], None]) -> None:
        """Report whether the client is alive; send a PING first if necessary."""

    def mark_producer_closed(self, producer_id: int) -> None:
        """For one keep-alive interval, drop SENDs to a producer that the broker closed."""

    def removed_producer(self, producer_id: int, producer: object) -> None:
        """Free the id of a producer that was closed, unless a different producer uses it."""

    def removed_consumer(self, consumer_id: int) -> None:
        """Free the id of a consumer that was closed."""

    def pause_reading(self) -> None:
        """Stop reading from the client until `resume_reading` has been called as many times as this method."""

    def resume_reading(self) -> None:
        """Undo one `pause_reading`."""
