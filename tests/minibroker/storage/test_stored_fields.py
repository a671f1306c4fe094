"""Each field of the classes with stored state is either in a document or listed here as not stored."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.compaction.compacted_topic import CompactedLedger, CompactedTopic
from pcli.minibroker.policies import policy_documents
from pcli.minibroker.policies.policy_store import Cluster, Namespace, Policies, Tenant, TopicValues
from pcli.minibroker.scalable.scalable_topic import ScalableTopic
from pcli.minibroker.schema.registry import SchemaRegistry, StoredSchema
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.storage.ledger import Ledger, ManagedLedger
from pcli.minibroker.topics.deduplication import DeduplicationSnapshot, MessageDeduplication
from pcli.minibroker.topics.producer_access import ProducerAccess
from pcli.minibroker.topics.topic import Topic
from pcli.minibroker.topics.topic_compaction import TopicCompaction
from pcli.minibroker.topics.topic_registry import TopicRegistry
from pcli.minibroker.transactions.metadata_store import MLTransactionMetadataStore, TxnMeta
from pcli.minibroker.transactions.metadata_store_service import TransactionMetadataStoreService
from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle
from pcli.minibroker.transactions.transaction_buffer import TopicTransactionBuffer
from pcli.minibroker.transactions.transaction_documents import encode_transaction

FIELDS: dict[type, tuple[str, str]] = {
    # class: fields in documents, other fields (they are computed, follow from the settings, or are lost in an unload)
    Cluster: ("data domains isolation", ""),
    Tenant: ("roles clusters", ""),
    Namespace: (
        "name clusters allowed_clusters policies quotas permissions subscription_permissions properties anti_affinity "
        "resource_group stored edges",
        "",
    ),
    TopicValues: ("clusters dispatch_rates offload offload_requested shadow_topics", ""),
    TxnMeta: ("id opened_ms timeout_ms status topics subscriptions owner ended_ms", "waiting timer"),
    Ledger: ("id base entries size created_ms closed_ms", ""),
    ManagedLedger: (
        "ledgers next terminated _storage",
        "name first followers last_add_ms closed entries_read young_entries old_entries _by_id _cache _current "
        "_deleted_up_to _fenced _full_at _full_entries _full_size _loaded_at _min_age _new_ledger_id _settings",
    ),
    ManagedCursor: (
        "name mark_delete properties ack_sets _pages",
        "durable changes read_position waits_at_end _ledger _deleted _highest _initial _read_end _start "
        "_start_of_ledger",
    ),
    Topic: (
        "name created message_index producer_access ledger subscriptions deduplication deduplication_snapshot "
        "transaction_buffer compaction",
        "broker full_name partition persistent schema_id shadow_source load_topic make_dispatcher documents producers "
        "fenced fast_path entries_announced entries_in effective_policies transactions_enabled last_active "
        "backlog_quota detached_cursors bytes_out_removed messages_out_removed chunk_published shadow_replicators "
        "_bytes_in_removed _messages_in_removed last_dispatchable _trimming",
    ),
    MessageDeduplication: ("_highest", "_before _gone _settings"),
    DeduplicationSnapshot: ("cursor", "on_take _entries _ledger _settings _taken"),
    TopicTransactionBuffer: (
        "ongoing aborted ready last_snapshot_ms",
        "aborted_count committed_count low_water_marks on_change _append _ledger",
    ),
    PendingAckHandle: (
        "transactions cumulative places initialized_ms",
        "low_water_marks on_change _sorted_places _target _topic_and_name",
    ),
    CompactedTopic: ("horizon ledger", ""),
    CompactedLedger: ("id size _storage _index _offsets _ledger_ids _entry_ids", "deleted _partition"),
    ProducerAccess: ("epoch", "producers exclusive holder _waiting"),
    TopicCompaction: ("compacted", "error record status _compactor _ledger _run _started _timer _topic"),
    StoredSchema: ("schema timestamp version", "_key _parsed"),
    MLTransactionMetadataStore: (
        "coordinator sequence_id metas",
        "aborted committed on_change opened_ms timed_out updates",
    ),
    TransactionMetadataStoreService: ("stores _stored", "on_change _client _scheduler _settings"),
    TopicRegistry: (
        "stored",
        "lookups on_load_failure segment_exists taken topics _broker _changed _make_dispatcher _served _unloaded",
    ),
    ScalableTopic: (
        "name layout properties policy subscription_types coordinators",
        "controlled ticks last last_by_kind loads cold_since",
    ),
}

INSTANCES: dict[type, tuple[Any, str, str]] = {
    # class: an instance without slots, fields in documents, other fields
    Policies: (
        Policies(Settings()),
        "clusters migrations tenants namespaces partitioned topics quotas bookie_racks topic_values resource_groups "
        "resource_quotas properties topic_permissions dynamic",
        "settings on_change on_partitions_change default_quota",
    ),
    SchemaRegistry: (SchemaRegistry(), "_stored _next", "on_change"),
}


def _attributes(kind: type) -> set[str]:
    """Return the attributes that the source of a class assigns."""
    tree = ast.walk(ast.parse(inspect.getsource(kind)))
    stored = (node for node in tree if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_each_field_is_stored_or_listed(kind: type) -> None:
    names = {one.name for one in fields(kind)} if is_dataclass(kind) else _attributes(kind)
    stored, other = (set(text.split()) for text in FIELDS[kind])
    assert names == stored | other
    assert not stored & other


@pytest.mark.parametrize("kind", INSTANCES, ids=lambda kind: kind.__name__)
def test_each_attribute_is_stored_or_listed(kind: type) -> None:
    instance, stored, other = INSTANCES[kind]
    assert set(vars(instance)) == set(stored.split()) | set(other.split())


def test_each_attribute_of_a_subscription_is_stored_or_listed(make_world: Any) -> None:
    world = make_world()
    world.client().subscribe()
    stored = "name properties replicated cursor pending_ack_handle"
    other = (
        "topic durable max_unacked delayed_delivery delayed_tick pauses_on_ack_state limits last_active _resetting "
        "kind dispatcher expired last_expire last_mark_delete last_flow messages_out_removed bytes_out_removed "
        "documents keeps_trimmed _noted_mark_delete _persistent_dispatcher _individual_dispatcher"
    )
    subscription = world.broker.topics["persistent://public/default/t"].subscriptions["sub"]
    assert set(vars(subscription)) == set(stored.split()) | set(other.split())


def test_the_documents_contain_the_fields() -> None:
    policies, name = Policies(Settings()), TopicName.parse("t")
    values = policies.values_of(name)
    values.shadow_topics = ["persistent://public/default/s"]
    documents = {
        Cluster: policy_documents.encode_cluster(Cluster()),
        Tenant: policy_documents.encode_tenant(Tenant()),
        Namespace: {"name": "", **policy_documents.encode_namespace(policies.namespaces["public/default"])},
        TopicValues: policy_documents.encode_topic(policies, str(name))["values"],
        TxnMeta: {"id": 0, **encode_transaction(TxnMeta((0, 0), 0, 0))},
    }
    for kind, document in documents.items():
        assert set(document) == set(FIELDS[kind][0].split()), kind
