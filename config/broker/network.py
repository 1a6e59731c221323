"""Listeners, connections, requests and what they may take.

Source: Kafka SocketServerConfigs, ServerConfigs.
"""

from __future__ import annotations

from config.definition import CLUSTER_WIDE, INT, INT_MAX, LONG, PER_BROKER, STRING, KiB, MiB, SettingTable, setting
from config.validators import METADATA_VERSIONS, at_least, one_of


class NetworkSettings(SettingTable):
    listeners: str = setting(
        "listeners", STRING, "PLAINTEXT://localhost:9092", None, PER_BROKER, effective=True,
        kafka_default="PLAINTEXT://:9092",
        doc="Addresses the broker listens on: NAME://host:port, separated by commas; an empty host is every interface.")
    advertised_listeners: str | None = setting("advertised.listeners", STRING, None, None, PER_BROKER, effective=True,
        doc="Addresses sent to clients; without it those of listeners. An empty host is the name of this machine.")
    listener_security_protocol_map: str = setting(
        "listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, PER_BROKER,
        effective=True,
        doc="Security protocol of each listener name.")
    inter_broker_listener_name: str | None = setting("inter.broker.listener.name", STRING, None, effective=True,
        doc="Listener that other brokers are asked to use.")
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol", STRING, "PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT",
        "SASL_SSL"), effective=True,
        doc="Security protocol among brokers when no listener is named for them.")
    inter_broker_protocol_version: str = setting(
        "inter.broker.protocol.version", STRING, "3.9-IV0", METADATA_VERSIONS, effective=True,
        doc="Version of the messages among brokers.")
    control_plane_listener_name: str | None = setting("control.plane.listener.name", STRING, None,
        doc="Listener kept for the controller's requests.")
    socket_send_buffer_bytes: int = setting("socket.send.buffer.bytes", INT, 100 * KiB, effective=True,
        doc="SO_SNDBUF of client sockets, in bytes; -1 leaves the operating system's.")
    socket_receive_buffer_bytes: int = setting("socket.receive.buffer.bytes", INT, 100 * KiB, effective=True,
        doc="SO_RCVBUF of client sockets, in bytes; -1 leaves the operating system's.")
    socket_request_max_bytes: int = setting("socket.request.max.bytes", INT, 100 * MiB, at_least(1), effective=True,
        doc="Largest request that is read, in bytes.")
    socket_listen_backlog_size: int = setting("socket.listen.backlog.size", INT, 50, at_least(1), effective=True,
        doc="Connections that may wait to be accepted.")
    socket_connection_setup_timeout_ms: int = setting("socket.connection.setup.timeout.ms", LONG, 10_000,
        doc="Time to wait for a connection to another broker.")
    socket_connection_setup_timeout_max_ms: int = setting("socket.connection.setup.timeout.max.ms", LONG, 30_000,
        doc="Upper limit of socket.connection.setup.timeout.ms after repeated failures.")
    max_connections: int = setting("max.connections", INT, INT_MAX, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Connections a broker keeps at most.")
    max_connections_per_ip: int = setting(
        "max.connections.per.ip", INT, INT_MAX, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Connections from one address at most.")
    max_connections_per_ip_overrides: str = setting(
        "max.connections.per.ip.overrides", STRING, "", None, CLUSTER_WIDE, effective=True,
        doc="Other limits for single addresses or names: address:limit, separated by commas.")
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate", INT, INT_MAX, at_least(0), CLUSTER_WIDE, effective=True,
        doc="New connections a second at most.")
    connections_max_idle_ms: int = setting("connections.max.idle.ms", LONG, 600_000, effective=True,
        doc="Time after which an idle connection is closed.")
    connections_max_reauth_ms: int = setting("connections.max.reauth.ms", LONG, 0, effective=True,
        doc="Time after which a SASL session must authenticate again; 0 never.")
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms", INT, 100, at_least(0), effective=True,
        doc="Delay before a connection is closed that failed to authenticate.")
    num_network_threads: int = setting("num.network.threads", INT, 3, at_least(1), CLUSTER_WIDE,
        doc="Threads that move bytes in Apache Kafka; here one event loop does.")
    queued_max_requests: int = setting("queued.max.requests", INT, 500, at_least(1),
        doc="Requests waiting for a handler in Apache Kafka; here each connection is bounded.")
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes", LONG, 32 * MiB, effective=True, kafka_default=-1,
        doc="Bytes of requests with records held in memory at once, and as many of others; -1 sets no limit.")
    request_timeout_ms: int = setting("request.timeout.ms", INT, 30_000, effective=True,
        doc="Time a broker waits for another's response.")
    fetch_max_bytes: int = setting("fetch.max.bytes", INT, 55 * MiB, at_least(1024), effective=True,
        doc="Largest response to one fetch, in bytes.")
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), effective=True,
        doc="Incremental fetch sessions kept at most.")
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit", INT, 2000, at_least(1),
        doc="Partitions in one response to DescribeTopicPartitions at most.")
    fetch_purgatory_purge_interval_requests: int = setting("fetch.purgatory.purge.interval.requests", INT, 1000,
        doc="Finished fetches that may lie in Apache Kafka's purgatory; waiters are removed at once here.")
    producer_purgatory_purge_interval_requests: int = setting("producer.purgatory.purge.interval.requests", INT, 1000,
        doc="Finished produce requests that may lie in Apache Kafka's purgatory.")
    delete_records_purgatory_purge_interval_requests: int = setting(
        "delete.records.purgatory.purge.interval.requests", INT, 1,
        doc="Finished DeleteRecords requests that may lie in Apache Kafka's purgatory.")
    telemetry_max_bytes: int = setting("telemetry.max.bytes", INT, MiB, at_least(1), effective=True,
        doc="Largest metrics push of a client, in bytes, as it is sent.")
