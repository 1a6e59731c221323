"""Gauges, read from the broker's components at each scrape: partitions, logs, groups, the controller, memory.

Rules: reads attributes only; nothing is maintained for it. Yields the samples of one metric together, in small steps, so that
the reader can yield to the event loop between them: it iterates over copies.
Source: Kafka ReplicaManager, Partition, UnifiedLog, KafkaController, GroupMetadataManager, DelayedOperationPurgatory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from broker.telemetry.unfolding import Left
from controller.events.event_times import ControllerState
from coordinator.group.classic.group import GroupState
from coordinator.group.commit_window import GroupStatus
from coordinator.runtime.shard_context import ShardState
from runtime.monitoring.metric import Metric, Sample, summary_samples
from security.acls.acl_authorizer import AclAuthorizer
from storage.free_space import Room

if TYPE_CHECKING:
    from broker.cluster.group_lag import GroupLag
    from broker.cluster.logins.delegation_tokens import DelegationTokens
    from broker.network.memory_budget import MemoryBudget
    from broker.services import Services
    from broker.telemetry.client_telemetry import ClientTelemetry
    from controller.events.event_times import EventTimes
    from replication.followers.fetcher import Fetcher
    from replication.followers.fetchers import Fetchers
    from replication.moves.log_moves import LogMoves
    from replication.partition import Partition
    from replication.sharing.group_partition import GroupPartition
    from replication.sharing.share_partition import SharePartition
    from replication.sharing.share_partitions import LedSharePartitions
    from runtime.recent_times import RecentTimes
    from storage.directories.log_manager import LogManager
    from storage.disk_use import DiskUse
    from storage.free_space import FreeSpace

FETCHERS_CLIENT_ID = "Replica"
LOG_MOVES_CLIENT_ID = "ReplicaAlterLogDirs"
ZOOKEEPER_MIGRATION_STATE = 4  # Kafka's number for "not migrating, all in ZooKeeper"
_CONTROLLER_WORK = {
    ControllerState.CONTROLLER_CHANGE: table.W_CONTROLLER_CHANGE,
    ControllerState.BROKER_CHANGE: table.W_BROKER_CHANGE,
    ControllerState.TOPIC_CHANGE: table.W_TOPIC_CHANGE,
    ControllerState.TOPIC_DELETION: table.W_TOPIC_DELETION,
    ControllerState.ALTER_PARTITION_REASSIGNMENT: table.W_REASSIGNMENT,
    ControllerState.LIST_PARTITION_REASSIGNMENT: table.W_REASSIGNMENTS_LISTED,
    ControllerState.AUTO_LEADER_BALANCE: table.W_AUTO_BALANCE,
    ControllerState.MANUAL_LEADER_BALANCE: table.W_MANUAL_BALANCE,
    ControllerState.CONTROLLED_SHUTDOWN: table.W_SHUTDOWN,
    ControllerState.ISR_CHANGE: table.W_ISR_CHANGE,
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: table.W_ANSWERS,
    ControllerState.LOG_DIR_CHANGE: table.W_LOG_DIRS,
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: table.W_UNCLEAN_ENABLED,
    ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE: table.W_TOPIC_UNCLEAN_ENABLED,
    ControllerState.UPDATE_FEATURES: table.W_FEATURES,
}
_GROUP_STATES = {
    GroupState.EMPTY: table.GROUPS_EMPTY,
    GroupState.STABLE: table.GROUPS_STABLE,
    GroupState.PREPARING_REBALANCE: table.GROUPS_PREPARING,
    GroupState.COMPLETING_REBALANCE: table.GROUPS_COMPLETING,
    GroupState.DEAD: table.GROUPS_DEAD,
}


def gauges(services: Services) -> Iterator[Sample]:
    yield from _replicas(services)
    yield from _partitions(services)
    yield Sample(table.CONTROLLER_ID, (), services.metadata.image.controller_id)
    yield from _controller(services)
    yield from _controller_work(services.controller.times, services.clock.monotonic_ms())
    yield from _groups(services)
    yield from _transactions(services)
    yield from _share_states(services)
    yield from _sharing(services.sharing)
    yield from _waiting(services)
    if services.fetchers is not None:
        yield from _fetchers(services.fetchers)
    yield from _log_moves(services.log_moves)
    yield from _log_directories(services.logs)
    yield from _disk_use(services.logs.disk_use, services.clock.monotonic_ms())
    yield from _cleaner(services.logs)
    yield from _authorizer(services)
    yield from _tokens(services.delegation_tokens)
    if services.features.levels.any_above_zero:
        yield from _client_metrics(services.telemetry)


def _tokens(tokens: DelegationTokens | None) -> Iterator[Sample]:
    """There are none without delegation.token.secret.key."""
    if tokens is not None:
        yield Sample(table.TOKENS, (), len(tokens))
        yield Sample(table.TOKEN_BYTES, (), tokens.kept_bytes)


def _client_metrics(telemetry: ClientTelemetry) -> Iterator[Sample]:
    """There are none without feature levels: nobody may push."""
    series = telemetry.series
    yield Sample(table.CLIENT_INSTANCES, (), len(telemetry.instances))
    yield Sample(table.CLIENT_THROTTLES, (), telemetry.throttled_count)
    yield Sample(table.CLIENT_UNKNOWN_SUBSCRIPTIONS, (), telemetry.unknown_subscriptions_count)
    yield Sample(table.CLIENT_SUBSCRIPTIONS, (), len(telemetry.subscriptions))
    yield Sample(table.CLIENT_PUSHES, ("taken",), telemetry.pushes_count - telemetry.refused_count)
    yield Sample(table.CLIENT_PUSHES, ("refused",), telemetry.refused_count)
    yield Sample(table.CLIENT_SERIES, (), len(series))
    yield Sample(table.CLIENT_SERIES_CLIENTS, (), series.clients_count)
    yield Sample(table.CLIENT_SERIES_BYTES, (), series.size_bytes)
    for reason in Left:
        yield Sample(table.CLIENT_LEFT_OUT, (reason.value,), series.left[reason])


def _authorizer(services: Services) -> Iterator[Sample]:
    """There are none without ACLs, and without an audit log."""
    authorizer, audit = services.authorizer, services.audit
    if isinstance(authorizer, AclAuthorizer):
        yield Sample(table.ACLS, (), len(authorizer.acls))
        decided, denied = authorizer.decided_count, authorizer.denied_count
        yield Sample(table.AUTHORIZATIONS, (), decided)
        yield Sample(table.ALLOWED, (), decided - denied)
        yield Sample(table.DENIED, (), denied)
        metrics, now_ms = services.metrics, services.clock.monotonic_ms()
        yield Sample(table.AUTHORIZATION_RATE, (), metrics.authorization_rate.per_minute(decided, now_ms))
        yield Sample(table.ALLOWED_RATE, (), metrics.allowed_rate.per_minute(decided - denied, now_ms))
        yield Sample(table.DENIED_RATE, (), metrics.denied_rate.per_minute(denied, now_ms))
    if audit.file is not None:
        yield Sample(table.AUDIT_DROPPED, (), audit.file.dropped_count)


def memory(budget: MemoryBudget, plain: MemoryBudget) -> Iterator[Sample]:
    yield Sample(table.MEMORY_AVAILABLE, (), max(budget.limit_bytes - budget.used_bytes, 0))
    held = sum(each.used_bytes + each.outside_bytes + each.parked_bytes for each in (budget, plain))
    yield Sample(table.MEMORY_USED, (), held)


def _replicas(services: Services) -> Iterator[Sample]:
    led = [partition for partition in services.partitions if partition.is_leader]
    yield Sample(table.LEADER_COUNT, (), len(led))
    yield Sample(table.PARTITION_COUNT, (), len(services.partitions))
    yield Sample(table.UNDER_REPLICATED, (), sum(partition.is_under_replicated for partition in led))
    yield Sample(table.UNDER_MIN_ISR, (), sum(partition.spare_isr < 0 for partition in led))
    yield Sample(table.AT_MIN_ISR, (), sum(partition.spare_isr == 0 for partition in led))
    yield Sample(table.REASSIGNING, (), sum(partition.assignment.is_reassigning for partition in led))
    offline = sum(partition.log.failure is not None for partition in services.partitions)
    yield Sample(table.OFFLINE_REPLICAS, (), offline)
    yield Sample(table.PRODUCER_IDS, (), sum(len(partition.log.producers.states) for partition in services.partitions))
    now_ms, max_timeout_ms = services.clock.wall_ms(), services.settings.transaction_max_timeout_ms
    late = sum(partition.log.producers.states.has_late_transaction(now_ms, max_timeout_ms) for partition in led)
    yield Sample(table.LATE_TRANSACTIONS, (), late)


def _if_led(value: Callable[[Partition], int]) -> Callable[[Partition], int]:
    """Return `value` for leaders; followers do not know the other replicas and report 0."""
    return lambda partition: value(partition) if partition.is_leader else 0


_PER_PARTITION: tuple[tuple[Metric, Callable[[Partition], int]], ...] = (
    (table.LOG_END_OFFSET, lambda partition: partition.log.log_end_offset),
    (table.LOG_START_OFFSET, lambda partition: partition.log.log_start_offset),
    (table.LOG_SEGMENTS, lambda partition: partition.log.segments_count),
    (table.LOG_SIZE, lambda partition: partition.log.size_bytes),
    (table.P_IN_SYNC, _if_led(lambda partition: len(partition.assignment.isr))),
    (table.P_REPLICAS, _if_led(lambda partition: partition.assignment.replication_factor)),
    (table.P_LSO_LAG, lambda partition: max(partition.high_watermark - partition.last_stable_offset, 0)),
    (table.P_UNDER_REPLICATED, lambda partition: partition.is_under_replicated),
    (table.P_UNDER_MIN_ISR, _if_led(lambda partition: partition.spare_isr < 0)),
    (table.P_AT_MIN_ISR, _if_led(lambda partition: partition.spare_isr == 0)),
)


def _partitions(services: Services) -> Iterator[Sample]:
    partitions = list(services.partitions)
    for metric, value in _PER_PARTITION:
        for partition in partitions:
            yield Sample(metric, (partition.topic, str(partition.partition)), int(value(partition)))


def _controller(services: Services) -> Iterator[Sample]:
    controller = services.controller
    counts = controller.counts()
    yield Sample(table.ACTIVE_CONTROLLER, (), int(controller.is_active))
    yield Sample(table.CONTROLLER_STATE, (), int(controller.times.state))
    yield Sample(table.MIGRATION_STATE, (), ZOOKEEPER_MIGRATION_STATE)
    yield Sample(table.ACTIVE_BROKERS, (), counts.active_brokers)
    yield Sample(table.FENCED_BROKERS, (), 0)
    yield Sample(table.GLOBAL_TOPICS, (), counts.topics)
    yield Sample(table.GLOBAL_PARTITIONS, (), counts.partitions)
    yield Sample(table.OFFLINE_PARTITIONS, (), counts.offline_partitions)
    yield Sample(table.LEADER_IMBALANCE, (), counts.preferred_replica_imbalance)
    yield Sample(table.TOPICS_TO_DELETE, (), counts.topics_to_delete)
    yield Sample(table.REPLICAS_TO_DELETE, (), counts.replicas_to_delete)
    yield Sample(table.STUCK_TOPICS, (), counts.topics_ineligible_to_delete)
    yield Sample(table.STUCK_REPLICAS, (), counts.replicas_ineligible_to_delete)
    yield Sample(table.UNCLEAN_ELECTIONS, (), controller.unclean_elections_count)
    yield Sample(table.CONTROLLER_EVENTS, (), controller.event_queue_size)
    queues = controller.request_queue_sizes()
    yield Sample(table.CONTROL_REQUESTS, (), sum(queues.values()))
    for broker_id, size in queues.items():
        yield Sample(table.CONTROL_QUEUE, (str(broker_id),), size)
    waits = [((str(broker_id),), each) for broker_id, each in controller.request_waits().items()]
    yield from summary_samples(table.CONTROL_WAITS, waits, services.clock.monotonic_ms())


def _controller_work(times: EventTimes, now_ms: int) -> Iterator[Sample]:
    for state, metric in _CONTROLLER_WORK.items():
        yield from summary_samples(metric, [((), times.times[state])], now_ms)
    yield from summary_samples(table.CONTROLLER_WAITS, [((), times.waits)], now_ms)


_PER_FETCHER: tuple[tuple[Metric, Callable[[Fetcher], int]], ...] = (
    (table.FETCHER_BYTES, lambda fetcher: fetcher.bytes_count),
    (table.FETCHER_REQUESTS, lambda fetcher: fetcher.requests_count),
)


def _fetchers(fetchers: Fetchers) -> Iterator[Sample]:
    label = (FETCHERS_CLIENT_ID,)
    yield Sample(table.FETCH_MAX_LAG, label, fetchers.max_lag)
    yield Sample(table.FETCH_MIN_RATE, label, fetchers.min_fetch_rate())
    yield Sample(table.FETCH_FAILED, label, fetchers.failed_partitions_count)
    yield Sample(table.FETCH_DEAD, label, 0)
    each = [
        (f"ReplicaFetcherThread-{fetcher_id}-{fetcher.source_id}", address, fetcher)
        for fetcher_id, address, fetcher in fetchers.by_place()
    ]
    for metric, count in _PER_FETCHER:
        for name, address, fetcher in each:
            if address is not None:
                yield Sample(metric, (name, address.host, str(address.port)), count(fetcher))
    for name, _, fetcher in each:
        for (topic, partition), lag in list(fetcher.lags()):
            yield Sample(table.FETCHER_LAG, (name, topic, str(partition)), lag)


def _log_moves(moves: LogMoves) -> Iterator[Sample]:
    label = (LOG_MOVES_CLIENT_ID,)
    yield Sample(table.MOVES_MAX_LAG, label, max((lag for _, lag in moves.lags()), default=0))
    yield Sample(table.MOVES_MIN_RATE, label, moves.steps_per_second())
    yield Sample(table.MOVES_FAILED, label, len(moves.failed_partitions))
    yield Sample(table.MOVES_DEAD, label, 0)


_PER_SPACE: tuple[tuple[Metric, Callable[[FreeSpace], int]], ...] = (
    (table.FREE_BYTES, lambda space: max(space.free_bytes or 0, 0)),
    (table.FLOOR_BYTES, lambda space: space.floor_bytes),
    (table.REFUSING, lambda space: int(space.room is not Room.OPEN)),
)


def _log_directories(logs: LogManager) -> Iterator[Sample]:
    offline = set(logs.offline_directories)
    yield Sample(table.OFFLINE_DIRECTORIES, (), len(offline))
    for directory in (*logs.online_directories, *offline):
        yield Sample(table.OFFLINE_DIRECTORY, (directory,), int(directory in offline))
    for metric, value in _PER_SPACE:
        for directory, space in logs.space.by_directory():
            yield Sample(metric, (directory,), value(space))


def _disk_use(use: DiskUse, now_ms: int) -> Iterator[Sample]:
    yield from summary_samples(table.FLUSHES, [((), use.flushes)], now_ms)
    yield Sample(table.READ_BYTES, ("memory",), use.memory_bytes)
    yield Sample(table.READ_BYTES, ("disk",), use.disk_bytes)


def _cleaner(logs: LogManager) -> Iterator[Sample]:
    cleaner, report = logs.cleaner, logs.cleaner.report
    yield Sample(table.CLEANERS_DEAD, (), cleaner.dead_workers)
    yield Sample(table.CLEANER_RECOPY, (), round(100 * report.last_recopied))
    yield Sample(table.CLEANER_BUFFER, (), round(100 * report.last_buffer_utilization))
    yield Sample(table.CLEANER_TIME, (), report.last_cleaning_ms // 1000)
    yield Sample(table.CLEANER_DELAY, (), report.max_delay_ms // 1000)
    yield Sample(table.CLEANER_DIRTY, (), round(100 * report.max_dirty_ratio))
    yield Sample(table.CLEANER_LAST_LOOK, (), report.since_last_look_ms)
    yield Sample(table.CLEANER_IO, (), report.moved_bytes)
    aside = {
        directory: [log for log in report.logs_set_aside if log.directory.startswith(f"{directory}/")]
        for directory in logs.online_directories
    }
    for directory, found in aside.items():
        yield Sample(table.UNCLEANABLE, (directory,), len(found))
    for directory, found in aside.items():
        yield Sample(table.UNCLEANABLE_BYTES, (directory,), sum(map(cleaner.dirty_bytes, found)))


def _groups(services: Services) -> Iterator[Sample]:
    counts = services.groups.state_counts()
    yield Sample(table.GROUPS, (), sum(counts.values()))
    for state, metric in _GROUP_STATES.items():
        yield Sample(metric, (), counts[state])
    consumer_counts = services.groups.consumer_state_counts()
    yield Sample(table.GROUP_COUNT, ("classic",), sum(counts.values()))
    share_counts = services.groups.share_state_counts()
    yield Sample(table.GROUP_COUNT, ("consumer",), sum(consumer_counts.values()))
    yield Sample(table.GROUP_COUNT, ("share",), sum(share_counts.values()))
    for consumer_state, count in consumer_counts.items():
        yield Sample(table.CONSUMER_GROUPS, (consumer_state.value.lower(),), count)
    for share_state, count in share_counts.items():
        yield Sample(table.SHARE_GROUPS, (share_state.value.lower(),), count)
    yield Sample(table.OFFSETS, (), services.groups.offsets_count())
    yield Sample(table.GROUP_WAITING, (), services.groups.waiting_bytes)
    yield from _group_lag(services.group_lag)
    yield from _load_times(services.groups.runtime.load_times, services, table.GROUP_LOADS_AVG, table.GROUP_LOADS_MAX)


def _group_lag(measured: GroupLag) -> Iterator[Sample]:
    lags, statuses = measured.latest()
    for each in lags:
        labels = (each.group_id, each.topic_partition[0], str(each.topic_partition[1]))
        yield Sample(table.GROUP_LAG, labels, math.nan if each.lag is None else each.lag)
    for each in lags:
        labels = (each.group_id, each.topic_partition[0], str(each.topic_partition[1]))
        yield Sample(table.GROUP_LAG_SECONDS, labels, math.nan if each.age_ms is None else each.age_ms / 1000)
    for group_id, status in statuses.items():
        for other in GroupStatus:
            yield Sample(table.GROUP_STATUS, (group_id, other.name.lower()), int(other is status))


def _transactions(services: Services) -> Iterator[Sample]:
    yield Sample(table.TRANSACTIONAL_IDS, (), services.transactions.ids_count())
    yield Sample(table.MARKERS_WAITING, (), services.transaction_markers.unknown_destination_count)
    yield Sample(table.COMPLETIONS_WAITING, (), services.transactions.waiting_completions())
    yield from _load_times(services.transactions.runtime.load_times, services, table.TXN_LOADS_AVG, table.TXN_LOADS_MAX)


def _share_states(services: Services) -> Iterator[Sample]:
    """Nothing on a broker that has kept no states: most clusters have no share groups."""
    coordinator = services.share_coordinator
    contexts = coordinator.runtime.contexts()
    if not contexts and not coordinator.writes_count:
        return
    yield Sample(table.SHARE_WRITES, (), coordinator.writes_count)
    yield from _load_times(coordinator.write_times, services, table.SHARE_WRITES_AVG, table.SHARE_WRITES_MAX)
    loads = coordinator.runtime.load_times
    yield from _load_times(loads, services, table.SHARE_LOADS_AVG, table.SHARE_LOADS_MAX)
    for state in (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED):
        yield Sample(table.SHARE_COORDINATORS, (state.value,), sum(each.state is state for each in contexts))
    for context in contexts:
        offset = coordinator.deleted_to.get(context.partition)
        if offset is not None:
            yield Sample(table.SHARE_PRUNED, (coordinator.runtime.topic, str(context.partition)), offset)


_PER_SHARED: tuple[tuple[Metric, Callable[[GroupPartition, SharePartition], int]], ...] = (
    (table.SHARE_LOCK_TIMEOUTS, lambda shared, _: shared.lock_timeouts_count),
    (table.SHARE_IN_FLIGHT, lambda _, share: share.in_flight_count),
    (table.SHARE_BATCHES, lambda _, share: share.in_flight_batch_count),
    (table.SHARE_ACQUIRED, lambda _, share: share.acquired_count),
    (table.SHARE_GIVEN_UP, lambda _, share: share.given_up_count),
)


def _sharing(sharing: LedSharePartitions) -> Iterator[Sample]:
    sessions = sharing.sessions
    yield Sample(table.SHARE_SESSIONS, (), len(sessions))
    yield Sample(table.SHARE_SESSION_PARTITIONS, (), sessions.partitions_count)
    yield Sample(table.SHARE_SESSIONS_ENDED, (), sessions.evictions_count)
    loaded = [(shared, shared.share) for shared in sharing if shared.share is not None]
    for metric, value in _PER_SHARED:
        for shared, share in loaded:
            labels = (shared.group_id, shared.partition.topic, str(shared.index))
            yield Sample(metric, labels, value(shared, share))


def _load_times(times: RecentTimes, services: Services, average: Metric, longest: Metric) -> Iterator[Sample]:
    now_ms = services.clock.monotonic_ms()
    yield Sample(average, (), times.average_ms(now_ms))
    yield Sample(longest, (), times.max_ms(now_ms))


def _waiting(services: Services) -> Iterator[Sample]:
    partitions = list(services.partitions)
    produces = sum(partition.waiters.produces_count for partition in partitions)
    fetches = sum(partition.waiters.fetches_count for partition in partitions)
    deletions = sum(partition.waiters.deletions_count for partition in partitions)
    rebalances = services.groups.state_counts()[GroupState.PREPARING_REBALANCE]
    share_fetches = sum(shared.waiting_count for shared in list(services.sharing))
    for metric in (table.DELAYED_OPERATIONS, table.PURGATORY_SIZE):
        yield Sample(metric, ("Rebalance",), rebalances)
        yield Sample(metric, ("Produce",), produces)
        yield Sample(metric, ("Fetch",), fetches)
        yield Sample(metric, ("DeleteRecords",), deletions)
        yield Sample(metric, ("ShareFetch",), share_fetches)
    yield Sample(table.LARGE_REQUESTS, (), len(services.serial_queue))
    yield Sample(table.FETCH_SESSIONS, (), len(services.fetch_sessions))
    yield Sample(table.SESSION_EVICTIONS, (), services.fetch_sessions.evictions_count)
    yield Sample(table.SESSION_PARTITIONS, (), services.fetch_sessions.cached_partitions_count)
