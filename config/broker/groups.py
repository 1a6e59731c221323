"""Consumer groups and their offsets.

Source: Kafka GroupCoordinatorConfig.
"""

from __future__ import annotations

from config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    KiB,
    MiB,
    SettingTable,
    setting,
)
from config.validators import at_least, one_of, one_of_ignoring_case


class ConsumerGroupSettings(SettingTable):
    group_min_session_timeout_ms: int = setting("group.min.session.timeout.ms", INT, 6000, effective=True,
        doc="Shortest session timeout a member may ask for.")
    group_max_session_timeout_ms: int = setting("group.max.session.timeout.ms", INT, 1_800_000, effective=True,
        doc="Longest session timeout a member may ask for.")
    group_initial_rebalance_delay_ms: int = setting("group.initial.rebalance.delay.ms", INT, 3000, effective=True,
        doc="Time an empty group waits for more members before its first rebalance.")
    group_max_size: int = setting("group.max.size", INT, INT_MAX, at_least(1), effective=True,
        doc="Members of a group at most.")
    offset_metadata_max_bytes: int = setting("offset.metadata.max.bytes", INT, 4 * KiB, effective=True,
        doc="Length of the text a client may store with an offset.")
    offsets_commit_required_acks: int = setting("offsets.commit.required.acks", SHORT, -1, effective=True,
        doc="Acknowledgements an offset commit waits for; -1 is the in-sync set.")
    offsets_commit_timeout_ms: int = setting("offsets.commit.timeout.ms", INT, 5000, at_least(1), effective=True,
        doc="Time an offset commit waits for its replicas.")
    offsets_load_buffer_size: int = setting("offsets.load.buffer.size", INT, 5 * MiB, at_least(1), effective=True,
        doc="Bytes read at a time when offsets are loaded.")
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", LONG, 600_000, at_least(1), effective=True,
        doc="Time between checks for offsets to forget.")
    offsets_retention_minutes: int = setting("offsets.retention.minutes", INT, 10_080, at_least(1), effective=True,
        doc="Time after which the offsets of an empty group are forgotten.")
    offsets_topic_compression_codec: int = setting("offsets.topic.compression.codec", INT, 0, effective=True,
        doc="Codec of the offsets topic by its number; 0 is none.")
    offsets_topic_num_partitions: int = setting("offsets.topic.num.partitions", INT, 50, at_least(1), effective=True,
        doc="Partitions of the offsets topic when it is created.")
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor", SHORT, 3, at_least(1), effective=True,
        doc="Replicas of the offsets topic when it is created.")
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", INT, 100 * MiB, at_least(1), effective=True,
        doc="Segment size of the offsets topic, in bytes.")
    group_coordinator_append_linger_ms: int = setting("group.coordinator.append.linger.ms", INT, 10, at_least(0),
        doc="Time the new group coordinator gathers records before it writes.")
    group_coordinator_new_enable: bool = setting("group.coordinator.new.enable", BOOLEAN, False, internal=True,
        doc="Whether the new group coordinator runs (quorum controllers only).")
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        "group.coordinator.rebalance.protocols", LIST, ("classic",), one_of("consumer", "classic", "share",
        "unknown"),
        effective=True,
        doc="Group protocols that are served. Unset: classic, and consumer while group.version is above 0.")
    group_coordinator_threads: int = setting("group.coordinator.threads", INT, 1, at_least(1),
        doc="Threads of the new group coordinator.")
    group_consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors", LIST, ("org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor"),
        effective=True,
        doc="Assignors that members may ask for, uniform and range, by name or by class; the first is the default one.")
    group_consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms", INT, 1000, at_least(0), CLUSTER_WIDE, effective=True, internal=True,
        with_levels=True,
        doc="Time between two assignments of a group.")
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1), effective=True,
        doc="Heartbeat interval of the consumer protocol.")
    group_consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms", INT, 15_000, at_least(0), effective=True, internal=True, with_levels=True,
        doc="Longest time between two assignments that a group may set.")
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", INT, 15_000, at_least(1), effective=True,
        doc="Largest heartbeat interval of the consumer protocol.")
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", INT, 60_000, at_least(1), effective=True,
        doc="Largest session timeout of the consumer protocol.")
    group_consumer_max_size: int = setting("group.consumer.max.size", INT, INT_MAX, at_least(1), effective=True,
        doc="Members of a consumer-protocol group at most.")
    group_consumer_migration_policy: str = setting(
        "group.consumer.migration.policy", STRING, "bidirectional", one_of_ignoring_case("DISABLED", "DOWNGRADE",
        "UPGRADE", "BIDIRECTIONAL"), internal=True, effective=True, with_levels=True, kafka_default="disabled",
        doc="Which way groups may change between the classic and the consumer protocol.")
    group_consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms", INT, 0, at_least(0), effective=True, internal=True, with_levels=True,
        doc="Shortest time between two assignments that a group may set.")
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1), effective=True,
        doc="Smallest heartbeat interval of the consumer protocol.")
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", INT, 45_000, at_least(1), effective=True,
        doc="Smallest session timeout of the consumer protocol.")
    group_consumer_regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms", INT, 600_000, at_least(10_000), effective=True, internal=True,
        doc="Time after which the regular expressions of a group are resolved again, though no topic has changed.")
    group_consumer_session_timeout_ms: int = setting("group.consumer.session.timeout.ms", INT, 45_000, at_least(1),
        effective=True,
        doc="Time without a heartbeat after which a member of a consumer group has left.")
