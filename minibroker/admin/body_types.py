"""The Java types of request bodies other than policies."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.policies.java_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGER,
    LONG,
    LONG_OBJECT,
    STRING,
    STRING_LIST,
    STRING_MAP,
    STRING_SET,
    Bean,
    Enum,
    EnumSet,
    JavaList,
    JavaType,
    Map,
    Strings,
)
from pcli.minibroker.policies.policy_types import AUTH_ACTION

__all__ = [
    "BOOKIE_INFO",
    "CLUSTER",
    "CLUSTER_NAMES",
    "CLUSTER_URLS",
    "FAILURE_DOMAIN",
    "GRANTED_TOPICS",
    "ISOLATION_POLICY",
    "MESSAGE_ID",
    "PARTITIONED_METADATA",
    "RESET_CURSOR",
    "RESOURCE_GROUP",
    "RESOURCE_QUOTA",
    "REVOKED_TOPICS",
    "SCHEMA",
    "TENANT",
]

_DATA: Final = "org.apache.pulsar.common.policies.data"
_LARGEST: Final = (1 << 63) - 1

CLUSTER_NAMES: Final = Strings("java.util.LinkedHashSet")


def _strings(*names: str) -> dict[str, tuple[JavaType, Any]]:
    return dict.fromkeys(names, (STRING, None))


BOOKIE_INFO: Final = Bean(f"{_DATA}.impl.BookieInfoImpl", _strings("rack", "hostname"))
TENANT: Final = Bean(
    f"{_DATA}.TenantInfoImpl", {"adminRoles": (STRING_SET, None), "allowedClusters": (STRING_SET, None)}
)
_URLS: Final = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")
CLUSTER: Final = Bean(
    f"{_DATA}.ClusterDataImpl",
    {
        **_strings(*_URLS, "proxyServiceUrl"),
        "authenticationPlugin": (STRING, None),
        "authenticationParameters": (STRING, None),
        "proxyProtocol": (Enum("org.apache.pulsar.client.api.ProxyProtocol", ("SNI",)), None),
        "peerClusterNames": (CLUSTER_NAMES, None),
        "brokerClientTlsEnabled": (BOOLEAN, False),
        "tlsAllowInsecureConnection": (BOOLEAN, False),
        "brokerClientTlsEnabledWithKeyStore": (BOOLEAN, False),
        **_strings(
            "brokerClientTlsTrustStoreType",
            "brokerClientTlsTrustStore",
            "brokerClientTlsTrustStorePassword",
            "brokerClientTlsKeyStoreType",
            "brokerClientTlsKeyStore",
            "brokerClientTlsKeyStorePassword",
            "brokerClientTrustCertsFilePath",
            "brokerClientKeyFilePath",
            "brokerClientCertificateFilePath",
            "brokerClientSslFactoryPlugin",
            "brokerClientSslFactoryPluginParams",
            "listenerName",
        ),
    },
)
CLUSTER_URLS: Final = Bean(f"{_DATA}.ClusterPolicies$ClusterUrl", _strings(*_URLS))
FAILURE_DOMAIN: Final = Bean(f"{_DATA}.FailureDomainImpl", {"brokers": (STRING_SET, None)})
ISOLATION_POLICY: Final = Bean(
    f"{_DATA}.NamespaceIsolationDataImpl",
    {
        "namespaces": (STRING_LIST, None),
        "primary": (STRING_LIST, None),
        "secondary": (STRING_LIST, None),
        "auto_failover_policy": (
            Bean(
                f"{_DATA}.AutoFailoverPolicyDataImpl",
                {
                    "policy_type": (Enum(f"{_DATA}.AutoFailoverPolicyType", ("min_available",)), None),
                    "parameters": (STRING_MAP, None),
                },
            ),
            None,
        ),
        "unload_scope": (
            Enum(f"{_DATA}.NamespaceIsolationPolicyUnloadScope", ("all_matching", "none", "changed")),
            None,
        ),
    },
)
RESOURCE_GROUP: Final = Bean(
    f"{_DATA}.ResourceGroup",
    {
        "publishRateInMsgs": (INTEGER, None),
        "publishRateInBytes": (LONG_OBJECT, None),
        "dispatchRateInMsgs": (INTEGER, None),
        "dispatchRateInBytes": (LONG_OBJECT, None),
    },
)
RESOURCE_QUOTA: Final = Bean(
    f"{_DATA}.ResourceQuota",
    {
        **dict.fromkeys(("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut", "memory"), (DOUBLE, 0.0)),
        "dynamic": (BOOLEAN, True),
    },
)
GRANTED_TOPICS: Final = JavaList(
    Bean(
        "org.apache.pulsar.client.admin.GrantTopicPermissionOptions",
        {**_strings("topic", "role"), "actions": (EnumSet(AUTH_ACTION), None)},
    )
)
REVOKED_TOPICS: Final = JavaList(
    Bean("org.apache.pulsar.client.admin.RevokeTopicPermissionOptions", _strings("topic", "role"))
)
SCHEMA: Final = Bean(
    "org.apache.pulsar.common.protocol.schema.PostSchemaPayload",
    {"type": (STRING, None), "schema": (STRING, None), "properties": (STRING_MAP, None)},
)
PARTITIONED_METADATA: Final = Bean(
    "org.apache.pulsar.common.partition.PartitionedTopicMetadata",
    {"partitions": (INT, 0), "properties": (Map(STRING), None)},
)
MESSAGE_ID: Final = Bean(
    "org.apache.pulsar.client.impl.MessageIdImpl",
    {"ledgerId": (LONG, 0), "entryId": (LONG, 0), "partitionIndex": (INT, 0)},
)


def _named_position(text: str) -> dict[str, Any]:
    """Return the position with a name (ResetCursorData). Raises ValueError for other names."""
    if text not in ("latest", "earliest"):
        raise ValueError(f"Invalid value {text} for the position. Allowed values are [latest, earliest]")
    number = _LARGEST if text == "latest" else -1
    return {"ledgerId": number, "entryId": number, "partitionIndex": -1, "batchIndex": -1, "excluded": False}


RESET_CURSOR: Final = Bean(
    "org.apache.pulsar.client.impl.ResetCursorData",
    {
        "ledgerId": (LONG, 0),
        "entryId": (LONG, 0),
        "partitionIndex": (INT, -1),
        "excluded": (BOOLEAN, False),
        "batchIndex": (INT, -1),
        "properties": (STRING_MAP, None),
    },
    scalar=_named_position,
    scalars=("VALUE_STRING",),
)
