"""The Java types of request bodies other than policies."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.policies.java_types import STRING, Enum, EnumSet, JavaList, Map, Strings, bean
from pcli.minibroker.policies.policy_types import AUTH_ACTION

_DATA: Final = "org.apache.pulsar.common.policies.data"
_LARGEST: Final = (1 << 63) - 1

CLUSTER_NAMES: Final = Strings("java.util.LinkedHashSet")
BOOKIE_INFO: Final = bean(f"{_DATA}.impl.BookieInfoImpl", "rack:string hostname:string")
TENANT: Final = bean(f"{_DATA}.TenantInfoImpl", "adminRoles:set allowedClusters:set")
_URLS: Final = "serviceUrl:string serviceUrlTls:string brokerServiceUrl:string brokerServiceUrlTls:string"
CLUSTER: Final = bean(
    f"{_DATA}.ClusterDataImpl",
    f"""
    {_URLS} proxyServiceUrl:string authenticationPlugin:string authenticationParameters:string proxyProtocol:protocol
    peerClusterNames:names brokerClientTlsEnabled:boolean=false tlsAllowInsecureConnection:boolean=false
    brokerClientTlsEnabledWithKeyStore:boolean=false brokerClientTlsTrustStoreType:string
    brokerClientTlsTrustStore:string brokerClientTlsTrustStorePassword:string brokerClientTlsKeyStoreType:string
    brokerClientTlsKeyStore:string brokerClientTlsKeyStorePassword:string brokerClientTrustCertsFilePath:string
    brokerClientKeyFilePath:string brokerClientCertificateFilePath:string brokerClientSslFactoryPlugin:string
    brokerClientSslFactoryPluginParams:string listenerName:string
    """,
    protocol=Enum("org.apache.pulsar.client.api.ProxyProtocol", ("SNI",)),
    names=CLUSTER_NAMES,
)
CLUSTER_URLS: Final = bean(f"{_DATA}.ClusterPolicies$ClusterUrl", _URLS)
FAILURE_DOMAIN: Final = bean(f"{_DATA}.FailureDomainImpl", "brokers:set")
_FAILOVER: Final = bean(
    f"{_DATA}.AutoFailoverPolicyDataImpl",
    "policy_type:kind parameters:map",
    kind=Enum(f"{_DATA}.AutoFailoverPolicyType", ("min_available",)),
)
ISOLATION_POLICY: Final = bean(
    f"{_DATA}.NamespaceIsolationDataImpl",
    "namespaces:list primary:list secondary:list auto_failover_policy:failover unload_scope:scope",
    failover=_FAILOVER,
    scope=Enum(f"{_DATA}.NamespaceIsolationPolicyUnloadScope", ("all_matching", "none", "changed")),
)
RESOURCE_GROUP: Final = bean(
    f"{_DATA}.ResourceGroup",
    "publishRateInMsgs:Integer publishRateInBytes:Long dispatchRateInMsgs:Integer dispatchRateInBytes:Long",
)
RESOURCE_QUOTA: Final = bean(
    f"{_DATA}.ResourceQuota",
    "msgRateIn:double=0.0 msgRateOut:double=0.0 bandwidthIn:double=0.0 bandwidthOut:double=0.0 memory:double=0.0 "
    "dynamic:boolean=true",
)
GRANTED_TOPICS: Final = JavaList(
    bean(
        "org.apache.pulsar.client.admin.GrantTopicPermissionOptions",
        "topic:string role:string actions:actions",
        actions=EnumSet(AUTH_ACTION),
    )
)
REVOKED_TOPICS: Final = JavaList(
    bean("org.apache.pulsar.client.admin.RevokeTopicPermissionOptions", "topic:string role:string")
)
SCHEMA: Final = bean(
    "org.apache.pulsar.common.protocol.schema.PostSchemaPayload", "type:string schema:string properties:map"
)
PARTITIONED_METADATA: Final = bean(
    "org.apache.pulsar.common.partition.PartitionedTopicMetadata",
    "partitions:int=0 properties:texts",
    texts=Map(STRING),
)
MESSAGE_ID: Final = bean(
    "org.apache.pulsar.client.impl.MessageIdImpl", "ledgerId:long=0 entryId:long=0 partitionIndex:int=0"
)


def _named_position(text: str) -> dict[str, Any]:
    """Return the position with a name (ResetCursorData). Raises ValueError for other names."""
    if text not in ("latest", "earliest"):
        raise ValueError(f"Invalid value {text} for the position. Allowed values are [latest, earliest]")
    number = _LARGEST if text == "latest" else -1
    return {"ledgerId": number, "entryId": number, "partitionIndex": -1, "batchIndex": -1, "excluded": False}


RESET_CURSOR: Final = bean(
    "org.apache.pulsar.client.impl.ResetCursorData",
    "ledgerId:long=0 entryId:long=0 partitionIndex:int=-1 excluded:boolean=false batchIndex:int=-1 properties:map",
    scalar=_named_position,
    scalars=("VALUE_STRING",),
)
