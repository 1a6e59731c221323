"""One module per API. `ALL` is the table of the APIs that are served and advertised; there is no other registration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.handlers.brokers.alter_partition import alter_partition
from broker.handlers.brokers.alter_replica_log_dirs import alter_replica_log_dirs
from broker.handlers.brokers.api_versions import api_versions
from broker.handlers.brokers.controlled_shutdown import controlled_shutdown
from broker.handlers.brokers.describe_cluster import describe_cluster
from broker.handlers.brokers.describe_log_dirs import describe_log_dirs
from broker.handlers.brokers.envelope import envelope
from broker.handlers.brokers.leader_and_isr import leader_and_isr
from broker.handlers.brokers.stop_replica import stop_replica
from broker.handlers.brokers.update_features import update_features
from broker.handlers.brokers.update_metadata import update_metadata
from broker.handlers.configs.alter_client_quotas import alter_client_quotas
from broker.handlers.configs.alter_configs import alter_configs
from broker.handlers.configs.describe_client_quotas import describe_client_quotas
from broker.handlers.configs.describe_configs import describe_configs
from broker.handlers.configs.incremental_alter_configs import incremental_alter_configs
from broker.handlers.configs.list_config_resources import list_config_resources
from broker.handlers.groups.alter_share_group_offsets import alter_share_group_offsets
from broker.handlers.groups.consumer_group_describe import consumer_group_describe
from broker.handlers.groups.consumer_group_heartbeat import consumer_group_heartbeat
from broker.handlers.groups.delete_groups import delete_groups
from broker.handlers.groups.delete_share_group_offsets import delete_share_group_offsets
from broker.handlers.groups.describe_groups import describe_groups
from broker.handlers.groups.describe_share_group_offsets import describe_share_group_offsets
from broker.handlers.groups.find_coordinator import find_coordinator
from broker.handlers.groups.heartbeat import heartbeat
from broker.handlers.groups.join_group import join_group
from broker.handlers.groups.leave_group import leave_group
from broker.handlers.groups.list_groups import list_groups
from broker.handlers.groups.offset_commit import offset_commit
from broker.handlers.groups.offset_delete import offset_delete
from broker.handlers.groups.offset_fetch import offset_fetch
from broker.handlers.groups.share_group_describe import share_group_describe
from broker.handlers.groups.share_group_heartbeat import share_group_heartbeat
from broker.handlers.groups.sync_group import sync_group
from broker.handlers.records.delete_records import delete_records
from broker.handlers.records.fetch import fetch
from broker.handlers.records.fetch_message_sets import fetch_message_sets
from broker.handlers.records.list_offsets import list_offsets
from broker.handlers.records.offset_for_leader_epoch import offset_for_leader_epoch
from broker.handlers.records.produce import produce
from broker.handlers.records.produce_message_sets import produce_message_sets
from broker.handlers.records.repeated_fetch import RepeatedFetch
from broker.handlers.records.repeated_produce import RepeatedProduce
from broker.handlers.security.alter_user_scram_credentials import alter_user_scram_credentials
from broker.handlers.security.create_acls import create_acls
from broker.handlers.security.create_delegation_token import create_delegation_token
from broker.handlers.security.delete_acls import delete_acls
from broker.handlers.security.describe_acls import describe_acls
from broker.handlers.security.describe_delegation_token import describe_delegation_token
from broker.handlers.security.describe_user_scram_credentials import describe_user_scram_credentials
from broker.handlers.security.expire_delegation_token import expire_delegation_token
from broker.handlers.security.renew_delegation_token import renew_delegation_token
from broker.handlers.security.sasl_authenticate import sasl_authenticate
from broker.handlers.security.sasl_handshake import sasl_handshake
from broker.handlers.sharing.delete_share_group_state import delete_share_group_state
from broker.handlers.sharing.initialize_share_group_state import initialize_share_group_state
from broker.handlers.sharing.read_share_group_state import read_share_group_state
from broker.handlers.sharing.read_share_group_state_summary import read_share_group_state_summary
from broker.handlers.sharing.share_acknowledge import share_acknowledge
from broker.handlers.sharing.share_fetch import share_fetch
from broker.handlers.sharing.write_share_group_state import write_share_group_state
from broker.handlers.telemetry.get_telemetry_subscriptions import get_telemetry_subscriptions
from broker.handlers.telemetry.push_telemetry import push_telemetry
from broker.handlers.topics.alter_partition_reassignments import alter_partition_reassignments
from broker.handlers.topics.create_partitions import create_partitions
from broker.handlers.topics.create_topics import create_topics
from broker.handlers.topics.delete_topics import delete_topics
from broker.handlers.topics.elect_leaders import elect_leaders
from broker.handlers.topics.list_partition_reassignments import list_partition_reassignments
from broker.handlers.topics.metadata import metadata
from broker.handlers.transactions.add_offsets_to_txn import add_offsets_to_txn
from broker.handlers.transactions.add_partitions_to_txn import add_partitions_to_txn
from broker.handlers.transactions.allocate_producer_ids import allocate_producer_ids
from broker.handlers.transactions.describe_producers import describe_producers
from broker.handlers.transactions.describe_transactions import describe_transactions
from broker.handlers.transactions.end_txn import end_txn
from broker.handlers.transactions.init_producer_id import init_producer_id
from broker.handlers.transactions.list_transactions import list_transactions
from broker.handlers.transactions.txn_offset_commit import txn_offset_commit
from broker.handlers.transactions.write_txn_markers import write_txn_markers
from broker.network.routes import Handler

# By API key.
ALL: tuple[Handler[Any], ...] = (
    replace(produce, fast_path=RepeatedProduce),
    produce_message_sets,
    replace(fetch, fast_path=RepeatedFetch),
    fetch_message_sets,
    list_offsets,
    metadata,
    leader_and_isr,
    stop_replica,
    update_metadata,
    controlled_shutdown,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_config_resources,
    list_groups,
    sasl_handshake,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    write_txn_markers,
    txn_offset_commit,
    describe_acls,
    create_acls,
    delete_acls,
    describe_configs,
    alter_configs,
    describe_log_dirs,
    alter_replica_log_dirs,
    sasl_authenticate,
    create_partitions,
    create_delegation_token,
    renew_delegation_token,
    expire_delegation_token,
    describe_delegation_token,
    delete_groups,
    elect_leaders,
    incremental_alter_configs,
    describe_client_quotas,
    alter_client_quotas,
    describe_user_scram_credentials,
    alter_user_scram_credentials,
    alter_partition_reassignments,
    list_partition_reassignments,
    offset_delete,
    alter_partition,
    update_features,
    envelope,
    describe_cluster,
    describe_producers,
    describe_transactions,
    list_transactions,
    allocate_producer_ids,
    consumer_group_heartbeat,
    consumer_group_describe,
    share_group_heartbeat,
    share_group_describe,
    describe_share_group_offsets,
    alter_share_group_offsets,
    delete_share_group_offsets,
    share_fetch,
    share_acknowledge,
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
    delete_share_group_state,
    read_share_group_state_summary,
    get_telemetry_subscriptions,
    push_telemetry,
)
