"""The broker as a whole: makes every owner once, joins them, starts them in order and stops them in the reverse one.

    lock directories -> store -> identity -> settings -> logs (recovery) -> bind -> register -> elect -> serve
    stop accepting -> drain -> step down -> close groups, partitions, logs (clean marker) -> store -> unlock

Rules: this is the composition root: no decisions of the protocol, no state of a partition. Everything that touches the
world comes in through `Doors`, so that a simulation runs the same broker.
Invariants: connections are accepted early (a port of 0 must be known before registration) but nothing is read from them
until topics can be created; the clean-shutdown marker is written only after all logs were flushed.
Source: Kafka KafkaServer.startup, shutdown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from broker.acceptor import AcceptLimits, Acceptor, parse_per_ip_overrides
from broker.advertised import AdvertisedAddresses
from broker.answer_memory import AnswerMemory
from broker.budget import MemoryBudget
from broker.connection_shared import ConnectionLimits, ConnectionShared
from broker.control import ControlRequests, CoordinatorElections
from broker.dispatch import Dispatch, DispatchTable
from broker.dynamic_settings import DynamicSettings
from broker.handlers import ALL
from broker.internal_topics import InternalLog, InternalTopics
from broker.listeners import ListenerPlan, ListenerSettings, advertised_endpoints, parse_listeners
from broker.metrics import BrokerMetrics
from broker.services import Services
from broker.topics_at_start import TopicAtStart, create_topics_at_start
from config.broker import BrokerSettings
from config.errors import ConfigError
from controller import znodes
from controller.admin import FallBackToOneReplica
from controller.channels import BrokerChannel, InProcessChannel
from controller.host import Controller, ControllerSeat
from controller.registration import cluster_id, ensure_persistent_paths, register_broker
from controller.store import Store
from controller.waiting import image_shows
from controller.znodes import BrokerRegistration, RegisteredEndpoint
from coordinator.group.settings import GroupSettings
from coordinator.host import GROUP_METADATA_TOPIC, CoordinatorDoors, GroupCoordinator, GroupCoordinatorSettings
from metadata.image import ClusterImage, MetadataCache
from protocol.errors import KafkaError
from protocol.records.compression import Compression
from replication.fetch_sessions import FetchSessions
from replication.partitions import Partitions
from runtime.clock import Clock
from runtime.disk import Disk, DiskQueue
from runtime.filesystem import FileSystem
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from runtime.timer import Timer
from runtime.transport import Address, Listener, Network
from storage.log_manager import LogManager

logger = logging.getLogger(__name__)

READY_TIMEOUT_MS = 30_000
# So long may requests that have begun take to be answered when the broker stops.
DRAIN_TIMEOUT_MS = 2_000
REBALANCE_DRAIN_TIMEOUT_MS = 500
# queued.max.request.bytes=-1 sets no limit.
NO_LIMIT_BYTES = 2**63 - 1

OpenStore = Callable[[str, DiskQueue, Clock, TaskScope], Awaitable[Store]]


@dataclass(frozen=True, slots=True)
class Doors:
    """The world. `open_store` opens the embedded store at a path (a simulation gives its own ensemble)."""

    clock: Clock
    randomness: Randomness
    filesystem: FileSystem
    disk: Disk
    network: Network
    open_store: OpenStore


class Broker:
    """One broker. `start` once, then `stop` once; both may raise, and `stop` may follow a `start` that did."""

    def __init__(
        self,
        settings: BrokerSettings,
        doors: Doors,
        *,
        topics: Sequence[TopicAtStart] = (),
        on_fatal: Callable[[str], None] | None = None,
    ) -> None:
        """`on_fatal` is told when the broker cannot go on (every log directory failed, a task died)."""
        loop = asyncio.get_running_loop()
        self.settings = settings
        self._doors = doors
        self._topics = topics
        self._on_fatal = on_fatal or (lambda reason: None)
        self._tasks = TaskScope("broker", on_failure=lambda name, error: self._on_fatal(f"{name} failed: {error!r}"))
        self._store_tasks = TaskScope("store")
        self._timer = Timer(doors.clock, loop.call_later)
        self._listeners: list[Listener] = []
        self._plans = listener_plans(settings)
        self.bound: dict[str, Address] = {}
        self._store: Store | None = None
        self._services: Services | None = None
        self._acceptor = Acceptor(self._timer, accept_limits(settings))
        limit_bytes = settings.queued_max_request_bytes
        self.request_budget = MemoryBudget(limit_bytes if limit_bytes > 0 else NO_LIMIT_BYTES)
        self._control: ControlRequests | None = None
        self.metadata = MetadataCache()
        self.broker_id = -1
        self.is_ready = False
        self.logs = LogManager(
            settings=settings,
            directories=settings.log_directories,
            config_of=lambda topic: self._dynamic.log_config(topic),
            filesystem=doors.filesystem,
            disk=doors.disk,
            clock=doors.clock,
            randomness=doors.randomness,
            on_directory_failed=self._on_directory_failed,
        )

    @property
    def services(self) -> Services:
        assert self._services is not None, "the broker has not started"
        return self._services

    @property
    def cluster_id(self) -> str:
        return self.metadata.image.cluster_id or ""

    @property
    def plans(self) -> list[ListenerPlan]:
        return self._plans

    # --- start ---

    async def start(self) -> None:
        """Return when clients are served. Raises ConfigError, DirectoryRefused, StoreFileError, OSError."""
        await self._open_store()
        await self._dynamic.start()
        await self.logs.load()
        services = self._join()
        await self._bind(services)
        await self._register(services)
        await services.controller.start()
        if not await image_shows(self.metadata, lambda image: self.broker_id in image.brokers, READY_TIMEOUT_MS):
            raise TimeoutError("the controller has not announced this broker")
        services.groups.start(self._group_partitions(self.metadata.image))
        await create_topics_at_start(services.controller, self._topics)
        self.logs.start()
        self._acceptor.open()
        self.is_ready = True

    async def _open_store(self) -> None:
        """Hold the directories, open the store, and settle who this broker is."""
        doors = self._doors
        self.logs.lock()
        identity = self.logs.stored_identity()
        directory = self.logs.online_directories[0]
        self._store = store = await doors.open_store(
            directory, doors.disk.queue(f"{directory}#store"), doors.clock, self._store_tasks
        )
        await ensure_persistent_paths(store)
        own_cluster = await cluster_id(store, doors.randomness, identity.cluster_id)
        self.broker_id = await self._choose_broker_id(store, identity.broker_id)
        self.logs.claim(self.broker_id, own_cluster)
        self.metadata.publish(ClusterImage(cluster_id=own_cluster))
        self._dynamic = DynamicSettings(self.settings, self.broker_id, store, self._tasks)

    async def _choose_broker_id(self, store: Store, remembered: int | None) -> int:
        """`broker.id`, else the one in meta.properties, else a new one above `reserved.broker.max.id`."""
        if self.settings.effective_broker_id >= 0:
            return self.settings.effective_broker_id
        if remembered is not None:
            return remembered
        if self.settings.zookeeper_connect is None:
            known = await store.exists(znodes.BROKER_SEQUENCE)
            if known is not None and known.version > 0:  # meta.properties was lost: nobody else has this store
                return self.settings.reserved_broker_max_id + known.version
        stat = await store.set(znodes.BROKER_SEQUENCE, b"")
        return self.settings.reserved_broker_max_id + stat.version

    def _join(self) -> Services:
        """Make the owners and give them to each other."""
        doors, settings, tasks, timer = self._doors, self.settings, self._tasks, self._timer
        assert self._store is not None
        metrics = BrokerMetrics(doors.clock)
        seat = ControllerSeat(self.broker_id, self._inter_broker_listener(), self._channel)
        controller = Controller(
            seat, self._store, self.metadata, lambda: self._dynamic.settings, FallBackToOneReplica(),
            clock=doors.clock, randomness=doors.randomness, tasks=tasks,
        )  # fmt: skip
        elections = CoordinatorElections()
        partitions = Partitions(self.broker_id, self.logs, asyncio.get_running_loop().call_soon, elections)
        groups = self._group_coordinator(partitions, metrics)
        elections.groups = groups
        self._control = ControlRequests(partitions, self.metadata, self._dynamic, groups.on_partitions_deleted)
        table = DispatchTable(ALL)
        answers = AnswerMemory(MemoryBudget(settings.barnabas_fetch_response_memory_bytes), timer)
        services = Services(
            settings=settings,
            broker_id=self.broker_id,
            clock=doors.clock,
            randomness=doors.randomness,
            timer=timer,
            tasks=tasks,
            partitions=partitions,
            fetch_sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots, doors.randomness),
            answers=answers,
            metadata=self.metadata,
            advertised=AdvertisedAddresses(self.broker_id, self._plans),
            controller=controller,
            internal_topics=InternalTopics(controller, tasks),
            groups=groups,
            logs=self.logs,
            store=self._store,
            dynamic_settings=self._dynamic,
            metrics=metrics,
            api_versions=table.api_versions(),
        )
        self._services = services
        self._dynamic.on_topic_changed(lambda topic, _config: self._on_topic_config(topic))
        self._dynamic.on_broker_changed(self._on_broker_settings)
        shared = ConnectionShared(
            dispatch=Dispatch(table, tasks, metrics),
            services=services,
            budget=self.request_budget,
            answers=answers,
            owner=self._acceptor,
            timer=timer,
            call_soon=asyncio.get_running_loop().call_soon,
            limits=ConnectionLimits(
                max_frame_bytes=settings.socket_request_max_bytes,
                max_plain_bytes=min(settings.barnabas_request_max_bytes_other, settings.socket_request_max_bytes),
                max_elements=settings.barnabas_request_max_array_elements,
            ),
        )
        self._acceptor.serve(shared)
        return services

    def _group_coordinator(self, partitions: Partitions, metrics: BrokerMetrics) -> GroupCoordinator:
        settings, doors = self.settings, self._doors
        log = InternalLog(
            GROUP_METADATA_TOPIC, partitions, doors.clock,
            acks=settings.offsets_commit_required_acks, read_bytes=settings.offsets_load_buffer_size,
        )  # fmt: skip
        return GroupCoordinator(
            GroupCoordinatorSettings(
                groups=GroupSettings(
                    min_session_timeout_ms=settings.group_min_session_timeout_ms,
                    max_session_timeout_ms=settings.group_max_session_timeout_ms,
                    max_size=settings.group_max_size,
                    initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                    offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
                    offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
                ),
                partitions_count=settings.offsets_topic_num_partitions,
                compression=Compression(settings.offsets_topic_compression_codec),
                commit_timeout_ms=settings.offsets_commit_timeout_ms,
                retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
            ),
            CoordinatorDoors(
                clock=doors.clock,
                timer=self._timer,
                randomness=doors.randomness,
                tasks=self._tasks,
                writer=log,
                reader=log,
            ),
            metrics,
        )

    def _channel(self, registration: BrokerRegistration) -> BrokerChannel:
        """The controller's line to a broker. Over the embedded store there is this one."""
        assert registration.broker_id == self.broker_id, f"broker {registration.broker_id} cannot be reached"
        assert self._control is not None
        return InProcessChannel(self._control)

    def _inter_broker_listener(self) -> str:
        return next(plan.name for plan in self._plans if plan.is_inter_broker)

    async def _bind(self, services: Services) -> None:
        """Open the ports. Clients may connect; they are served once `Acceptor.open` says so."""
        for plan in self._plans:
            factory = self._acceptor.factory(plan.name, plan.security_protocol)
            listener = await self._doors.network.listen(plan.bind.host, plan.bind.port, factory)
            self._listeners.append(listener)
            self.bound[plan.name] = listener.address

    async def _register(self, services: Services) -> None:
        assert self._store is not None and self._control is not None
        addresses = advertised_endpoints(self._plans, self.bound)
        protocols = {plan.name: plan.security_protocol for plan in self._plans}
        registration = BrokerRegistration(
            broker_id=self.broker_id,
            endpoints=tuple(
                RegisteredEndpoint(name, address.host, address.port, protocols[name])
                for name, address in addresses.items()
            ),
            timestamp_ms=self._doors.clock.wall_ms(),
            rack=self.settings.broker_rack,
        )
        session = self._store.session()
        self._control.broker_epoch = await register_broker(self._store, session.session_id, registration)

    def _group_partitions(self, image: ClusterImage) -> int | None:
        topic = image.topics.get(GROUP_METADATA_TOPIC)
        return None if topic is None else len(topic.partitions)

    # --- changes while it runs ---

    def _on_topic_config(self, topic: str) -> None:
        self.logs.update_config(topic)
        for partition in self.services.partitions:
            if partition.topic == topic:
                partition.on_config_changed()

    def _on_broker_settings(self, settings: BrokerSettings) -> None:
        """Dynamic broker settings: limits of connections, and the defaults of every topic."""
        self._acceptor.limits = accept_limits(settings)
        for topic in {partition.topic for partition in self.services.partitions}:
            self._on_topic_config(topic)

    def _on_directory_failed(self, path: str, error: OSError) -> None:
        if self._services is not None:
            self._services.partitions.on_directory_failed(path)
        if not self.logs.online_directories:
            self._on_fatal(f"every log directory has failed, the last one {path}: {error}")

    # --- stop ---

    async def stop(self) -> None:
        """Answer what has begun, flush, leave everything as a clean start wants it. Bounded in time."""
        self.is_ready = False
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        await self._drain()
        services = self._services
        if services is not None:
            try:
                await services.controller.close()
            except KafkaError as error:
                logger.warning("controller did not step down: error=%s", error)
            services.groups.close()
            self._dynamic.close()
        self._acceptor.stop()
        self._acceptor.abort_all()
        await self._tasks.close()
        self._timer.close()
        epoch = -1 if self._control is None else self._control.broker_epoch
        await self.logs.close(broker_epoch=epoch)
        if self._store is not None:
            await self._store.close()
        await self._store_tasks.close()

    async def _drain(self) -> None:
        """Let requests that have begun be answered, and the answers be taken.

        Members that wait for a rebalance would wait longer than anybody wants: they are told to look for the next
        coordinator once everybody else had time.
        """
        self._acceptor.finish_all("the broker is stopping")
        if await self._emptied_within(REBALANCE_DRAIN_TIMEOUT_MS):
            return
        if self._services is not None:
            self._services.groups.close()
        if not await self._emptied_within(DRAIN_TIMEOUT_MS - REBALANCE_DRAIN_TIMEOUT_MS):
            logger.warning("connections cut off: count=%d", len(self._acceptor))

    async def _emptied_within(self, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._acceptor.emptied()
        except TimeoutError:
            return False
        return True


def listener_plans(settings: BrokerSettings) -> list[ListenerPlan]:
    """The listeners that the settings ask for. Raises ConfigError."""
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
    for plan in plans:
        if plan.security_protocol != "PLAINTEXT":
            raise ConfigError(f"listener {plan.name}: {plan.security_protocol} is not served yet, only PLAINTEXT")
    return plans


def accept_limits(settings: BrokerSettings) -> AcceptLimits:
    """Raises ConfigError."""
    try:
        overrides = parse_per_ip_overrides(settings.max_connections_per_ip_overrides)
    except ValueError as error:
        raise ConfigError(f"max.connections.per.ip.overrides: {error}") from error
    return AcceptLimits(
        max_connections=settings.max_connections,
        max_connections_per_ip=settings.max_connections_per_ip,
        per_ip_overrides=overrides,
        max_idle_ms=settings.connections_max_idle_ms,
    )
