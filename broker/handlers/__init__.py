"""One module per API. `ALL` is the table: what stands in it is served and advertised, and nothing is registered elsewhere."""

from __future__ import annotations

from typing import Any

from broker.dispatch import Handler
from broker.handlers.alter_configs import alter_configs
from broker.handlers.api_versions import api_versions
from broker.handlers.create_partitions import create_partitions
from broker.handlers.create_topics import create_topics
from broker.handlers.delete_groups import delete_groups
from broker.handlers.delete_records import delete_records
from broker.handlers.delete_topics import delete_topics
from broker.handlers.describe_cluster import describe_cluster
from broker.handlers.describe_configs import describe_configs
from broker.handlers.describe_groups import describe_groups
from broker.handlers.describe_log_dirs import describe_log_dirs
from broker.handlers.elect_leaders import elect_leaders
from broker.handlers.fetch import fetch
from broker.handlers.find_coordinator import find_coordinator
from broker.handlers.heartbeat import heartbeat
from broker.handlers.incremental_alter_configs import incremental_alter_configs
from broker.handlers.init_producer_id import init_producer_id
from broker.handlers.join_group import join_group
from broker.handlers.leave_group import leave_group
from broker.handlers.list_groups import list_groups
from broker.handlers.list_offsets import list_offsets
from broker.handlers.metadata import metadata
from broker.handlers.offset_commit import offset_commit
from broker.handlers.offset_delete import offset_delete
from broker.handlers.offset_fetch import offset_fetch
from broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from broker.handlers.produce import produce
from broker.handlers.sync_group import sync_group

# By API key.
ALL: tuple[Handler[Any], ...] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    describe_configs,
    alter_configs,
    describe_log_dirs,
    create_partitions,
    delete_groups,
    elect_leaders,
    incremental_alter_configs,
    offset_delete,
    describe_cluster,
)
