"""`pcli consume`: prints the messages of a topic on stdout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcli.cli.common.connection_options import Url
from pcli.cli.common.option_groups import Credentials
from pcli.cli.common.options import TextOrJson, argument, option

_Type = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]


_Kind = Literal["stream", "queue", "checkpoint"]


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options of `consume`."""

    topic: Annotated[
        str,
        argument(
            "TOPIC",
            "orders, tenant/namespace/orders, persistent://tenant/ns/orders, or topic://tenant/ns/orders for a "
            "scalable topic of Pulsar 5.",
        ),
    ]
    url: Url = "pulsar://localhost:6650"
    subscription: Annotated[
        str, option("-s --subscription-name NAME", "Durable subscription; created if necessary.")
    ] = ""
    type: Annotated[_Type, option("--subscription-type", "Type of the subscription.")] = "Exclusive"
    kind: Annotated[
        _Kind,
        option(
            "--type",
            "Consumer of a scalable topic (topic://). stream: in the order of each key, segments are assigned to "
            "consumers; queue: shared by all consumers; checkpoint: reads without a durable subscription, -s names a "
            "group of readers.",
        ),
    ] = "stream"
    reader: Annotated[bool, option("--reader", "Read without a durable subscription.")] = False
    number: Annotated[int, option("-n --num-messages N", "Stop after N messages; 0: no limit.", min=0)] = 0
    last: Annotated[int, option("--last N", "Begin with the last N messages; implies --reader.", min=0)] = 0
    exit_at_end: Annotated[bool, option("--exit-at-end", "Stop when all messages have been read.")] = False
    start: Annotated[
        str,
        option(
            "--from earliest|latest|ID|TIME",
            "Where a new subscription or a reader begins: ID as 5:0; TIME as 2026-01-31T08:00:00Z, in ms since "
            "1970, or as -10m. For an existing subscription, --move-cursor is required. [latest]",
        ),
    ] = ""
    move_cursor: Annotated[
        bool, option("--move-cursor", "Move the cursor of an existing subscription to --from, for all consumers.")
    ] = False
    key_ranges: Annotated[
        list[str] | None, option("--key-range A-B", "Receive only keys of these hash slots (0-65535). Repeatable.")
    ] = None
    format: Annotated[str, option("--format FORMAT", "Format of a message, as in kcat; see above.")] = "%s\\n"
    output: Annotated[TextOrJson, option("-T", "text: see --format; json: an array; ndjson: one object per line.")] = (
        "text"
    )
    no_ack: Annotated[bool, option("--no-ack", "Do not acknowledge messages.")] = False
    nack_every: Annotated[
        int,
        option(
            "--nack-every N",
            "Negatively acknowledge every Nth message: it is redelivered after a minute. 0: none.",
            min=0,
        ),
    ] = 0
    receiver_queue: Annotated[
        int, option("--receiver-queue N", "Size of the receiver queue (receiverQueueSize).", min=0)
    ] = 1000

    @property
    def uses_reader(self) -> bool:
        """Whether messages are read without a durable subscription."""
        return self.reader or bool(self.last and not self.subscription)

    @property
    def scalable(self) -> bool:
        """Whether the topic is a scalable topic."""
        return self.topic.startswith("topic://")

    @property
    def acknowledges(self) -> bool:
        """Whether the command acknowledges messages. Readers and checkpoint consumers do so themselves."""
        return not (self.uses_reader or self.no_ack or (self.scalable and self.kind == "checkpoint"))


def consume(options: ConsumeOptions, credentials: Credentials) -> None:
    r"""Print the messages of a topic until Ctrl-C; each message is acknowledged after it is printed.

    pcli consume orders -s audit --from earliest

    pcli consume orders --reader --from -10m --exit-at-end -T ndjson

    pcli consume orders --last 20

    pcli consume orders -s audit --subscription-type Shared -n 100 --format '%T %k %s\n' --nack-every 10

    pcli consume jobs -s workers --subscription-type Key_Shared --key-range 0-32767

    pcli consume topic://public/default/orders -s audit --type queue

    %s payload, %k key, %i message id, %p partition, %t topic, %T publish time (ms), %h properties, %S and %K sizes;
    \n \t \r \0 \xNN.
    """
    from pcli.cli.client.message_receiving import ConsumeRun

    ConsumeRun(options, credentials.security()).run()
