"""The components of a broker, each made once and passed to the components that use it.

    controller <- channel to it <- partitions, producer ids        (a <- b: a is passed to b)
    fetchers <- log moves, partitions <- groups <- control requests <- the controller's channel to this broker
    all that handlers may call <- services

A standalone broker has no fetchers, and sends no requests to change ISRs.

Rules: this is the composition root: no decisions of the protocol, no IO. Nothing starts or stops here: `broker.server`
starts and stops the components and their infrastructure. A component that needs one that is made later looks it up when it
uses it.
Invariant: no component uses another before all are made.
Source: Kafka KafkaServer.startup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.cluster.control_requests import ControlRequests
from broker.cluster.controller_channel import ControllerChannel
from broker.cluster.controller_claims import ControllerClaims
from broker.cluster.coordinator_elections import CoordinatorElections
from broker.cluster.deleted_topics import DeletedTopics
from broker.cluster.group_lag import GroupLag
from broker.cluster.internal_topics import ACKS_ALL, InternalLog, InternalTopics
from broker.cluster.logins.delegation_tokens import DelegationTokens, TokenSettings
from broker.cluster.sharing.share_state_client import ShareStateClient
from broker.cluster.transactions.offset_commit_verification import OffsetsPartitionVerification
from broker.cluster.transactions.producer_id_blocks import producer_id_blocks
from broker.cluster.transactions.transaction_markers import TransactionMarkerSender
from broker.cluster.transactions.transaction_verification import CoordinatorVerification
from broker.composition import (
    client_quotas,
    consumer_settings,
    group_coordinator_settings,
    inter_broker_listener,
    isr_changes,
    selector,
    serves_consumer_groups,
    share_coordinator_settings,
    share_settings,
    transaction_coordinator_settings,
)
from broker.network.listening.advertised_addresses import AdvertisedAddresses
from broker.network.memory_budget import MemoryBudget
from broker.network.responses.response_memory import ResponseMemory
from broker.observability.client_warnings import ClientWarnings
from broker.services import Services
from broker.settings.group_configs import StoredGroupConfigs
from broker.settings.replication_quotas import ReplicationQuotas
from broker.settings.subscription_configs import StoredSubscriptions
from broker.telemetry.client_telemetry import TELEMETRY_KEYS, ClientTelemetry
from client.event_loop.broker_client import BrokerClient
from controller.controller import Controller, ControllerIdentity
from controller.producer_ids import ProducerIds
from controller.requests.channels import BrokerChannel, InProcessChannel
from controller.requests.network_channel import network_channels
from coordinator.group_coordinator import GroupCoordinator
from coordinator.runtime.coordinator_runtime import CoordinatorDependencies
from coordinator.share_coordinator import ShareCoordinator
from coordinator.transaction_coordinator import TransactionCoordinator
from metadata.admin.replication_policy import FallBackToOneReplica, StrictReplication
from metadata.admin.topic_admin import TopicAdmin
from metadata.image import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode
from protocol.transaction_version import EPOCH_BUMPS
from replication.dependencies import PartitionDependencies
from replication.fetch_sessions import FetchSessions
from replication.followers.fetcher import FetcherDependencies
from replication.followers.fetchers import Fetchers
from replication.followers.leader_endpoint import FetchSettings
from replication.live_brokers import LiveBrokers
from replication.marker_appender import MarkerAppender
from replication.message_expiry import MessageExpiry
from replication.moves.log_moves import LogMoveDependencies, LogMoves
from replication.partitions import LeadershipListeners, NoFetchers, Partitions
from replication.sharing.dependencies import SharingDependencies
from replication.sharing.share_partitions import LedSharePartitions
from runtime.network.transport import Address
from runtime.slices import SerialQueue

if TYPE_CHECKING:
    from broker.cluster.cluster_acls import ClusterAcls
    from broker.network.listening.listeners import ListenerPlan
    from broker.network.routes import DispatchTable
    from broker.observability.audit import AuditLog
    from broker.observability.metrics import BrokerMetrics
    from broker.settings.dynamic_settings import DynamicSettings
    from client.event_loop.connector import Connector
    from config.broker import BrokerSettings
    from config.inter_broker_version import InterBrokerVersion
    from coordinator.group.assigned.settings import GroupConfigs
    from metadata.image import MetadataCache
    from metadata.store.port import Store
    from metadata.store.znodes import BrokerRegistration
    from protocol.messages.write_txn_markers import WritableTxnMarker
    from protocol.topic_partition import TopicPartition
    from runtime.clock import Clock
    from runtime.disk.disk_queue import Readers
    from runtime.randomness import Randomness
    from runtime.tasks import TaskScope
    from runtime.timer import Timer
    from security.authorizer import Authorizer
    from storage.directories.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """What the components are built on. `settings` are the static ones; `version` is the cluster's
    inter.broker.protocol.version; `has_others` says whether the cluster may have other brokers; `requests` is the budget for
    the bytes of requests in memory; `brokers_connector` connects to other brokers (`broker.cluster.brokers_connector`);
    `readers` are threads."""

    settings: BrokerSettings
    broker_id: int
    has_others: bool
    version: InterBrokerVersion
    plans: Sequence[ListenerPlan]
    clock: Clock
    randomness: Randomness
    brokers_connector: Connector
    timer: Timer
    tasks: TaskScope
    readers: Readers
    store: Store
    dynamic_settings: DynamicSettings
    logs: LogManager
    metadata: MetadataCache
    metrics: BrokerMetrics
    authorizer: Authorizer
    acls: ClusterAcls | None
    audit: AuditLog
    requests: MemoryBudget
    table: DispatchTable


class Components:
    """Makes the components. `services` are for handlers; `controller_channel`, `quotas` and `message_expiry` are for
    `broker.server`."""

    def __init__(self, infrastructure: Infrastructure, *, is_registered: Callable[[], bool]) -> None:
        """`is_registered` returns whether this broker is registered in the store."""
        self._infrastructure = base = infrastructure
        call_soon = asyncio.get_running_loop().call_soon
        topic_admin = self._topic_admin()
        internal_topics = InternalTopics(topic_admin, base.metadata, base.table.levels, base.tasks)
        controller = self._controller(is_registered, internal_topics)
        self.controller_channel = ControllerChannel(
            base.broker_id, controller, base.metadata, self._broker_client, base.clock
        )
        self.quotas = ReplicationQuotas(base.broker_id, base.settings, base.clock)
        fetchers = self._fetchers() if base.has_others else None
        log_moves = self._log_moves(fetchers)
        elections = CoordinatorElections()
        self.message_expiry = MessageExpiry(base.clock, base.tasks)
        leaderships = LeadershipListeners(elections, self.message_expiry)
        partitions = Partitions(
            base.broker_id, base.logs, call_soon, leaderships,
            dependencies=self._partition_dependencies(), following=fetchers, moving=log_moves,
        )  # fmt: skip
        base.metadata.subscribe(LiveBrokers(lambda: partitions).on_image)
        verification = self._transaction_verification()
        group_configs = StoredGroupConfigs(
            base.store, base.dynamic_settings, base.tasks, consumer_settings, share_settings
        )
        share_coordinator = self._share_coordinator(partitions)
        elections.add(share_coordinator.runtime)
        share_states = self._share_states(share_coordinator, internal_topics)
        sharing = self._sharing(share_states, group_configs.current)
        leaderships.add(sharing)
        groups = self._groups(partitions, verification, group_configs.current, share_states)
        elections.add(groups.runtime)
        self._control = self._control_requests(partitions, groups)
        serial_queue = SerialQueue(base.clock, call_soon)
        telemetry = ClientTelemetry(
            lambda: base.dynamic_settings.settings, base.clock, base.randomness, serial_queue, base.readers.run
        )
        marker_appender = self._marker_appender(partitions, groups, serial_queue)
        transaction_markers = self._transaction_markers(marker_appender)
        blocks = producer_id_blocks(
            base.broker_id, self._broker_epoch, base.version, self.controller_channel, base.store
        )
        producer_ids = ProducerIds(blocks)
        transactions = self._transactions(partitions, transaction_markers, producer_ids)
        elections.add(transactions)
        self.services = Services(
            settings=base.settings,
            broker_id=base.broker_id,
            clock=base.clock,
            randomness=base.randomness,
            timer=base.timer,
            tasks=base.tasks,
            serial_queue=serial_queue,
            partitions=partitions,
            log_moves=log_moves,
            fetchers=fetchers,
            fetch_sessions=FetchSessions(base.settings.max_incremental_fetch_session_cache_slots, base.randomness),
            requests=base.requests,
            response_memory=ResponseMemory(
                MemoryBudget(base.settings.barnabas_fetch_response_memory_bytes), base.timer
            ),
            metadata=base.metadata,
            features=base.table.levels,
            advertised=AdvertisedAddresses(base.broker_id, base.plans),
            control=self._control,
            controller=controller,
            topic_admin=topic_admin,
            producer_ids=producer_ids,
            internal_topics=internal_topics,
            groups=groups,
            group_lag=self._group_lag(groups, partitions),
            transactions=transactions,
            marker_appender=marker_appender,
            transaction_markers=transaction_markers,
            transaction_verification=verification,
            share_coordinator=share_coordinator,
            share_states=share_states,
            sharing=sharing,
            readers=base.readers,
            logs=base.logs,
            store=base.store,
            dynamic_settings=base.dynamic_settings,
            group_configs=group_configs,
            subscription_configs=StoredSubscriptions(
                base.store, base.tasks, telemetry.subscriptions, self._tell_of_telemetry
            ),
            telemetry=telemetry,
            serves_consumer_groups=self._serves_consumer_groups,
            serves_share_groups=lambda: base.table.levels.levels.share >= 1,
            authorizer=base.authorizer,
            acls=base.acls,
            quotas=client_quotas(base.settings, base.clock),
            audit=base.audit,
            client_warnings=ClientWarnings(base.clock),
            delegation_tokens=self._delegation_tokens(controller),
            metrics=base.metrics,
            table=base.table,
        )

    # --- the controller and its requests ---

    def _controller(self, is_registered: Callable[[], bool], internal_topics: InternalTopics) -> Controller:
        base = self._infrastructure
        identity = ControllerIdentity(base.broker_id, inter_broker_listener(base.plans), self._channel, is_registered)
        return Controller(
            identity, base.store, base.metadata, lambda: base.dynamic_settings.settings,
            clock=base.clock, randomness=base.randomness, tasks=base.tasks, create_topics=internal_topics.create_on,
        )  # fmt: skip

    def _topic_admin(self) -> TopicAdmin:
        base = self._infrastructure
        policy = StrictReplication() if base.has_others else FallBackToOneReplica()
        return TopicAdmin(base.store, base.metadata, lambda: base.dynamic_settings.settings, base.randomness, policy)

    def _delegation_tokens(self, controller: Controller) -> DelegationTokens | None:
        base = self._infrastructure
        settings = TokenSettings.of(base.settings)
        if settings is None:
            return None
        return DelegationTokens(
            settings, base.store, base.clock, base.randomness, base.tasks, is_controller=lambda: controller.is_active
        )

    def _control_requests(self, partitions: Partitions, groups: GroupCoordinator) -> ControlRequests:
        """Make what handles control requests, and what finds the topics that were deleted while this broker was away."""
        base = self._infrastructure
        claims = ControllerClaims(base.broker_id, base.store)
        control = ControlRequests(
            base.broker_id, partitions, base.metadata, base.dynamic_settings, claims, groups.on_partitions_deleted
        )
        deleted = DeletedTopics(
            base.store, base.metadata, lambda: (claims.epoch, control.broker_epoch), control.forget_topics, base.tasks
        )
        base.metadata.subscribe(deleted.on_image)
        return control

    def _broker_epoch(self) -> int:
        return self._control.broker_epoch

    # --- partitions ---

    def _fetchers(self) -> Fetchers:
        base = self._infrastructure
        dependencies = FetcherDependencies(
            clock=base.clock,
            version=base.version,
            broker_epoch=self._broker_epoch,
            quota=self.quotas.follower,
            metrics=base.metrics,
        )
        settings = FetchSettings.of(base.dynamic_settings.settings, base.broker_id)
        return Fetchers(settings, base.brokers_connector, self._address_of, dependencies, base.tasks)

    def _log_moves(self, fetchers: Fetchers | None) -> LogMoves:
        base, settings = self._infrastructure, self._infrastructure.settings
        threads = settings.num_replica_alter_log_dirs_threads or len(settings.log_directories)
        return LogMoves(
            LogMoveDependencies(
                logs=base.logs.future,
                following=NoFetchers() if fetchers is None else fetchers,
                clock=base.clock,
                tasks=base.tasks,
                quota=self.quotas.log_moves,
                copies_at_once=threads,
                fetch_max_bytes=settings.replica_fetch_max_bytes,
            )
        )

    def _partition_dependencies(self) -> PartitionDependencies:
        base = self._infrastructure
        if not base.has_others:
            return PartitionDependencies(now_ms=base.clock.monotonic_ms)
        return PartitionDependencies(
            now_ms=base.clock.monotonic_ms,
            is_alive=lambda broker_id: broker_id in base.metadata.image.brokers,
            isr_changes=isr_changes(
                base.broker_id,
                self._broker_epoch,
                base.version,
                self.controller_channel,
                base.store,
                base.clock,
                base.tasks,
            ),
            quota=self.quotas.leader,
            metrics=base.metrics,
            select_replica=selector(base.settings),
            lag_max_ms=base.settings.replica_lag_time_max_ms,
        )

    # --- coordinators ---

    def _groups(
        self,
        partitions: Partitions,
        verification: CoordinatorVerification,
        configs: GroupConfigs,
        share_states: ShareStateClient,
    ) -> GroupCoordinator:
        base, settings = self._infrastructure, self._infrastructure.settings
        log = InternalLog(
            GROUP_METADATA_TOPIC, partitions, base.clock,
            acks=settings.offsets_commit_required_acks, read_bytes=settings.offsets_load_buffer_size,
        )  # fmt: skip
        commits = OffsetsPartitionVerification(
            GROUP_METADATA_TOPIC, partitions, verification,
            lambda: base.dynamic_settings.settings.transaction_partition_verification_enable,
        )  # fmt: skip
        groups = GroupCoordinator(
            group_coordinator_settings(settings), self._coordinator_of(log), base.metrics, commits, configs,
            base.readers.run, share_states,
        )  # fmt: skip
        base.metadata.subscribe(groups.on_image_changed)
        return groups

    def _serves_consumer_groups(self) -> bool:
        base = self._infrastructure
        return serves_consumer_groups(base.settings, base.table.levels.levels)

    def _coordinator_of(self, log: InternalLog) -> CoordinatorDependencies:
        base = self._infrastructure
        return CoordinatorDependencies(
            clock=base.clock,
            timer=base.timer,
            randomness=base.randomness,
            tasks=base.tasks,
            writer=log,
            reader=log,
            partitions_count=lambda: base.metadata.image.partitions_count(log.topic),
        )

    def _group_lag(self, groups: GroupCoordinator, partitions: Partitions) -> GroupLag:
        base = self._infrastructure
        return GroupLag(
            base.broker_id, groups, partitions, base.metadata,
            lambda broker_id: self._client_of(broker_id, f"broker-{base.broker_id}-group-lag"),
            version=base.version, clock=base.clock, tasks=base.tasks, interval_ms=base.settings.barnabas_lag_interval_ms,
        )  # fmt: skip

    # --- transactions ---

    def _transactions(
        self, partitions: Partitions, markers: TransactionMarkerSender, producer_ids: ProducerIds
    ) -> TransactionCoordinator:
        base, settings = self._infrastructure, self._infrastructure.settings
        log = InternalLog(
            TRANSACTION_STATE_TOPIC, partitions, base.clock,
            acks=ACKS_ALL, read_bytes=settings.transaction_state_log_load_buffer_size,
        )  # fmt: skip
        return TransactionCoordinator(
            transaction_coordinator_settings(settings), self._coordinator_of(log), markers, producer_ids.next_id,
            base.table.levels,
        )  # fmt: skip

    def _marker_appender(
        self, partitions: Partitions, groups: GroupCoordinator, serial_queue: SerialQueue
    ) -> MarkerAppender:
        base = self._infrastructure

        def on_committed(partition: TopicPartition, marker: WritableTxnMarker) -> None:
            """In `__consumer_offsets` the end of a transaction is also that of its offset commits."""
            _topic, index = partition
            groups.on_transaction_ended(index, marker.producer_id, committed=marker.transaction_result)

        return MarkerAppender(
            partitions, on_committed, observed_topic=GROUP_METADATA_TOPIC,
            clock=base.clock, timer=base.timer, serial_queue=serial_queue, timeout_ms=base.settings.request_timeout_ms,
        )  # fmt: skip

    def _transaction_markers(self, marker_appender: MarkerAppender) -> TransactionMarkerSender:
        base = self._infrastructure
        return TransactionMarkerSender(
            base.broker_id, base.metadata, self._marker_client, marker_appender.append,
            version=base.version.write_txn_markers, timer=base.timer, tasks=base.tasks,
        )  # fmt: skip

    def _transaction_verification(self) -> CoordinatorVerification:
        infrastructure = self._infrastructure
        return CoordinatorVerification(
            infrastructure.broker_id, infrastructure.metadata, self._verification_client, self._verify_partitions,
            self._add_partitions, clock=infrastructure.clock, tasks=infrastructure.tasks, metrics=infrastructure.metrics,
        )  # fmt: skip

    def _verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Ask the transaction coordinator of this broker, which is made later than those who verify."""
        transactions = self.services.transactions
        return transactions.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)

    async def _add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> ErrorCode:
        """Add to a transaction of this broker's coordinator, as its client expects that leaves it to brokers."""
        response = await self.services.transactions.add_partitions(
            transactional_id, producer_id, producer_epoch, partitions, EPOCH_BUMPS
        )
        return response.error_code

    def _verification_client(self, broker_id: int) -> BrokerClient:
        return self._client_of(broker_id, f"broker-{self._infrastructure.broker_id}-add-partitions-manager")

    def _marker_client(self, broker_id: int) -> BrokerClient:
        return self._client_of(broker_id, f"broker-{self._infrastructure.broker_id}-txn-marker-sender")

    # --- client metrics ---

    def _tell_of_telemetry(self, has_subscriptions: bool) -> None:
        """Clients ask for subscriptions where they may: that is no use, and a line in their logs, while there are none."""
        self._infrastructure.table.keep_back(frozenset() if has_subscriptions else TELEMETRY_KEYS)

    # --- states of share partitions ---

    def _share_coordinator(self, partitions: Partitions) -> ShareCoordinator:
        base, settings = self._infrastructure, self._infrastructure.settings
        log = InternalLog(
            SHARE_GROUP_STATE_TOPIC, partitions, base.clock,
            acks=ACKS_ALL, read_bytes=settings.share_coordinator_load_buffer_size,
        )  # fmt: skip
        coordinator = ShareCoordinator(
            share_coordinator_settings(settings), self._coordinator_of(log), lambda: base.metadata.image,
            log.delete_records,
        )  # fmt: skip
        base.metadata.subscribe(coordinator.on_image_changed)
        return coordinator

    def _share_states(self, local: ShareCoordinator, internal_topics: InternalTopics) -> ShareStateClient:
        base = self._infrastructure
        return ShareStateClient(
            base.broker_id, base.metadata, local,
            lambda broker_id: self._client_of(broker_id, f"broker-{base.broker_id}-share-states"), internal_topics.ensure,
            clock=base.clock, timer=base.timer, tasks=base.tasks, limit_ms=base.settings.request_timeout_ms,
        )  # fmt: skip

    def _sharing(self, states: ShareStateClient, configs: GroupConfigs) -> LedSharePartitions:
        base = self._infrastructure
        dependencies = SharingDependencies(
            clock=base.clock,
            timer=base.timer,
            tasks=base.tasks,
            states=states,
            config_of=configs.share_of,
            call_soon=asyncio.get_running_loop().call_soon,
            metrics=base.metrics.shares,
        )
        return LedSharePartitions(dependencies, base.settings.group_share_max_share_sessions)

    # --- channels to brokers ---

    def _channel(self, known: BrokerRegistration) -> BrokerChannel:
        """Return the controller's channel to a broker; to this broker it is in process."""
        base = self._infrastructure
        if known.broker_id == base.broker_id:
            return InProcessChannel(self._control)
        connect = network_channels(
            base.brokers_connector,
            base.broker_id,
            inter_broker_listener(base.plans),
            base.version,
            timeout_ms=base.settings.controller_socket_timeout_ms,
        )
        return connect(known)

    def _broker_client(self, broker_id: int) -> BrokerClient:
        """Return a client of the current controller, at the address in the cluster image."""
        base = self._infrastructure
        return BrokerClient(
            base.brokers_connector,
            lambda: self._address_of(broker_id),
            str(base.broker_id),
            timeout_ms=base.settings.controller_socket_timeout_ms,
        )

    def _client_of(self, broker_id: int, client_id: str) -> BrokerClient:
        """Return a client of another broker for inter-broker requests."""
        base = self._infrastructure
        return BrokerClient(
            base.brokers_connector,
            lambda: self._address_of(broker_id),
            client_id,
            timeout_ms=base.settings.request_timeout_ms,
        )

    def _address_of(self, broker_id: int) -> Address | None:
        endpoint = self._infrastructure.metadata.image.endpoint(
            broker_id, inter_broker_listener(self._infrastructure.plans)
        )
        return None if endpoint is None else Address(endpoint.host, endpoint.port)
