"""Offload policies of namespaces and topics. They are checked and stored, but no ledger is offloaded.

Rules of this file
1. The policies of a topic precede those of its namespace, field by field.
2. The requests for a threshold or a deletion lag change one field of the policies.
3. An offload that is requested fails, as on a real broker without an offloader (NullLedgerOffloader).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pcli.minibroker.admin.body_types import MESSAGE_ID
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError, unexpected
from pcli.minibroker.admin.topics.message_responses import message_id
from pcli.minibroker.policies.java_types import LONG, Enum, bean
from pcli.minibroker.policies.policy_store import Namespace, TopicValues

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_POLICIES: Final = "offload_policies"
"""The key of the policies in the policies of a namespace."""

_S3_DRIVERS: Final = ("S3", "aws-s3")
_DRIVERS: Final = (*_S3_DRIVERS, "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")


OFFLOAD_POLICIES: Final = bean(
    "org.apache.pulsar.common.policies.data.OffloadPoliciesImpl",
    """
    offloadersDirectory:string="./offloaders" managedLedgerOffloadDriver:string
    managedLedgerOffloadMaxThreads:Integer=2 managedLedgerOffloadReadThreads:Integer=2
    managedLedgerOffloadPrefetchRounds:Integer=1 managedLedgerOffloadThresholdInSeconds:Long
    managedLedgerOffloadThresholdInBytes:Long managedLedgerOffloadDeletionLagInMillis:Long
    managedLedgerOffloadedReadPriority:priority managedLedgerExtraConfigurations:map={}
    s3ManagedLedgerOffloadRegion:string s3ManagedLedgerOffloadBucket:string
    s3ManagedLedgerOffloadServiceEndpoint:string s3ManagedLedgerOffloadMaxBlockSizeInBytes:Integer=67108864
    s3ManagedLedgerOffloadReadBufferSizeInBytes:Integer=1048576 s3ManagedLedgerOffloadCredentialId:string
    s3ManagedLedgerOffloadCredentialSecret:string s3ManagedLedgerOffloadRole:string
    s3ManagedLedgerOffloadRoleSessionName:string="pulsar-s3-offload" gcsManagedLedgerOffloadRegion:string
    gcsManagedLedgerOffloadBucket:string gcsManagedLedgerOffloadMaxBlockSizeInBytes:Integer=134217728
    gcsManagedLedgerOffloadReadBufferSizeInBytes:Integer=1048576 gcsManagedLedgerOffloadServiceAccountKeyFile:string
    fileSystemProfilePath:string fileSystemURI:string managedLedgerOffloadBucket:string
    managedLedgerOffloadRegion:string managedLedgerOffloadServiceEndpoint:string
    managedLedgerOffloadMaxBlockSizeInBytes:Integer managedLedgerOffloadReadBufferSizeInBytes:Integer
    """,
    priority=Enum(
        "org.apache.pulsar.common.policies.data.OffloadedReadPriority", ("BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST")
    ),
)
_DEFAULTS: Final = {name: value for name, (_, value) in OFFLOAD_POLICIES.fields.items() if value is not None}


def _with_drivers(policies: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return policies with the properties that OffloadPoliciesImpl derives from the driver."""
    if policies is None:
        return None
    driver = policies.get("managedLedgerOffloadDriver")
    ordered = {name: policies[name] for name in OFFLOAD_POLICIES.fields if name in policies}
    return {
        **ordered,
        "s3Driver": driver in _S3_DRIVERS,
        "gcsDriver": driver == "google-cloud-storage",
        "fileSystemDriver": driver == "filesystem",
    }


def _checked(body: dict[str, Any] | None) -> dict[str, Any]:
    """Return valid policies. Raises 412 (NamespacesBase.validateOffloadPolicies)."""
    if body is None:
        raise RestError(412, "The offloadPolicies must be specified for namespace offload.")
    driver = body.get("managedLedgerOffloadDriver")
    if driver is None or driver.lower() not in (one.lower() for one in _DRIVERS):
        raise RestError(412, f"The driver is not supported, support value: {','.join(_DRIVERS)}")
    own = {"S3": "s3ManagedLedgerOffloadBucket", "aws-s3": "s3ManagedLedgerOffloadBucket"}
    own["google-cloud-storage"] = "gcsManagedLedgerOffloadBucket"
    if driver in own and not (body.get(own[driver]) or body.get("managedLedgerOffloadBucket")):
        raise RestError(412, "The bucket must be specified for namespace offload.")
    return body


# -- namespaces --------------------------------------------------------------------------------------------------------


def _get(call: Call) -> Any:
    return Reply(200, call.namespace().stored.get(_POLICIES))


def _set(call: Call) -> None:
    body, space = _checked(call.body), call.broker.policies.namespaces.get(call.namespace_name)
    if space is None:
        exception = "org.apache.pulsar.metadata.api.MetadataStoreException$NotFoundException"
        raise unexpected(f"{exception}: ", "java.util.concurrent.CompletionException")
    space.stored[_POLICIES] = _with_drivers(body)


def _remove(call: Call) -> None:
    space = call.broker.policies.namespaces.get(call.namespace_name)
    if space is None:
        raise RestError(409, "Concurrent modification")
    space.stored.pop(_POLICIES, None)


def _field(space: Namespace, key: str, unset: int | None) -> int | None:
    policies: dict[str, Any] = space.stored.get(_POLICIES) or {}
    return policies.get(key, unset)


def _reader(key: str, unset: int | None) -> Callable[[Call], Reply]:
    return lambda call: Reply(200, _field(call.namespace(), key, unset))


def _put_field(call: Call, key: str, value: int | None) -> None:
    stored = call.namespace().stored
    policies = {**(stored.get(_POLICIES) or _DEFAULTS), key: value}
    stored[_POLICIES] = _with_drivers({name: item for name, item in policies.items() if item is not None})


def _writer(key: str, status: int) -> Callable[[Call], Reply]:
    def write(call: Call) -> Reply:
        _put_field(call, key, call.body)
        return Reply(status)

    return write


def _remove_lag(call: Call) -> None:
    _put_field(call, "managedLedgerOffloadDeletionLagInMillis", None)


def _scan(call: Call) -> None:
    """Fail as a real broker without an offloader."""
    raise PageError(500)


# -- topics ------------------------------------------------------------------------------------------------------------


def _get_topic(call: Call) -> Any:
    name, policies = call.topic_with_policies(), call.broker.policies
    own = policies.values_of(name).offload
    if not call.flag("applied"):
        return Reply(200, own)
    of_namespace: dict[str, Any] | None = call.namespace().stored.get(_POLICIES)
    if own is None or of_namespace is None:
        return Reply(200, own or of_namespace)
    return _with_drivers({**of_namespace, **own})


def _set_topic(call: Call) -> None:
    body, name = _checked(call.body), call.topic_with_policies()
    call.broker.policies.values_of(name).offload = _with_drivers(body)


def _remove_topic(call: Call) -> None:
    call.broker.policies.values_of(call.topic_with_policies()).offload = None


def _offloadable(call: Call) -> TopicValues:
    """Return the values of the topic in the path.

    Raises 404 for a partitioned topic, and 500 for a non-persistent one.
    """
    if call.broker.topic_registry.partitions(call.topic_name):
        raise RestError(404, f"Topic {call.topic_name} not found")
    topic = call.topic()
    if not topic.persistent:
        start = "org.apache.pulsar.broker.service."
        non, persistent = f"{start}nonpersistent.NonPersistentTopic", f"{start}persistent.PersistentTopic"
        raise unexpected(
            f"class {non} cannot be cast to class {persistent} "
            f"({non} and {persistent} are in unnamed module of loader 'app')",
            "java.lang.ClassCastException",
        )
    return call.broker.policies.values_of(topic.name)


def _trigger(call: Call) -> None:
    if call.body is None:
        raise RestError(400, "messageId is null")
    _offloadable(call).offload_requested = True


def _status(call: Call) -> Any:
    failed = _offloadable(call).offload_requested
    text = "org.apache.bookkeeper.mledger.ManagedLedgerException: [NullLedgerOffloader] does not support offload"
    return {
        "status": "ERROR" if failed else "NOT_RUN",
        "lastError": text if failed else "",
        "firstUnoffloadedMessage": message_id(call.broker.version, (-1, -1), -1),
    }


_BYTES, _SECONDS, _LAG = (
    "managedLedgerOffloadThresholdInBytes",
    "managedLedgerOffloadThresholdInSeconds",
    "managedLedgerOffloadDeletionLagInMillis",
)
ENDPOINTS: Final = (
    Endpoint("GET", f"{_SPACE}/offloadPolicies", _get, "offload policies (stored only)"),
    Endpoint("POST", f"{_SPACE}/offloadPolicies", _set, "set offload policies", OFFLOAD_POLICIES),
    Endpoint("DELETE", f"{_SPACE}/removeOffloadPolicies", _remove, "remove offload policies (stored only)"),
    Endpoint("GET", f"{_SPACE}/offloadThreshold", _reader(_BYTES, -1), "offload threshold in bytes (stored only)"),
    Endpoint("PUT", f"{_SPACE}/offloadThreshold", _writer(_BYTES, 204), "set offload threshold in bytes", LONG),
    Endpoint(
        "GET", f"{_SPACE}/offloadThresholdInSeconds", _reader(_SECONDS, -1), "offload threshold in time (stored only)"
    ),
    Endpoint("PUT", f"{_SPACE}/offloadThresholdInSeconds", _writer(_SECONDS, 200), "set offload threshold", LONG),
    Endpoint("GET", f"{_SPACE}/offloadDeletionLagMs", _reader(_LAG, None), "offload deletion lag (stored only)"),
    Endpoint("PUT", f"{_SPACE}/offloadDeletionLagMs", _writer(_LAG, 204), "set offload deletion lag", LONG),
    Endpoint("DELETE", f"{_SPACE}/offloadDeletionLagMs", _remove_lag, "remove offload deletion lag"),
    Endpoint("GET", f"{_SPACE}/scanOffloadedLedgers", _scan, "rejected: no ledgers are offloaded"),
    Endpoint("GET", f"{_TOPIC}/offloadPolicies", _get_topic, "offload policies of a topic (stored only)"),
    Endpoint("POST", f"{_TOPIC}/offloadPolicies", _set_topic, "set offload policies of a topic", OFFLOAD_POLICIES),
    Endpoint("DELETE", f"{_TOPIC}/offloadPolicies", _remove_topic, "remove offload policies of a topic"),
    Endpoint("GET", f"{_TOPIC}/offload", _status, "the state of the last offload"),
    Endpoint("PUT", f"{_TOPIC}/offload", _trigger, "offload a topic; the offload fails", MESSAGE_ID),
)
