"""The components that a handler may call. Made once, by `broker.components`; handlers have no state of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.cluster.cluster_acls import ClusterAcls
    from broker.cluster.control_requests import ControlRequests
    from broker.cluster.group_lag import GroupLag
    from broker.cluster.internal_topics import InternalTopics
    from broker.cluster.logins.delegation_tokens import DelegationTokens
    from broker.cluster.sharing.share_state_client import ShareStateClient
    from broker.cluster.transactions.transaction_markers import TransactionMarkerSender
    from broker.cluster.transactions.transaction_verification import CoordinatorVerification
    from broker.network.listening.advertised_addresses import AdvertisedAddresses
    from broker.network.memory_budget import MemoryBudget
    from broker.network.quotas.client_quotas import Quotas
    from broker.network.responses.response_memory import ResponseMemory
    from broker.network.routes import DispatchTable
    from broker.observability.audit import AuditLog
    from broker.observability.client_warnings import ClientWarnings
    from broker.observability.metrics import BrokerMetrics
    from broker.settings.dynamic_settings import DynamicSettings
    from broker.settings.group_configs import StoredGroupConfigs
    from broker.settings.subscription_configs import StoredSubscriptions
    from broker.telemetry.client_telemetry import ClientTelemetry
    from config.broker import BrokerSettings
    from controller.controller import Controller
    from controller.producer_ids import ProducerIds
    from coordinator.group_coordinator import GroupCoordinator
    from coordinator.share_coordinator import ShareCoordinator
    from coordinator.transaction_coordinator import TransactionCoordinator
    from metadata.admin.topic_admin import TopicAdmin
    from metadata.features import CurrentLevels
    from metadata.image import MetadataCache
    from metadata.store.port import Store
    from replication.fetch_sessions import FetchSessions
    from replication.followers.fetchers import Fetchers
    from replication.marker_appender import MarkerAppender
    from replication.moves.log_moves import LogMoves
    from replication.partitions import Partitions
    from replication.sharing.share_partitions import LedSharePartitions
    from runtime.clock import Clock
    from runtime.disk.disk_queue import Readers
    from runtime.randomness import Randomness
    from runtime.slices import SerialQueue
    from runtime.tasks import TaskScope
    from runtime.timer import Timer
    from security.authorizer import Authorizer
    from storage.directories.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Services:
    """Holds the components. `settings` are the static ones, `dynamic_settings.settings` the current ones. `fetchers` is None
    for a standalone broker, `acls` without an authorizer that has some, `delegation_tokens` without
    delegation.token.secret.key. `requests` is the budget for the bytes of requests in memory, `response_memory` bounds those of
    responses. `readers` are threads, for long calls that release the interpreter's lock."""

    settings: BrokerSettings
    broker_id: int
    clock: Clock
    randomness: Randomness
    timer: Timer
    tasks: TaskScope
    serial_queue: SerialQueue
    readers: Readers
    partitions: Partitions
    log_moves: LogMoves
    fetchers: Fetchers | None
    fetch_sessions: FetchSessions
    requests: MemoryBudget
    response_memory: ResponseMemory
    metadata: MetadataCache
    features: CurrentLevels
    advertised: AdvertisedAddresses
    control: ControlRequests
    controller: Controller
    topic_admin: TopicAdmin
    producer_ids: ProducerIds
    internal_topics: InternalTopics
    groups: GroupCoordinator
    group_lag: GroupLag
    transactions: TransactionCoordinator
    marker_appender: MarkerAppender
    transaction_markers: TransactionMarkerSender
    transaction_verification: CoordinatorVerification
    share_coordinator: ShareCoordinator
    share_states: ShareStateClient
    sharing: LedSharePartitions
    logs: LogManager
    store: Store
    dynamic_settings: DynamicSettings
    group_configs: StoredGroupConfigs
    subscription_configs: StoredSubscriptions
    telemetry: ClientTelemetry
    serves_consumer_groups: Callable[[], bool]
    serves_share_groups: Callable[[], bool]
    authorizer: Authorizer
    acls: ClusterAcls | None
    quotas: Quotas
    audit: AuditLog
    client_warnings: ClientWarnings
    delegation_tokens: DelegationTokens | None
    metrics: BrokerMetrics
    table: DispatchTable
