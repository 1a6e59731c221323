"""ZooKeeper, the controller, and what belongs to quorum controllers.

Source: Kafka ZkConfigs, KRaftConfigs, QuorumConfig.
"""

from __future__ import annotations

from config.definition import (
    BOOLEAN,
    DAY_MS,
    HOUR_MS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    GiB,
    MiB,
    Password,
    SettingTable,
    setting,
)
from config.validators import NON_EMPTY_LIST, at_least


class CoordinationSettings(SettingTable):
    zookeeper_connect: str | None = setting("zookeeper.connect", STRING, None, effective=True,
        doc="ZooKeeper servers, host:port separated by commas, with an optional path; without it the embedded store.")
    zookeeper_connection_timeout_ms: int | None = setting("zookeeper.connection.timeout.ms", INT, None, effective=True,
        doc="Time to wait for the first connection; by default the session timeout.")
    zookeeper_session_timeout_ms: int = setting("zookeeper.session.timeout.ms", INT, 18_000, effective=True,
        doc="Session timeout with ZooKeeper.")
    zookeeper_max_in_flight_requests: int = setting("zookeeper.max.in.flight.requests", INT, 10, at_least(1),
        effective=True,
        doc="Requests sent to ZooKeeper before a response is awaited; while it is not set, their bytes are bounded.")
    zookeeper_set_acl: bool = setting("zookeeper.set.acl", BOOLEAN, False, effective=True,
        doc="Whether nodes are created with access control lists.")
    zookeeper_clientCnxnSocket: str | None = setting("zookeeper.clientCnxnSocket", STRING, None,
        doc="Java class of ZooKeeper's connections.")
    zookeeper_ssl_client_enable: bool = setting("zookeeper.ssl.client.enable", BOOLEAN, False, effective=True,
        doc="Whether ZooKeeper is reached over TLS.")
    zookeeper_ssl_cipher_suites: tuple[str, ...] | None = setting(
        "zookeeper.ssl.cipher.suites", LIST, None, effective=True,
        doc="TLS cipher suites towards ZooKeeper; not supported.")
    zookeeper_ssl_crl_enable: bool = setting("zookeeper.ssl.crl.enable", BOOLEAN, False, effective=True,
        doc="Whether revocation lists are checked towards ZooKeeper; not supported.")
    zookeeper_ssl_enabled_protocols: tuple[str, ...] | None = setting(
        "zookeeper.ssl.enabled.protocols", LIST, None, effective=True,
        doc="TLS versions allowed towards ZooKeeper.")
    zookeeper_ssl_endpoint_identification_algorithm: str = setting(
        "zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", effective=True,
        doc="How ZooKeeper's host name is checked.")
    zookeeper_ssl_keystore_location: str | None = setting("zookeeper.ssl.keystore.location", STRING, None, effective=True,
        doc="Key store towards ZooKeeper, with certificate and key: JKS, PKCS12 or PEM.")
    zookeeper_ssl_keystore_password: Password | None = setting(
        "zookeeper.ssl.keystore.password", PASSWORD, None, effective=True,
        doc="Password of that key store, and of its key.")
    zookeeper_ssl_keystore_type: str | None = setting("zookeeper.ssl.keystore.type", STRING, None, effective=True,
        doc="Type of that key store; the file's content decides.")
    zookeeper_ssl_ocsp_enable: bool = setting("zookeeper.ssl.ocsp.enable", BOOLEAN, False, effective=True,
        doc="Whether OCSP is asked towards ZooKeeper; not supported.")
    zookeeper_ssl_protocol: str = setting("zookeeper.ssl.protocol", STRING, "TLSv1.2",
        doc="TLS version used towards ZooKeeper.")
    zookeeper_ssl_truststore_location: str | None = setting("zookeeper.ssl.truststore.location", STRING, None, effective=True,
        doc="Trust store towards ZooKeeper: JKS, PKCS12 or PEM.")
    zookeeper_ssl_truststore_password: Password | None = setting(
        "zookeeper.ssl.truststore.password", PASSWORD, None, effective=True,
        doc="Password of that trust store.")
    zookeeper_ssl_truststore_type: str | None = setting("zookeeper.ssl.truststore.type", STRING, None, effective=True,
        doc="Type of that trust store; the file's content decides.")
    zookeeper_metadata_migration_enable: bool = setting("zookeeper.metadata.migration.enable", BOOLEAN, False,
        doc="Whether metadata moves from ZooKeeper to a quorum controller.")
    zookeeper_metadata_migration_min_batch_size: int = setting(
        "zookeeper.metadata.migration.min.batch.size", INT, 200, at_least(1), internal=True,
        doc="Records in a batch of the move from ZooKeeper to a quorum controller.")
    controller_socket_timeout_ms: int = setting("controller.socket.timeout.ms", INT, 30_000, effective=True,
        doc="Time the controller waits for a broker's response.")
    controller_listener_names: str | None = setting("controller.listener.names", STRING, None,
        doc="Listeners of a quorum controller.")
    controller_quorum_append_linger_ms: int = setting("controller.quorum.append.linger.ms", INT, 25,
        doc="Time a quorum leader gathers records before it writes.")
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        "controller.quorum.bootstrap.servers", LIST, (), NON_EMPTY_LIST,
        doc="Addresses to find the quorum with.")
    controller_quorum_election_backoff_max_ms: int = setting("controller.quorum.election.backoff.max.ms", INT, 1000,
        doc="Longest pause between elections of a quorum.")
    controller_quorum_election_timeout_ms: int = setting("controller.quorum.election.timeout.ms", INT, 1000,
        doc="Time until a quorum candidate gives up.")
    controller_quorum_fetch_timeout_ms: int = setting("controller.quorum.fetch.timeout.ms", INT, 2000,
        doc="Time without fetches until a quorum elects again.")
    controller_quorum_request_timeout_ms: int = setting("controller.quorum.request.timeout.ms", INT, 2000,
        doc="Time to wait for a response in a quorum.")
    controller_quorum_retry_backoff_ms: int = setting("controller.quorum.retry.backoff.ms", INT, 20,
        doc="Pause before a quorum request is repeated.")
    controller_quorum_voters: tuple[str, ...] = setting("controller.quorum.voters", LIST, (), NON_EMPTY_LIST,
        doc="Voters of a quorum: id@host:port.")
    controller_quota_window_num: int = setting("controller.quota.window.num", INT, 11, at_least(1), effective=True,
        doc="Samples kept of mutation rates.")
    controller_quota_window_size_seconds: int = setting("controller.quota.window.size.seconds", INT, 1, at_least(1),
        effective=True,
        doc="Length of a sample of mutation rates.")
    metadata_log_dir: str | None = setting("metadata.log.dir", STRING, None,
        doc="Directory of the metadata log of a quorum.")
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots", LONG, 20 * MiB, at_least(1),
        doc="Bytes of metadata between two snapshots.")
    metadata_log_max_snapshot_interval_ms: int = setting(
        "metadata.log.max.snapshot.interval.ms", LONG, HOUR_MS, at_least(0),
        doc="Time between two snapshots at most.")
    metadata_log_segment_bytes: int = setting("metadata.log.segment.bytes", INT, GiB, at_least(12),
        doc="Segment size of the metadata log, in bytes.")
    metadata_log_segment_min_bytes: int = setting(
        "metadata.log.segment.min.bytes", INT, 8 * MiB, at_least(12), internal=True,
        doc="Smallest segment size of the metadata log, in bytes.")
    metadata_log_segment_ms: int = setting("metadata.log.segment.ms", LONG, 7 * DAY_MS,
        doc="Age at which a metadata segment rolls.")
    metadata_max_idle_interval_ms: int = setting("metadata.max.idle.interval.ms", INT, 500, at_least(0),
        doc="Time after which an idle quorum leader writes an empty record.")
    metadata_max_retention_bytes: int = setting("metadata.max.retention.bytes", LONG, 100 * MiB,
        doc="Size of metadata log and snapshots at most, in bytes.")
    metadata_max_retention_ms: int = setting("metadata.max.retention.ms", LONG, 7 * DAY_MS,
        doc="Age of metadata snapshots at most.")
