"""Share groups, and the coordinator that keeps the state of their partitions.

Names, types and ranges that 3.9.1 has are its, but for three that 4.3 has made wider or larger (`docs/differences.md`). The
others are those of 4.3.
Source: Kafka ShareGroupConfig, ShareCoordinatorConfig, GroupCoordinatorConfig of 3.9.1 and 4.3.0.
"""

from __future__ import annotations

from config.definition import BOOLEAN, CLUSTER_WIDE, INT, LIST, SHORT, MiB, SettingTable, setting
from config.validators import at_least, between


class ShareGroupSettings(SettingTable):
    group_share_assignment_interval_ms: int = setting(
        "group.share.assignment.interval.ms", INT, 1000, at_least(0), CLUSTER_WIDE, internal=True,
        with_levels=True,
        effective=True,
        doc="Time between two assignments of a share group.")
    group_share_assignors: tuple[str, ...] = setting(
        "group.share.assignors", LIST, ("simple",), internal=True, with_levels=True,
        doc="Assignors of share groups by name or by class; there is one, simple.")
    group_share_delivery_count_limit: int = setting("group.share.delivery.count.limit", INT, 5, between(2, 10),
        effective=True,
        doc="Deliveries of a record in a share group at most.")
    group_share_enable: bool = setting("group.share.enable", BOOLEAN, False, internal=True,
        doc="Whether share groups are served.")
    group_share_heartbeat_interval_ms: int = setting("group.share.heartbeat.interval.ms", INT, 5000, at_least(1),
        effective=True,
        doc="Heartbeat interval of share groups.")
    group_share_initialize_retry_interval_ms: int = setting(
        "group.share.initialize.retry.interval.ms", INT, 30_000, at_least(1), internal=True,
        effective=True,
        doc="Time after which share partitions that are being initialised are initialised again.")
    group_share_max_assignment_interval_ms: int = setting(
        "group.share.max.assignment.interval.ms", INT, 15_000, at_least(0), internal=True, with_levels=True,
        effective=True,
        doc="Longest time between two assignments that a share group may set.")
    group_share_max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit", INT, 10, between(5, 25), internal=True, with_levels=True,
        effective=True,
        doc="Largest number of deliveries that a share group may set.")
    group_share_max_groups: int = setting("group.share.max.groups", SHORT, 10, between(1, 100),
        doc="Share groups at most.")
    group_share_max_heartbeat_interval_ms: int = setting(
        "group.share.max.heartbeat.interval.ms", INT, 15_000, at_least(1),
        effective=True,
        doc="Largest heartbeat interval of share groups.")
    group_share_max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks", INT, 4000, between(2000, 10_000), internal=True,
        with_levels=True,
        effective=True,
        doc="Largest number of locked records of a partition that a share group may set.")
    group_share_max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms", INT, 60_000, between(30_000, 3_600_000),
        effective=True,
        doc="Longest lock on a record in a share group.")
    group_share_max_session_timeout_ms: int = setting("group.share.max.session.timeout.ms", INT, 60_000, at_least(1),
        effective=True,
        doc="Largest session timeout of share groups.")
    group_share_max_share_sessions: int = setting(
        "group.share.max.share.sessions", INT, 2000, at_least(1), internal=True, with_levels=True,
        effective=True,
        doc="Share sessions of a broker at most: one for each member of a share group that reads from it.")
    group_share_max_size: int = setting("group.share.max.size", SHORT, 200, between(1, 1000),
        effective=True,
        doc="Members of a share group at most.")
    group_share_min_assignment_interval_ms: int = setting(
        "group.share.min.assignment.interval.ms", INT, 0, at_least(0), internal=True, with_levels=True,
        effective=True,
        doc="Shortest time between two assignments that a share group may set.")
    group_share_min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit", INT, 2, between(2, 5), internal=True, with_levels=True,
        effective=True,
        doc="Smallest number of deliveries that a share group may set.")
    group_share_min_heartbeat_interval_ms: int = setting(
        "group.share.min.heartbeat.interval.ms", INT, 5000, at_least(1),
        effective=True,
        doc="Smallest heartbeat interval of share groups.")
    group_share_min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks", INT, 100, between(100, 2000), internal=True,
        with_levels=True,
        effective=True,
        doc="Smallest number of locked records of a partition that a share group may set.")
    group_share_min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms", INT, 15_000, between(1000, 30_000),
        effective=True,
        doc="Shortest lock on a record in a share group.")
    group_share_min_session_timeout_ms: int = setting("group.share.min.session.timeout.ms", INT, 45_000, at_least(1),
        effective=True,
        doc="Smallest session timeout of share groups.")
    group_share_partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks", INT, 2000, between(100, 10_000), with_levels=True,
        kafka_default=200,
        effective=True,
        doc="Locked records of a partition in a share group at most.")
    group_share_record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms", INT, 30_000, between(1000, 3_600_000),
        effective=True,
        doc="Lock on a record in a share group.")
    group_share_session_timeout_ms: int = setting("group.share.session.timeout.ms", INT, 45_000, at_least(1),
        effective=True,
        doc="Session timeout of share groups.")
    share_coordinator_append_linger_ms: int = setting(
        "share.coordinator.append.linger.ms", INT, -1, at_least(-1), internal=True, with_levels=True,
        doc="Time the share coordinator gathers records before it writes; -1 is none.")
    share_coordinator_cached_buffer_max_bytes: int = setting(
        "share.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288), CLUSTER_WIDE, internal=True,
        with_levels=True,
        doc="Size of a buffer that the share coordinator keeps for writing.")
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        "share.coordinator.cold.partition.snapshot.interval.ms", INT, 300_000, at_least(1), internal=True,
        effective=True,
        doc="Time after which a share partition that was not written has its snapshot written again.")
    share_coordinator_load_buffer_size: int = setting(
        "share.coordinator.load.buffer.size", INT, 5 * MiB, at_least(1), internal=True, with_levels=True,
        effective=True,
        doc="Bytes read at a time when the state of share groups is loaded.")
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500), internal=True,
        with_levels=True,
        effective=True,
        doc="Updates of a share partition's state that are stored between two snapshots.")
    share_coordinator_state_topic_compression_codec: int = setting(
        "share.coordinator.state.topic.compression.codec", INT, 0, internal=True, with_levels=True,
        effective=True,
        doc="Codec of the topic with the state of share groups by its number; 0 is none.")
    share_coordinator_state_topic_min_isr: int = setting(
        "share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1), internal=True, with_levels=True,
        effective=True,
        doc="Replicas in sync that a write of the state of share groups needs.")
    share_coordinator_state_topic_num_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions", INT, 50, at_least(1), internal=True, with_levels=True,
        effective=True,
        doc="Partitions of the topic with the state of share groups when it is created.")
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms", INT, 300_000, at_least(1), internal=True,
        effective=True,
        doc="Time between deletions of what snapshots have replaced in the topic with the state of share groups.")
    share_coordinator_state_topic_replication_factor: int = setting(
        "share.coordinator.state.topic.replication.factor", SHORT, 3, at_least(1), internal=True,
        with_levels=True,
        effective=True,
        doc="Replicas of the topic with the state of share groups when it is created.")
    share_coordinator_state_topic_segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes", INT, 100 * MiB, at_least(1), internal=True,
        with_levels=True,
        effective=True,
        doc="Segment size of the topic with the state of share groups, in bytes.")
    share_coordinator_threads: int = setting(
        "share.coordinator.threads", INT, 1, at_least(1), internal=True, with_levels=True,
        doc="Threads of the share coordinator.")
    share_coordinator_write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms", INT, 5000, at_least(1), internal=True, with_levels=True,
        effective=True,
        doc="Time a write of the share coordinator waits for its replicas.")
    share_fetch_purgatory_purge_interval_requests: int = setting(
        "share.fetch.purgatory.purge.interval.requests", INT, 1000, internal=True, with_levels=True,
        doc="Requests after which waiting share fetches that are done with are removed.")
