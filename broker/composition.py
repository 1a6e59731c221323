"""Translation of settings into the parameters of components, for `broker.components` and `broker.server`.

Rules: no state, no IO, no order; every function makes one thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.cluster.isr_writer import StoreIsrWriter
from broker.network.admission import AccessAdmission
from broker.network.connections.acceptor import AcceptLimits
from broker.network.connections.connection_limits import ConnectionLimits
from broker.network.gate import BrokerGate, Gate, OpenGate
from broker.network.listening.listeners import (
    ListenerPlan,
    ListenerSettings,
    advertised_endpoints,
    needs_advertised,
    parse_listeners,
)
from broker.network.listening.tls_listeners import TlsListeners
from broker.network.memory_budget import MemoryBudget
from broker.network.quotas.client_quota import Windows
from broker.network.quotas.client_quotas import Quotas
from broker.network.quotas.connection_rates import ConnectionRates, RateLimits
from broker.network.sasl.authentication import ListenersAuthentication
from broker.network.sasl.mechanisms import sasl_rules
from config.errors import ConfigError
from config.group import CONSUMER, SHARE, OwnGroupSettings, check_group_bounds
from config.inter_broker_version import InterBrokerVersion
from config.listener_values import ListenerValues
from config.share_group import share_group_config
from coordinator.group.assigned.settings import (
    Bounds,
    ConsumerConfig,
    ConsumerSettings,
    MigrationPolicy,
    ShareSettings,
)
from coordinator.group.consumer.assignors import ASSIGNORS
from coordinator.group.settings import GroupSettings
from coordinator.group_coordinator import GroupCoordinatorSettings
from coordinator.share.settings import ShareStateSettings
from coordinator.share_coordinator import ShareCoordinatorSettings
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction_coordinator import TransactionCoordinatorSettings
from metadata.features import NEWEST_LEVELS, NO_LEVELS, REGISTERED, FeatureLevels
from metadata.store.znodes import BrokerRegistration, RegisteredEndpoint
from protocol.records.compression import Compression
from replication.isr_requests import AlterPartitionChannel, IsrChanges, IsrRequests, IsrWrites
from replication.replica_selector import ReplicaSelector, replica_selector
from runtime.network.transport import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.dependencies import Dependencies
    from broker.network.routes import DispatchTable
    from broker.network.sasl.exchange import SaslRules
    from broker.network.sasl.sources import SaslSources
    from broker.services import Services
    from broker.settings.dynamic_settings import DynamicSettings
    from client.opening import Login
    from config.broker import BrokerSettings
    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.tasks import TaskScope
    from runtime.timer import Timer

# Bytes of frames that connections together may keep before their clients have authenticated.
AUTHENTICATION_BYTES = 16 * 1024 * 1024
ASSIGNOR_CLASSES = {
    f"org.apache.kafka.coordinator.group.assignor.{name.title()}Assignor": name for name in ("uniform", "range")
}
"""Apache Kafka's, which do the same."""
OLDEST_VERSION = "0.11.0-IV0"  # Fetch 4, whose responses contain record batches
# A setting of one listener.
_OWN_SETTING = re.compile(r"listener\.name\.(?P<listener>[^.A-Z]*)\.(?P<name>.*)")
# AlterPartition by inter.broker.protocol.version: the newest version that every controller of such a cluster supports.
_ALTER_PARTITION_SINCE = (("3.5-IV0", 3), ("3.3-IV0", 2), ("3.2-IV0", 1))
_CONTROLLED_SHUTDOWN_SINCE = (("2.4-IV1", 3), ("2.2-IV0", 2))


def listener_plans(settings: BrokerSettings) -> list[ListenerPlan]:
    """Return the configured listeners. Raises ConfigError."""
    given = settings.given
    try:
        plans = parse_listeners(
            ListenerSettings(
                listeners=given.get("listeners"),
                advertised_listeners=settings.advertised_listeners,
                protocol_map=settings.listener_security_protocol_map,
                inter_broker_listener_name=settings.inter_broker_listener_name,
                security_inter_broker_protocol=given.get("security.inter.broker.protocol"),
            )
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return plans


def inter_broker_version(settings: BrokerSettings) -> InterBrokerVersion:
    """Return the cluster's inter.broker.protocol.version. Raises ConfigError for one older than record batches."""
    version = InterBrokerVersion.parse(settings.inter_broker_protocol_version)
    if not version.is_at_least(OLDEST_VERSION):
        raise ConfigError(
            f"inter.broker.protocol.version={settings.inter_broker_protocol_version}: replicas would fetch records in "
            f"the format from before {OLDEST_VERSION}, which is not served"
        )
    return version


def inter_broker_listener(plans: Sequence[ListenerPlan]) -> str:
    return next(plan.name for plan in plans if plan.is_inter_broker)


def gate(services: Services) -> Gate:
    """Return the gate that all requests pass. Without an authorizer it admits everything."""
    admission = OpenGate() if services.authorizer.is_open else AccessAdmission()
    return BrokerGate(admission=admission, charging=services.quotas, meter=services.quotas)


def client_quotas(settings: BrokerSettings, clock: Clock) -> Quotas:
    """Return the quotas of clients, without any set."""
    return Quotas(
        clock,
        Windows(settings.quota_window_size_seconds * 1000, settings.quota_window_num),
        Windows(settings.controller_quota_window_size_seconds * 1000, settings.controller_quota_window_num),
        settings.barnabas_quota_rates_max,
    )


def logins(
    settings: BrokerSettings,
    plans: Sequence[ListenerPlan],
    version: InterBrokerVersion,
    sources: SaslSources,
) -> tuple[dict[str, SaslRules], Login | None]:
    """Return how clients authenticate on each listener with SASL, and how this broker does towards other brokers: None where
    there are none, or where their listener has no SASL. Raises ConfigError."""
    rules = sasl_rules(settings, plans, sources)
    listener = inter_broker_listener(plans)
    if settings.zookeeper_connect is None or listener not in rules:
        return rules, None
    from broker.cluster.logins.broker_login import broker_login  # noqa: PLC0415  for a listener of brokers with SASL alone

    return rules, broker_login(settings, listener, version, sources)


def authentication(
    rules: Mapping[str, SaslRules], table: DispatchTable, services: Services
) -> ListenersAuthentication | None:
    """Return what authenticates the clients of listeners with SASL."""
    if not rules:
        return None
    return ListenersAuthentication(
        rules, table, services.clock, services.timer, services.audit, services.metrics.authentication,
        MemoryBudget(AUTHENTICATION_BYTES), services.settings.barnabas_authentication_max_connections,
    )  # fmt: skip


def tls_listeners(
    dynamic: DynamicSettings,
    plans: Sequence[ListenerPlan],
    dependencies: Dependencies,
    directory: str,
    timer: Timer,
    tasks: TaskScope,
) -> TlsListeners:
    """Read the certificates, also those of dynamic settings, and follow their changes with a disk queue named by `directory`.
    Raises ConfigError."""
    listeners = TlsListeners(dynamic.settings, plans, dependencies.filesystem, dependencies.tls_work, timer=timer)
    listeners.watch(dependencies.disk.queue(f"{directory}#tls"), tasks)
    dynamic.check_broker_changes(listeners.check)
    dynamic.on_broker_changed(lambda settings: listeners.follow(settings, tasks))
    return listeners


def accept_limits(settings: BrokerSettings) -> AcceptLimits:
    return AcceptLimits(
        max_connections=settings.max_connections,
        max_connections_per_ip=settings.max_connections_per_ip,
        per_ip_overrides=settings.limits_by_address,
        max_idle_ms=settings.connections_max_idle_ms,
        max_by_listener=_of_listeners(settings, "max.connections"),
        rates=RateLimits(
            settings.max_connection_creation_rate, _of_listeners(settings, "max.connection.creation.rate")
        ),
    )


def _of_listeners(settings: BrokerSettings, name: str) -> dict[str, int]:
    """Return the value of `name` of each listener that has one of its own."""
    found = (_OWN_SETTING.fullmatch(given) for given in settings.given)
    listeners = [match["listener"] for match in found if match is not None and match["name"] == name]
    return {listener.upper(): ListenerValues(settings, listener).value(name) for listener in listeners}


def connection_rates(settings: BrokerSettings, plans: Sequence[ListenerPlan]) -> ConnectionRates:
    """Return the rates of new connections; a listener that brokers have for themselves is not the broker's."""
    return ConnectionRates(
        Windows(settings.quota_window_size_seconds * 1000, settings.quota_window_num),
        settings.barnabas_quota_rates_max,
        protected_listener=inter_broker_listener(plans) if len(plans) > 1 else None,
    )


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    return ConnectionLimits(
        max_frame_bytes=settings.socket_request_max_bytes,
        max_plain_bytes=min(settings.barnabas_request_max_bytes_other, settings.socket_request_max_bytes),
        max_elements=settings.barnabas_request_max_array_elements,
    )


def initial_levels(settings: BrokerSettings, version: InterBrokerVersion) -> FeatureLevels:
    """Return the feature levels that this broker gives a new cluster. Raises ConfigError."""
    text = settings.barnabas_initial_features
    if text:
        try:
            levels = FeatureLevels.parse(text)
        except ValueError as error:
            raise ConfigError(f"barnabas.initial.features={text}: {error}") from error
    else:
        levels = NEWEST_LEVELS if settings.zookeeper_connect is None else NO_LEVELS
    return levels if version.supports_feature_versioning else NO_LEVELS


def registration(
    broker_id: int,
    settings: BrokerSettings,
    version: InterBrokerVersion,
    plans: Sequence[ListenerPlan],
    bound: Mapping[str, Address],
    *,
    host_name: str,
    now_ms: int,
) -> BrokerRegistration:
    """Return this broker's node in /brokers/ids. `host_name` is advertised for listeners on every interface without an
    advertised address."""
    everywhere = set(needs_advertised(plans))
    protocols = {plan.name: plan.security_protocol for plan in plans}
    return BrokerRegistration(
        broker_id=broker_id,
        endpoints=tuple(
            RegisteredEndpoint(name, host_name if name in everywhere else address.host, address.port, protocols[name])
            for name, address in advertised_endpoints(plans, bound).items()
        ),
        timestamp_ms=now_ms,
        rack=settings.broker_rack,
        features=REGISTERED if version.supports_feature_versioning else {},
        host_id=settings.barnabas_host_id,
    )


def selector(settings: BrokerSettings) -> ReplicaSelector | None:
    """Return the replica selector that `replica.selector.class` names. Raises ConfigError."""
    return replica_selector(settings.replica_selector_class)


def group_coordinator_settings(settings: BrokerSettings) -> GroupCoordinatorSettings:
    return GroupCoordinatorSettings(
        groups=GroupSettings(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            waiting_max_bytes=settings.barnabas_group_waiting_max_bytes,
            groups_max=settings.barnabas_group_max_groups,
            offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
            version=inter_broker_version(settings),
        ),
        compression=Compression(settings.offsets_topic_compression_codec),
        commit_timeout_ms=settings.offsets_commit_timeout_ms,
        retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )


def consumer_settings(settings: BrokerSettings) -> ConsumerSettings:
    """Return the settings of consumer groups. Raises ConfigError."""
    check_group_bounds(CONSUMER, settings)
    assignors = tuple(ASSIGNOR_CLASSES.get(name, name) for name in settings.group_consumer_assignors)
    for name in assignors:
        if name not in ASSIGNORS:
            raise ConfigError(f"group.consumer.assignors={name}: there are {', '.join(ASSIGNORS)}")
    return ConsumerSettings(
        default=ConsumerConfig(
            session_timeout_ms=settings.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        ),
        session_timeout_bounds_ms=Bounds(
            settings.group_consumer_min_session_timeout_ms, settings.group_consumer_max_session_timeout_ms
        ),
        heartbeat_interval_bounds_ms=Bounds(
            settings.group_consumer_min_heartbeat_interval_ms, settings.group_consumer_max_heartbeat_interval_ms
        ),
        assignment_interval_bounds_ms=Bounds(
            settings.group_consumer_min_assignment_interval_ms, settings.group_consumer_max_assignment_interval_ms
        ),
        max_size=settings.group_consumer_max_size,
        assignors=assignors,
        migration_policy=MigrationPolicy(settings.group_consumer_migration_policy.lower()),
        regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
    )


def share_settings(settings: BrokerSettings) -> ShareSettings:
    """Return the settings of share groups. Raises ConfigError."""
    check_group_bounds(SHARE, settings)
    return ShareSettings(
        default=share_group_config(settings, OwnGroupSettings({})),
        max_size=settings.group_share_max_size,
        initialize_retry_interval_ms=settings.group_share_initialize_retry_interval_ms,
    )


def serves_consumer_groups(settings: BrokerSettings, levels: FeatureLevels) -> bool:
    """Whether members of consumer groups are served: by the level, unless the settings name the protocols."""
    if "group.coordinator.rebalance.protocols" in settings.given:
        return levels.group >= 1 and "consumer" in settings.group_coordinator_rebalance_protocols
    return levels.group >= 1


def transaction_coordinator_settings(settings: BrokerSettings) -> TransactionCoordinatorSettings:
    return TransactionCoordinatorSettings(
        transactions=TransactionSettings(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            ids_max=settings.barnabas_transactional_ids_max,
        ),
        commit_timeout_ms=settings.request_timeout_ms,
        abort_check_interval_ms=settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiry_check_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
    )


def share_coordinator_settings(settings: BrokerSettings) -> ShareCoordinatorSettings:
    return ShareCoordinatorSettings(
        states=ShareStateSettings(
            updates_per_snapshot=settings.share_coordinator_snapshot_update_records_per_snapshot,
            cold_snapshot_interval_ms=settings.share_coordinator_cold_partition_snapshot_interval_ms,
        ),
        compression=Compression(settings.share_coordinator_state_topic_compression_codec),
        write_timeout_ms=settings.share_coordinator_write_timeout_ms,
        prune_interval_ms=settings.share_coordinator_state_topic_prune_interval_ms,
    )


def isr_changes(
    broker_id: int,
    broker_epoch: Callable[[], int],
    version: InterBrokerVersion,
    channel: AlterPartitionChannel,
    store: Store,
    clock: Clock,
    tasks: TaskScope,
) -> IsrChanges:
    """Return how leaders of this cluster change ISRs: through the controller, or (before 2.7) in the store."""
    if not version.supports_alter_partition:
        return IsrWrites(broker_id, StoreIsrWriter(store), clock, tasks)
    return IsrRequests(broker_id, broker_epoch, channel, tasks, version=alter_partition_version(version))


def alter_partition_version(version: InterBrokerVersion) -> int:
    return next((number for release, number in _ALTER_PARTITION_SINCE if version.is_at_least(release)), 0)


def controlled_shutdown_version(version: InterBrokerVersion) -> int:
    return next((number for release, number in _CONTROLLED_SHUTDOWN_SINCE if version.is_at_least(release)), 1)
