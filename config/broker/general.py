"""Who the broker is, what topics it makes by itself, its threads and how it stops.

Source: Kafka ServerConfigs, ServerTopicConfigSynonyms.
"""

from __future__ import annotations

from config.definition import BOOLEAN, CLASS, CLUSTER_WIDE, INT, LIST, LONG, LONG_MAX, STRING, SettingTable, setting
from config.validators import at_least, between, one_of


class GeneralSettings(SettingTable):
    broker_id: int = setting(
        "broker.id", INT, -1, effective=True, checked="[-1,...,reserved.broker.max.id]",
        doc="Number of this broker in the cluster; -1 takes one from the store when generation is enabled.")
    broker_id_generation_enable: bool = setting("broker.id.generation.enable", BOOLEAN, True, effective=True,
        doc="Whether a broker without a number takes one from the store, above reserved.broker.max.id.")
    reserved_broker_max_id: int = setting("reserved.broker.max.id", INT, 1000, at_least(0), effective=True,
        doc="Largest broker.id that may be chosen by hand while generation is enabled.")
    node_id: int = setting(
        "node.id", INT, -1, effective=True, checked="[-1,...,reserved.broker.max.id]",
        doc="Number of the node where roles are used; in ZooKeeper mode another spelling of broker.id.")
    broker_rack: str | None = setting("broker.rack", STRING, None, effective=True,
        doc="Rack of this broker; replicas of a partition are spread over racks.")
    broker_heartbeat_interval_ms: int = setting("broker.heartbeat.interval.ms", INT, 2000,
        doc="Time between heartbeats to a quorum controller.")
    broker_session_timeout_ms: int = setting("broker.session.timeout.ms", INT, 9000,
        doc="Time without heartbeats after which a quorum controller fences a broker.")
    initial_broker_registration_timeout_ms: int = setting("initial.broker.registration.timeout.ms", INT, 60_000,
        doc="Time a broker waits for its first registration at a quorum controller.")
    process_roles: tuple[str, ...] = setting("process.roles", LIST, (), one_of("broker", "controller"),
        doc="Roles of a node with a quorum controller; empty in ZooKeeper mode.")
    server_max_startup_time_ms: int = setting(
        "server.max.startup.time.ms", LONG, LONG_MAX, at_least(0), internal=True,
        doc="Time after which a start that has not finished is given up.")
    auto_create_topics_enable: bool = setting("auto.create.topics.enable", BOOLEAN, True, effective=True,
        doc="Whether naming a topic in Metadata or in a group's first use creates it.")
    num_partitions: int = setting("num.partitions", INT, 1, at_least(1), effective=True,
        doc="Partitions of a topic that is created without saying how many.")
    default_replication_factor: int = setting("default.replication.factor", INT, 1, effective=True,
        doc="Replicas of a topic that is created without saying how many.")
    delete_topic_enable: bool = setting("delete.topic.enable", BOOLEAN, True, effective=True,
        doc="Whether topics may be deleted through the admin interface.")
    create_topic_policy_class_name: str | None = setting("create.topic.policy.class.name", CLASS, None,
        effective=True,
        doc="Java class that may refuse the creation of a topic: must be unset.")
    alter_config_policy_class_name: str | None = setting("alter.config.policy.class.name", CLASS, None,
        effective=True,
        doc="Java class that may refuse a change of settings: must be unset.")
    compression_type: str = setting(
        "compression.type", STRING, "producer", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip",
        "producer"), CLUSTER_WIDE, effective=True,
        doc="Codec in which the log keeps batches: a codec, uncompressed, or producer for whatever the producer chose.")
    compression_gzip_level: int = setting(
        "compression.gzip.level", INT, -1, between(1, 9, also=-1), CLUSTER_WIDE, effective=True,
        doc="Level used when the broker compresses with gzip.")
    compression_lz4_level: int = setting(
        "compression.lz4.level", INT, 9, between(1, 17), CLUSTER_WIDE, effective=True,
        doc="Level used when the broker compresses with lz4.")
    compression_zstd_level: int = setting(
        "compression.zstd.level", INT, 3, between(-131_072, 22), CLUSTER_WIDE, effective=True,
        doc="Level used when the broker compresses with zstd.")
    message_max_bytes: int = setting("message.max.bytes", INT, 1_048_588, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Largest batch that is taken, in bytes, after compression.")
    min_insync_replicas: int = setting("min.insync.replicas", INT, 1, at_least(1), CLUSTER_WIDE, effective=True,
        doc="In-sync replicas without which a produce with acks=all is refused.")
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", BOOLEAN, False, None, CLUSTER_WIDE, effective=True,
        doc="Whether a replica outside the in-sync set may lead when no other is left, losing records.")
    unclean_leader_election_interval_ms: int = setting(
        "unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), internal=True,
        doc="Time between checks for partitions that need an unclean election under a quorum controller.")
    background_threads: int = setting("background.threads", INT, 10, at_least(1), CLUSTER_WIDE,
        doc="Threads for background work in Apache Kafka.")
    num_io_threads: int = setting("num.io.threads", INT, 8, at_least(1), CLUSTER_WIDE,
        doc="Threads that handle requests in Apache Kafka; here one event loop does.")
    controlled_shutdown_enable: bool = setting("controlled.shutdown.enable", BOOLEAN, True, effective=True,
        doc="Whether a stopping broker first hands its leaderships over.")
    controlled_shutdown_max_retries: int = setting("controlled.shutdown.max.retries", INT, 3, effective=True,
        doc="Attempts at handing leaderships over before the broker stops anyway.")
    controlled_shutdown_retry_backoff_ms: int = setting("controlled.shutdown.retry.backoff.ms", LONG, 5000,
        effective=True,
        doc="Pause between attempts at handing leaderships over.")
    auto_leader_rebalance_enable: bool = setting("auto.leader.rebalance.enable", BOOLEAN, True, effective=True,
        doc="Whether the controller moves leadership back to preferred replicas in the background.")
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), effective=True,
        doc="Time between checks of the balance of leaders.")
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage", INT, 10, effective=True,
        doc="Share of a broker's partitions, in percent, that may be led elsewhere before leaders are moved back.")
    eligible_leader_replicas_enable: bool = setting("eligible.leader.replicas.enable", BOOLEAN, False,
        doc="Whether a quorum controller keeps eligible leader replicas.")
    early_start_listeners: str | None = setting("early.start.listeners", STRING, None,
        doc="Listeners that open before metadata is complete under a quorum controller.")
    unstable_api_versions_enable: bool = setting("unstable.api.versions.enable", BOOLEAN, False, internal=True,
        doc="Whether API versions under development are served.")
    unstable_feature_versions_enable: bool = setting(
        "unstable.feature.versions.enable", BOOLEAN, False, internal=True,
        doc="Whether feature versions under development are allowed.")
