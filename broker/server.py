"""The life of a broker: its infrastructure, its components (`broker.components`), and the order of its start and stop.

    lock directories -> store -> identity -> settings -> logs (recovery) -> bind -> register -> elect -> announced -> serve
    controlled shutdown -> stop accepting -> drain -> resign as controller -> close fetchers, groups, partitions, logs (clean
    marker) -> store -> unlock

With `zookeeper.connect` the broker is a member of a cluster: control requests and ApiVersions are served as soon as the port
is open, everything else once the controller has announced this broker to it. Without it, it is standalone.

Rules: no decisions of the protocol, no state of a partition. Clock, randomness, files, network and store come in through
`Dependencies`, so that a simulation runs the same broker. What is made here is started and stopped here, and so are the
components.
Invariants: connections are accepted early (a port of 0 must be known before registration) but clients are not served
until the cluster image is there; the clean-shutdown marker is written only after all logs were flushed.
Source: Kafka KafkaServer.startup, shutdown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.access_control import AccessControl
from broker.cluster.brokers_connector import brokers_connector
from broker.cluster.cluster_features import ClusterFeatures
from broker.cluster.controlled_shutdown import request_controlled_shutdown
from broker.cluster.controller_channel import ControllerChannel
from broker.cluster.log_directory_events import LogDirectoryEvents
from broker.cluster.membership import Membership
from broker.cluster.power_loss import BootFile, wait_until_out_of_isrs
from broker.cluster.store_directory import check_store_has_a_cluster, check_store_is_of, store_directory
from broker.cluster.stray_logs import warn_of_stray_logs
from broker.cluster.topics_at_start import TopicAtStart, create_topics_at_start
from broker.components import Components, Infrastructure
from broker.composition import (
    accept_limits,
    authentication,
    connection_limits,
    connection_rates,
    controlled_shutdown_version,
    gate,
    initial_levels,
    inter_broker_listener,
    inter_broker_version,
    listener_plans,
    logins,
    registration,
    tls_listeners,
)
from broker.dependencies import Dependencies
from broker.handlers import ALL
from broker.network.connections.acceptor import Acceptor
from broker.network.connections.connection_shared import ConnectionShared
from broker.network.dispatch import Dispatch
from broker.network.listening.listeners import ListenerPlan, with_host_name
from broker.network.listening.open_ports import OpenPorts, drain
from broker.network.memory_budget import MemoryBudget
from broker.network.request_log import RequestLog
from broker.network.routes import EARLY_KEYS, DispatchTable
from broker.network.sasl.sources import SaslSources
from broker.observability.metrics import BrokerMetrics
from broker.services import Services
from broker.settings.dynamic_settings import DynamicSettings
from broker.settings.settings_effects import SettingsEffects
from broker.settings.stored_passwords import StoredPasswords
from config.broker import BrokerSettings
from controller.producer_ids import use_separate_producer_ids
from metadata.admin.metadata_wait import wait_for_image
from metadata.features import CurrentLevels
from metadata.image import ClusterImage, MetadataCache
from metadata.store.any_session import in_any_session
from metadata.store.port import SessionEvent, Store
from metadata.store.registration import choose_broker_id, cluster_id, ensure_persistent_paths
from metadata.store.znodes import BrokerRegistration
from protocol.errors import KafkaError
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from replication.isr_expiry import expire_lagging_replicas
from runtime.error_texts import reason_of
from runtime.network.transport import Address
from runtime.tasks import TaskScope
from runtime.timer import Timer
from storage.directories.log_manager import LogManager

if TYPE_CHECKING:
    from broker.network.faults.fault_table import FaultTable
    from broker.network.faults.faulty_dispatch import FaultyDispatch

logger = logging.getLogger(__name__)

READY_TIMEOUT_MS = 30_000
# Session timeouts until a controller has removed this broker from ISRs: one for this broker's session, and one until another
# controller is elected.
POWER_LOSS_SESSIONS = 2
# queued.max.request.bytes=-1 sets no limit.
NO_LIMIT_BYTES = 2**63 - 1


class Broker:
    """One broker. `start` once, then `stop` once; both may raise, and `stop` may follow a `start` that did."""

    def __init__(
        self,
        settings: BrokerSettings,
        dependencies: Dependencies,
        *,
        topics: Sequence[TopicAtStart] = (),
        on_fatal: Callable[[str], None] | None = None,
        faults: FaultTable | None = None,
    ) -> None:
        """`on_fatal` is called with the reason when the broker cannot continue (every log directory failed, a task failed).
        `faults` are those that a test may inject; None: the broker has no such thing."""
        loop = asyncio.get_running_loop()
        self.settings = settings
        self.has_others = settings.zookeeper_connect is not None
        self._dependencies = dependencies
        self._topics = topics
        self._on_fatal = on_fatal or (lambda reason: None)
        self._faults = faults
        self._tasks = TaskScope(
            "broker", on_failure=lambda name, error: self._on_fatal(f"{name} failed: {reason_of(error)}")
        )
        self._store_tasks = TaskScope("store")
        self._timer = Timer(dependencies.clock, loop.call_later)
        self._plans = with_host_name(listener_plans(settings), dependencies.host_name)
        self._version = inter_broker_version(settings)
        self._initial_levels = initial_levels(settings, self._version)
        self._levels = CurrentLevels()
        self._passwords = StoredPasswords.of(settings, dependencies.randomness)
        self._access = AccessControl(settings, dependencies, self._tasks)
        self._sasl = SaslSources(
            dependencies.randomness,
            dependencies.documents,
            dependencies.filesystem,
            dependencies.clock,
            self._tasks,
        )
        self._metrics = BrokerMetrics(dependencies.clock)
        self._store: Store | None = None
        self._store_path: str | None = None
        self._services: Services | None = None
        early_keys = EARLY_KEYS if self.has_others else frozenset[int]()
        self._acceptor = Acceptor(
            self._timer,
            accept_limits(settings),
            early_keys=early_keys,
            brokers_listener=inter_broker_listener(self._plans) if len(self._plans) > 1 else None,
            rates=connection_rates(settings, self._plans),
        )
        self._ports = OpenPorts(dependencies.network, self._acceptor)
        limit_bytes = settings.queued_max_request_bytes
        self.request_budget = MemoryBudget(limit_bytes if limit_bytes > 0 else NO_LIMIT_BYTES)
        self.plain_budget = MemoryBudget(self.request_budget.limit_bytes)
        self._membership: Membership | None = None
        self._controller_channel: ControllerChannel | None = None
        self._request_log: RequestLog | None = None
        self.metadata = MetadataCache()
        self.broker_id = -1
        self.is_ready = False
        self._may_stop_clean = not self.has_others
        self.is_sure_of_its_logs = True
        """False after a loss of power if the broker registered while it was still in ISRs."""
        self.phase = "not started"
        """What a broker that is not ready is doing."""
        self.logs = LogManager(
            settings=settings,
            directories=settings.log_directories,
            config_of=lambda topic: self._dynamic.log_config(topic),
            current_settings=lambda: self._dynamic.settings,
            filesystem=dependencies.filesystem,
            disk=dependencies.disk,
            clock=dependencies.clock,
            randomness=dependencies.randomness,
            on_directory_failed=self._on_directory_failed,
            is_named=lambda key: self._services is not None and self._services.partitions.find(*key) is not None,
            on_room_again=self._on_room_again,
        )

    @property
    def services(self) -> Services:
        assert self._services is not None, "the broker has not started"
        return self._services

    @property
    def cluster_id(self) -> str:
        return self.metadata.image.cluster_id or ""

    @property
    def acceptor(self) -> Acceptor:
        return self._acceptor

    @property
    def bound(self) -> dict[str, Address]:
        """The address of each listener that is open, by its name."""
        return self._ports.bound

    @property
    def plans(self) -> list[ListenerPlan]:
        return self._plans

    @property
    def broker_epoch(self) -> int:
        """The epoch of the current registration; -1 before the first."""
        return -1 if self._services is None else self._services.control.broker_epoch

    # --- start ---

    async def start(self) -> None:
        """Start, and return when clients are served. Raises ConfigError, DirectoryRefused, StoreFileError, BrokerIdTakenError,
        UnsupportedFeaturesError, OSError."""
        await self._access.audit.open()
        self._enter("opening the store")
        await self._open_store()
        await self._dynamic.start()
        self._sasl_rules, self._login = logins(self._dynamic.settings, self._plans, self._version, self._sasl)
        await self._sasl.oauth.start()
        assert self._store is not None
        await self._access.load(self._store, self._version)
        await ClusterFeatures(self._store, self._version, self._tasks, self._levels, self._on_fatal).start()
        self._tls = tls_listeners(
            self._dynamic, self._plans, self._dependencies, self.logs.online_directories[0], self._timer, self._tasks
        )
        self._enter("loading logs")
        await self.logs.load()
        if await warn_of_stray_logs(self._store, self.logs.logs) and not self.has_others:
            await use_separate_producer_ids(self._store, self.broker_id, self._dependencies.randomness)
        services = self._make_components()
        await services.group_configs.start()
        await services.subscription_configs.start()
        await self._sasl.start_tokens(services.delegation_tokens)
        await self._ports.open(self._plans, self._tls)
        if self.has_others:
            self._enter("waiting to leave ISRs after a possible loss of power")
            await self._wait_until_out_of_isrs()
        self._enter("registering")
        assert self._membership is not None
        await self._membership.join()
        self._enter("waiting for a controller")
        await services.controller.start()
        self._enter("waiting to be announced by the controller")
        await self._announced()
        services.groups.start()
        services.group_lag.start()
        services.transactions.start()
        services.share_coordinator.start()
        if self.has_others:
            self._acceptor.open()  # other brokers need this one before its topics are created
        else:
            self._enter("starting its partitions")
            await services.controller.wait_until_brokers_updated()  # or clients would get topics that do not exist
        self._enter("creating topics")
        await create_topics_at_start(services.topic_admin, self._topics, has_others=self.has_others)
        self.logs.start()
        self._acceptor.open()
        if self.has_others:
            self._tasks.spawn(
                expire_lagging_replicas(
                    lambda: services.partitions,
                    self.settings.replica_lag_time_max_ms,
                    self._dependencies.clock.monotonic_ms,
                ),
                name="expire lagging replicas",
            )
        self._enter("serving")
        self.is_ready = True

    def _enter(self, phase: str) -> None:
        self.phase = phase
        logger.debug("startup phase entered: phase=%s", phase)

    async def _announced(self) -> None:
        """Wait until the cluster image lists this broker. In a cluster, for as long as it takes: an old controller may
        have to time out first."""
        while not await wait_for_image(self.metadata, lambda image: self.broker_id in image.brokers, READY_TIMEOUT_MS):
            if not self.has_others:
                raise TimeoutError("the controller has not announced this broker")
            logger.warning("no controller has announced this broker yet, waiting: broker=%d", self.broker_id)

    async def _open_store(self) -> None:
        """Lock the log directories, open the store, and determine the cluster id and the broker id."""
        dependencies = self._dependencies
        self.logs.lock()
        identity = self.logs.stored_identity()
        directory = self._store_path = self._store_directory()
        self._store = store = await dependencies.open_store(
            directory, dependencies.disk.queue(f"{directory}#store"), dependencies.clock, self._store_tasks
        )
        if self.has_others:
            self._metrics.on_store_session(SessionEvent.CONNECTED)
            store.subscribe(self._metrics.on_store_session)
            self._metrics.use_store(store.use)
        connect = self.settings.zookeeper_connect
        if connect is not None:
            await in_any_session(lambda: check_store_has_a_cluster(store, connect, identity))
        await in_any_session(lambda: ensure_persistent_paths(store, self._initial_levels))
        own_cluster = await in_any_session(lambda: cluster_id(store, dependencies.randomness, identity.cluster_id))
        self.broker_id = await in_any_session(lambda: choose_broker_id(store, self.settings, identity.broker_id))
        if not self.has_others and identity.broker_id in (None, self.broker_id):
            await check_store_is_of(self.broker_id, store, directory, identity)
        self.logs.claim(self.broker_id, own_cluster)
        self._store_directory()  # it may have failed meanwhile
        self.metadata.publish(ClusterImage(cluster_id=own_cluster))
        self._dynamic = DynamicSettings(
            self.settings, self.broker_id, store, self._tasks, dependencies.clock, self._passwords
        )
        self._dynamic.on_entity_changed(self._sasl.users.on_entity_changed)

    def _store_directory(self) -> str:
        """Raises DirectoryRefused."""
        if self.has_others:
            return self.logs.online_directories[0]
        return store_directory(self.logs.paths, self.logs.online_directories, self._dependencies.filesystem)

    async def _wait_until_out_of_isrs(self) -> None:
        dependencies, directory = self._dependencies, self.logs.online_directories[0]
        assert self._store is not None
        self.is_sure_of_its_logs = await wait_until_out_of_isrs(
            BootFile(directory, dependencies.filesystem, dependencies.disk.queue(f"{directory}#store")), dependencies.boot_id(),
            self._store, self.broker_id, was_clean=self.logs.was_clean, clock=dependencies.clock,
            timeout_ms=POWER_LOSS_SESSIONS * self.settings.zookeeper_session_timeout_ms,
        )  # fmt: skip
        self._may_stop_clean = True

    def _make_components(self) -> Services:
        """Make the components, and those that register this broker and report its failed directories."""
        dependencies, settings, tasks, store = self._dependencies, self.settings, self._tasks, self._store
        assert store is not None
        table = DispatchTable(self._access.audit.audited(ALL), self._levels)
        components = Components(
            Infrastructure(
                settings=settings,
                broker_id=self.broker_id,
                has_others=self.has_others,
                version=self._version,
                plans=self._plans,
                clock=dependencies.clock,
                randomness=dependencies.randomness,
                brokers_connector=brokers_connector(
                    dependencies,
                    self._plans,
                    self._tls,
                    self._login,
                    timeout_ms=settings.barnabas_authentication_timeout_ms,
                ),
                timer=self._timer,
                tasks=tasks,
                readers=dependencies.disk.readers(),
                store=store,
                dynamic_settings=self._dynamic,
                logs=self.logs,
                metadata=self.metadata,
                metrics=self._metrics,
                authorizer=self._access.authorizer,
                acls=self._access.acls,
                audit=self._access.audit,
                requests=self.request_budget,
                table=table,
            ),
            is_registered=lambda: self._is_registered,
        )
        services = self._services = components.services
        self._controller_channel = components.controller_channel
        self._log_directory_events = LogDirectoryEvents(self.broker_id, store, tasks)
        self._membership = Membership(
            store, self._registration, self._on_registered, self._on_fatal,
            clock=dependencies.clock, tasks=tasks, session_timeout_ms=settings.zookeeper_session_timeout_ms,
        )  # fmt: skip
        SettingsEffects(
            services, self._acceptor, components.quotas, services.fetchers, components.message_expiry
        ).follow()
        self._serve_through(table, services)
        return services

    def _serve_through(self, table: DispatchTable, services: Services) -> None:
        """Give the acceptor what connections dispatch to; `Acceptor.open` starts serving."""
        plain = Dispatch(table, self._tasks, self._metrics.requests, gate(services))
        dispatch: Dispatch | FaultyDispatch = plain
        if self._faults is not None:
            from broker.network.faults.faulty_dispatch import FaultyDispatch  # noqa: PLC0415  for tests alone

            dispatch = FaultyDispatch(plain, self._timer, self._faults)
        shared = ConnectionShared(
            dispatch=dispatch,
            services=services,
            budget=self.request_budget,
            plain_budget=self.plain_budget,
            response_memory=services.response_memory,
            timer=self._timer,
            call_soon=asyncio.get_running_loop().call_soon,
            limits=connection_limits(self.settings),
            authentication=authentication(self._sasl_rules, table, services),
        )
        self._request_log = RequestLog(dispatch, self._dependencies.clock, shared.dispatch_through)
        self._acceptor.serve(shared)

    def _registration(self) -> BrokerRegistration:
        host_name = self._dependencies.host_name if self.has_others else "localhost"
        now_ms = self._dependencies.clock.wall_ms()
        return registration(
            self.broker_id, self.settings, self._version, self._plans, self.bound, host_name=host_name, now_ms=now_ms
        )

    # --- changes while it runs ---

    @property
    def _is_registered(self) -> bool:
        return self._membership is not None and self._membership.is_registered

    def _on_registered(self, broker_epoch: int) -> None:
        self.services.control.registered(broker_epoch)
        self.services.controller.on_registered()

    def _on_directory_failed(self, path: str, error: OSError) -> None:
        if self._services is not None:
            self._services.partitions.on_directory_failed(path)
            self._log_directory_events.notify()
        if not self.logs.online_directories:
            self._on_fatal(f"every log directory has failed, the last one {path}: {reason_of(error)}")
        elif path == self._store_path and not self.has_others:
            self._on_fatal(f"the log directory {path}, which holds the store, has failed: {reason_of(error)}")

    def _on_room_again(self) -> None:
        if self._services is not None and not self._tasks.is_closed:
            self._tasks.spawn(
                self._services.control.on_room_again(), name="start partitions that waited for disk space"
            )

    # --- stop ---

    async def stop(self) -> bool:
        """Stop in order: complete requests in progress, flush, and mark the stop as clean. Bounded in time. Returns whether it
        was clean: the next start has nothing to recover."""
        was_serving, self.is_ready = self.is_ready, False
        self._enter("stopping")
        services = self._services
        if services is not None:
            services.controller.broker_stops()
            if services.fetchers is not None:
                services.fetchers.stop_accepting()
        if was_serving and self.has_others and self.settings.controlled_shutdown_enable:
            await self._request_controlled_shutdown()
        await self._ports.close()
        await drain(self._acceptor, self._end_rebalances)
        if services is not None:
            await services.controller.retire()
            services.groups.close()
            services.group_lag.close()
            services.transactions.close()
            services.transaction_markers.close()
            services.transaction_verification.close()
            services.share_states.close()
            services.share_coordinator.close()
            self._dynamic.close()
            if services.delegation_tokens is not None:
                services.delegation_tokens.close()
        self._access.close()
        if self._membership is not None:
            await self._membership.leave()
        if services is not None:
            try:
                await services.controller.close()
            except KafkaError as error:
                logger.warning("controller did not resign: error=%s", error)
            await services.log_moves.close()
            if services.fetchers is not None:
                await services.fetchers.close()
        if self._controller_channel is not None:
            self._controller_channel.close()
        self._acceptor.stop()
        self._acceptor.abort_all()
        if self._request_log is not None:
            self._request_log.close()
        await self._access.audit.close()
        await self._tasks.close()
        self._timer.close()
        # After a possible loss of power, a stop is clean only if this broker had left the ISRs.
        is_clean = self._may_stop_clean or self.logs.was_clean
        is_clean = await self.logs.close(broker_epoch=self.broker_epoch, is_clean=is_clean)
        if self._store is not None:
            await self._store.close()
        await self._store_tasks.close()
        return is_clean

    def reopen_log_files(self) -> bool:
        """Open the audit log anew. Returns whether there is one."""
        return self._access.audit.reopen()

    def _end_rebalances(self) -> None:
        """Members that wait for others get NOT_COORDINATOR."""
        if self._services is not None:
            self._services.groups.close()
            self._services.transactions.close()
            self._services.share_states.close()
            self._services.share_coordinator.close()

    async def _request_controlled_shutdown(self) -> None:
        assert self._controller_channel is not None
        if await self._is_alone_within(0):
            return  # no broker can take over leaderships
        request = ControlledShutdownRequest(broker_id=self.broker_id, broker_epoch=self.broker_epoch)
        version = controlled_shutdown_version(self._version)
        await request_controlled_shutdown(
            request, version, self._controller_channel, self.settings, self._is_alone_within
        )

    async def _is_alone_within(self, timeout_ms: int) -> bool:
        return await wait_for_image(self.metadata, lambda image: image.brokers.keys() <= {self.broker_id}, timeout_ms)
