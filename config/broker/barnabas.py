"""Settings of this broker that Apache Kafka does not have; all begin with `barnabas.`"""

from __future__ import annotations

from config.definition import (
    BOOLEAN,
    HOUR_MS,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PASSWORD,
    STRING,
    KiB,
    MiB,
    Password,
    SettingTable,
    setting,
)
from config.validators import LOG_LEVELS, at_least, between, one_of


class OwnSettings(SettingTable):
    barnabas_audit_log: str | None = setting("barnabas.audit.log", STRING, None, effective=True,
        doc="File of JSON lines about what clients were denied and what they have administered; without it there is none.")
    barnabas_authentication_max_connections: int = setting(
        "barnabas.authentication.max.connections", INT, 10_000, at_least(1), effective=True,
        doc="Connections whose clients have not authenticated yet, on all listeners with SASL; beyond it new ones are closed.")
    barnabas_authentication_timeout_ms: int = setting(
        "barnabas.authentication.timeout.ms", INT, 30_000, at_least(1), effective=True,
        doc="Time after which a connection is closed whose client has not authenticated, on a listener with TLS or SASL.")
    barnabas_client_metrics_age_max_ms: int = setting(
        "barnabas.client.metrics.age.max.ms", LONG, 3 * HOUR_MS, at_least(60_000), effective=True,
        doc="Time after which what a client has pushed is shown no more; three of its intervals if these are less.")
    barnabas_client_metrics_clients_max: int = setting(
        "barnabas.client.metrics.clients.max", INT, 10_000, at_least(1), effective=True,
        doc="Clients whose pushed metrics are kept; beyond it those of new ones are dropped.")
    barnabas_client_metrics_memory_bytes: int = setting(
        "barnabas.client.metrics.memory.bytes", LONG, 64 * MiB, at_least(MiB), effective=True,
        doc="Memory for the metrics that clients have pushed; beyond it new series are dropped.")
    barnabas_client_metrics_names_max: int = setting(
        "barnabas.client.metrics.names.max", INT, 2_000, at_least(1), effective=True,
        doc="Names of metrics that clients may push; beyond it new ones are dropped.")
    barnabas_client_metrics_series_per_client_max: int = setting(
        "barnabas.client.metrics.series.per.client.max", INT, 5_000, at_least(1), effective=True,
        doc="Series that are kept of one client; beyond it new ones are dropped.")
    barnabas_client_metrics_unfolded_max_bytes: int = setting(
        "barnabas.client.metrics.unfolded.max.bytes", INT, 8 * MiB, at_least(KiB), effective=True,
        doc="Bytes to which a compressed push of metrics may unfold.")
    barnabas_delegation_token_max_bytes: int = setting(
        "barnabas.delegation.token.max.bytes", LONG, 16 * MiB, at_least(1), effective=True,
        doc="Bytes of delegation tokens in the store; beyond it no more are made.")
    barnabas_disk_free_min_bytes: int | None = setting(
        "barnabas.disk.free.min.bytes", LONG, None, between(0, LONG_MAX, optional=True), effective=True,
        doc="Bytes that stay free in each log directory: below, records are refused; offsets, markers and checkpoints "
        "may use all but a quarter. Unset: two segments, 256 MiB at least, a quarter of the disk at most.")
    barnabas_fetch_response_memory_bytes: int = setting(
        "barnabas.fetch.response.memory.bytes", LONG, 32 * MiB, at_least(MiB), effective=True,
        doc="Bytes of fetch responses in memory at a time; when short, a fetch returns fewer bytes.")
    barnabas_group_max_groups: int = setting(
        "barnabas.group.max.groups", INT, 100_000, at_least(1), effective=True,
        doc="Groups of a partition of __consumer_offsets at most: new ones beyond it get GROUP_MAX_SIZE_REACHED.")
    barnabas_group_waiting_max_bytes: int = setting(
        "barnabas.group.waiting.max.bytes", LONG, 128 * MiB, at_least(1), effective=True,
        doc="Bytes of JoinGroup and SyncGroup requests that wait for their groups; beyond it new members have to try again.")
    barnabas_host_id: str | None = setting("barnabas.host.id", STRING, None, effective=True,
        doc="Machine this broker runs on; replicas of a partition are spread over machines inside a rack.")
    barnabas_http_host: str = setting("barnabas.http.host", STRING, "localhost", effective=True,
        doc="Address on which barnabas.http.port is opened.")
    barnabas_http_port: int | None = setting(
        "barnabas.http.port", INT, None, between(0, 65_535, optional=True), effective=True,
        doc="Port that serves /metrics, /metrics/clients, /health, /ready and /live; 0 picks a free one; unset: none is open.")
    barnabas_initial_features: str = setting("barnabas.initial.features", STRING, "", effective=True,
        doc="Feature levels of a new cluster: newest, none, or names with levels, such as group.version=1. Empty: newest for a "
        "lone broker, none over ZooKeeper, where Apache Kafka 3.9 ends when it meets one. A cluster that exists keeps its own.")
    barnabas_internal_topics_create_enable: bool = setting(
        "barnabas.internal.topics.create.enable", BOOLEAN, False, effective=True,
        doc="Whether a controller creates __consumer_offsets and __transaction_state, and with share groups "
        "__share_group_state, as soon as there are brokers for their replicas; else each is created when it is first "
        "needed.")
    barnabas_lag_interval_ms: int = setting("barnabas.lag.interval.ms", INT, 10_000, at_least(0), effective=True,
        doc="Time between two measurements of how far groups are behind; 0 measures nothing.")
    barnabas_log_format: str = setting(
        "barnabas.log.format", STRING, "auto", one_of("auto", "terminal", "text", "json"), effective=True,
        doc="Form of log lines on standard error: for a terminal, logfmt text or JSON; auto is terminal on one, else text.")
    barnabas_log_level: tuple[str, ...] = setting("barnabas.log.level", LIST, ("INFO",), LOG_LEVELS, effective=True,
        doc="Least level that is logged, and LOGGER=LEVEL for single loggers, separated by commas.")
    barnabas_produce_validation: str = setting(
        "barnabas.produce.validation", STRING, "structure", one_of("header", "structure", "full"), effective=True,
        doc="How far a produced batch is checked: its header, the bounds of its records and fields, or offsets as well.")
    barnabas_producer_ids_max: int = setting(
        "barnabas.producer.ids.max", INT, 100_000, at_least(1), effective=True,
        doc="Producer ids that each partition remembers; beyond it those go first that have appended nothing for the longest.")
    barnabas_quota_rates_max: int = setting(
        "barnabas.quota.rates.max", INT, 10_000, at_least(1), effective=True,
        doc="Rates of users and client ids kept for each kind of quota; beyond it the one unused for the longest is dropped.")
    barnabas_relay_enable: bool = setting("barnabas.relay.enable", BOOLEAN, False, effective=True,
        doc="Whether a relay is started beside the broker, or the brokers of one command: it delivers records when they are "
        "due, by the rules of `barnabas relay rules`. The settings of the relay may stand among those of the broker.")
    barnabas_request_max_array_elements: int = setting(
        "barnabas.request.max.array.elements", INT, 500_000, at_least(1), effective=True,
        doc="Array elements a request may hold in all; one with more closes the connection.")
    barnabas_request_max_bytes_other: int = setting(
        "barnabas.request.max.bytes.other", INT, 16 * MiB, at_least(KiB), effective=True,
        doc="Largest request other than Produce that is read, in bytes; a larger one closes the connection.")
    barnabas_transactional_ids_max: int = setting(
        "barnabas.transactional.ids.max", INT, 100_000, at_least(1), effective=True,
        doc="Transactional ids of a partition of __transaction_state at most: new ones beyond it get POLICY_VIOLATION.")
    barnabas_web_enable: bool = setting("barnabas.web.enable", BOOLEAN, False, effective=True,
        doc="Whether a web process is started beside the broker, or the brokers of one command: a page about the cluster, and "
        "HTTP to read and write records. The settings of the web process may stand among those of the broker.")
    barnabas_zookeeper_sasl_password: Password | None = setting(
        "barnabas.zookeeper.sasl.password", PASSWORD, None, effective=True,
        doc="Password of barnabas.zookeeper.sasl.username.")
    barnabas_zookeeper_sasl_username: str | None = setting(
        "barnabas.zookeeper.sasl.username", STRING, None, effective=True,
        doc="Who this broker is to ZooKeeper, by SASL DIGEST-MD5 (in Apache Kafka: a Client section of a JAAS file).")
