"""The table of all commands: names, senders, ids, responses and versions. No other module repeats these facts.

A new command is one row. Fields, filters, JSON keys, request pairing, direction checks and the docs are derived from
this table. A test compares every row with the descriptors and every command of the protocol with the rows.

Columns
- number, name    BaseCommand.Type
- field           the field of BaseCommand that contains the body (its number always equals the type's number)
- sender          the side that sends the command: client, broker, or both. A broker that connects to a different broker
                  (or to itself, for system topics and transactions) acts as a client.
- ids             the ids in the command, by meaning: ``meaning`` if the field has that name, otherwise
                  ``meaning=path``. The meanings are the fields that `pcli fields` lists as ``pulsar.<meaning>``.
- answers         the responses to the command (the first for success, the others for errors); empty if there are none
- paired_by       how a response is matched to its request: ``request_id``; ``sequence``: producer and sequence id;
                  ``order``: the oldest open request of that type; ``session_id``, ``watch_id``: only the first response
                  is paired
- since           the protocol version that introduced it (ProtocolVersion; for a command added without a new version,
                  the newest version at that time)
- feature         the feature flag of CONNECT/CONNECTED that is required to send the command
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One row of the table. The module's docstring explains the columns."""

    number: int
    name: str
    field: str
    sender: str
    ids: dict[str, str]
    """Path in the body by meaning, such as ``{"message_id": "last_message_id"}``."""
    answers: tuple[str, ...] = ()
    paired_by: str = ""
    since: int = 0
    feature: str = ""

    @property
    def client_may_send(self) -> bool:
        """Whether a client sends this command."""
        return self.sender != "broker"

    @property
    def broker_may_send(self) -> bool:
        """Whether a broker sends this command."""
        return self.sender != "client"


# number name | field | sender | ids | answers | paired by | since | feature
_TABLE: Final = """
2  CONNECT | connect | client | | CONNECTED AUTH_CHALLENGE ERROR | order | 0
3  CONNECTED | connected | broker | | | | 0
4  SUBSCRIBE | subscribe | client | request_id consumer_id consumer_name topic subscription message_id=start_message_id | SUCCESS ERROR | request_id | 0
5  PRODUCER | producer | client | request_id producer_id producer_name topic | PRODUCER_SUCCESS ERROR | request_id | 0
6  SEND | send | client | producer_id sequence_id message_id | SEND_RECEIPT SEND_ERROR | sequence | 0
7  SEND_RECEIPT | send_receipt | broker | producer_id sequence_id message_id | | | 0
8  SEND_ERROR | send_error | broker | producer_id sequence_id error | | | 0
9  MESSAGE | message | broker | consumer_id message_id | | | 0
10 ACK | ack | client | consumer_id request_id message_id | ACK_RESPONSE | request_id | 0
11 FLOW | flow | client | consumer_id | | | 0
12 UNSUBSCRIBE | unsubscribe | client | consumer_id request_id | SUCCESS ERROR | request_id | 0
13 SUCCESS | success | broker | request_id | | | 0
14 ERROR | error | broker | request_id error | | | 0
15 CLOSE_PRODUCER | close_producer | both | producer_id request_id | SUCCESS ERROR | request_id | 0
16 CLOSE_CONSUMER | close_consumer | both | consumer_id request_id | SUCCESS ERROR | request_id | 0
17 PRODUCER_SUCCESS | producer_success | broker | request_id producer_name | | | 0
18 PING | ping | both | | PONG | order | 1
19 PONG | pong | both | | | | 1
20 REDELIVER_UNACKNOWLEDGED_MESSAGES | redeliverUnacknowledgedMessages | client | consumer_id message_id=message_ids | | | 2
21 PARTITIONED_METADATA | partitionMetadata | client | request_id topic | PARTITIONED_METADATA_RESPONSE ERROR | request_id | 7
22 PARTITIONED_METADATA_RESPONSE | partitionMetadataResponse | broker | request_id error | | | 7
23 LOOKUP | lookupTopic | client | request_id topic | LOOKUP_RESPONSE ERROR | request_id | 7
24 LOOKUP_RESPONSE | lookupTopicResponse | broker | request_id error | | | 7
25 CONSUMER_STATS | consumerStats | client | request_id consumer_id | CONSUMER_STATS_RESPONSE ERROR | request_id | 8
26 CONSUMER_STATS_RESPONSE | consumerStatsResponse | broker | request_id consumer_name=consumerName error=error_code | | | 8
27 REACHED_END_OF_TOPIC | reachedEndOfTopic | broker | consumer_id | | | 9
28 SEEK | seek | client | consumer_id request_id message_id | SUCCESS ERROR | request_id | 12
29 GET_LAST_MESSAGE_ID | getLastMessageId | client | consumer_id request_id | GET_LAST_MESSAGE_ID_RESPONSE ERROR | request_id | 12
30 GET_LAST_MESSAGE_ID_RESPONSE | getLastMessageIdResponse | broker | request_id message_id=last_message_id | | | 12
31 ACTIVE_CONSUMER_CHANGE | active_consumer_change | broker | consumer_id | | | 12
32 GET_TOPICS_OF_NAMESPACE | getTopicsOfNamespace | client | request_id | GET_TOPICS_OF_NAMESPACE_RESPONSE ERROR | request_id | 12
33 GET_TOPICS_OF_NAMESPACE_RESPONSE | getTopicsOfNamespaceResponse | broker | request_id topic=topics | | | 12
34 GET_SCHEMA | getSchema | client | request_id topic | GET_SCHEMA_RESPONSE ERROR | request_id | 13
35 GET_SCHEMA_RESPONSE | getSchemaResponse | broker | request_id error=error_code | | | 13
36 AUTH_CHALLENGE | authChallenge | broker | | AUTH_RESPONSE | order | 14
37 AUTH_RESPONSE | authResponse | client | | CONNECTED AUTH_CHALLENGE ERROR | order | 14
38 ACK_RESPONSE | ackResponse | broker | consumer_id request_id error | | | 17
39 GET_OR_CREATE_SCHEMA | getOrCreateSchema | client | request_id topic producer_name=producerName | GET_OR_CREATE_SCHEMA_RESPONSE ERROR | request_id | 15
40 GET_OR_CREATE_SCHEMA_RESPONSE | getOrCreateSchemaResponse | broker | request_id error=error_code | | | 15
50 NEW_TXN | newTxn | client | request_id | NEW_TXN_RESPONSE ERROR | request_id | 15
51 NEW_TXN_RESPONSE | newTxnResponse | broker | request_id error | | | 15
52 ADD_PARTITION_TO_TXN | addPartitionToTxn | client | request_id topic=partitions | ADD_PARTITION_TO_TXN_RESPONSE ERROR | request_id | 15
53 ADD_PARTITION_TO_TXN_RESPONSE | addPartitionToTxnResponse | broker | request_id error | | | 15
54 ADD_SUBSCRIPTION_TO_TXN | addSubscriptionToTxn | client | request_id topic=subscription.topic subscription=subscription.subscription | ADD_SUBSCRIPTION_TO_TXN_RESPONSE ERROR | request_id | 15
55 ADD_SUBSCRIPTION_TO_TXN_RESPONSE | addSubscriptionToTxnResponse | broker | request_id error | | | 15
56 END_TXN | endTxn | client | request_id | END_TXN_RESPONSE ERROR | request_id | 15
57 END_TXN_RESPONSE | endTxnResponse | broker | request_id error | | | 15
58 END_TXN_ON_PARTITION | endTxnOnPartition | client | request_id topic | END_TXN_ON_PARTITION_RESPONSE ERROR | request_id | 15
59 END_TXN_ON_PARTITION_RESPONSE | endTxnOnPartitionResponse | broker | request_id error | | | 15
60 END_TXN_ON_SUBSCRIPTION | endTxnOnSubscription | client | request_id topic=subscription.topic subscription=subscription.subscription | END_TXN_ON_SUBSCRIPTION_RESPONSE ERROR | request_id | 15
61 END_TXN_ON_SUBSCRIPTION_RESPONSE | endTxnOnSubscriptionResponse | broker | request_id error | | | 15
62 TC_CLIENT_CONNECT_REQUEST | tcClientConnectRequest | client | request_id | TC_CLIENT_CONNECT_RESPONSE ERROR | request_id | 19
63 TC_CLIENT_CONNECT_RESPONSE | tcClientConnectResponse | broker | request_id error | | | 19
64 WATCH_TOPIC_LIST | watchTopicList | client | request_id | WATCH_TOPIC_LIST_SUCCESS ERROR | request_id | 19 | supports_topic_watchers
65 WATCH_TOPIC_LIST_SUCCESS | watchTopicListSuccess | broker | request_id topic | | | 19 | supports_topic_watchers
66 WATCH_TOPIC_UPDATE | watchTopicUpdate | broker | topic=new_topics | | | 19 | supports_topic_watchers
67 WATCH_TOPIC_LIST_CLOSE | watchTopicListClose | client | request_id | SUCCESS ERROR | request_id | 19 | supports_topic_watchers
68 TOPIC_MIGRATED | topicMigrated | broker | | | | 20
70 SCALABLE_TOPIC_LOOKUP | scalableTopicLookup | client | topic | SCALABLE_TOPIC_UPDATE | session_id | 21 | supports_scalable_topics
71 SCALABLE_TOPIC_UPDATE | scalableTopicUpdate | broker | topic=resolved_topic_name error | | | 21 | supports_scalable_topics
72 SCALABLE_TOPIC_CLOSE | scalableTopicClose | client | | | | 21 | supports_scalable_topics
73 SCALABLE_TOPIC_SUBSCRIBE | scalableTopicSubscribe | client | request_id consumer_id consumer_name topic subscription | SCALABLE_TOPIC_SUBSCRIBE_RESPONSE ERROR | request_id | 21 | supports_scalable_topics
74 SCALABLE_TOPIC_SUBSCRIBE_RESPONSE | scalableTopicSubscribeResponse | broker | request_id error | | | 21 | supports_scalable_topics
75 SCALABLE_TOPIC_ASSIGNMENT_UPDATE | scalableTopicAssignmentUpdate | broker | consumer_id | | | 21 | supports_scalable_topics
76 WATCH_SCALABLE_TOPICS | watchScalableTopics | client | | WATCH_SCALABLE_TOPICS_UPDATE | watch_id | 21 | supports_scalable_topics
77 WATCH_SCALABLE_TOPICS_UPDATE | watchScalableTopicsUpdate | broker | error | | | 21 | supports_scalable_topics
78 WATCH_SCALABLE_TOPICS_CLOSE | watchScalableTopicsClose | client | | | | 21 | supports_scalable_topics
79 WATCH_TC_ASSIGNMENTS | watchTcAssignments | client | | WATCH_TC_ASSIGNMENTS_UPDATE | watch_id | 21 | supports_tc_metadata_discovery
80 WATCH_TC_ASSIGNMENTS_UPDATE | watchTcAssignmentsUpdate | broker | error | | | 21 | supports_tc_metadata_discovery
81 WATCH_TC_ASSIGNMENTS_CLOSE | watchTcAssignmentsClose | client | | | | 21 | supports_tc_metadata_discovery
82 SCALABLE_TOPIC_UNSUBSCRIBE | scalableTopicUnsubscribe | client | request_id consumer_id | SUCCESS ERROR | request_id | 21 | supports_scalable_topics
"""  # noqa: E501  (a table reads best with a row on a line)


def _row(line: str) -> CommandRow:
    cells = [cell.strip() for cell in line.split("|")]
    head, field, sender, ids, answers, paired_by, since = cells[:7]
    number, name = head.split()
    paths = {word.partition("=")[0]: word.partition("=")[2] or word for word in ids.split()}
    feature = cells[7] if len(cells) > 7 else ""
    return CommandRow(int(number), name, field, sender, paths, tuple(answers.split()), paired_by, int(since), feature)


COMMANDS: Final[dict[int, CommandRow]] = {row.number: row for row in map(_row, _TABLE.strip().splitlines())}
"""All command types by number."""

BY_NAME: Final[dict[str, CommandRow]] = {row.name: row for row in COMMANDS.values()}
"""All command types by name."""

PAYLOAD_TYPES: Final = frozenset({BY_NAME["SEND"].number, BY_NAME["MESSAGE"].number})
"""The commands followed by headers and a payload."""


NO_TYPE: Final = "NO_TYPE"
"""The name shown for a command without a type."""


def name_of(number: int) -> str:
    """Return the name of a command type, ``UNKNOWN_<number>`` if no protocol version has it, or NO_TYPE for -1."""
    row = COMMANDS.get(number)
    if row is not None:
        return row.name
    return f"UNKNOWN_{number}" if number >= 0 else NO_TYPE
