"""Creation of topics and partitions, and deletion of topics. Writes to the store; the watches of the active controller do the
rest.

Rules: any broker may do it, not only the controller: auto-creation runs on the broker that got the request. A response waits
until this broker's metadata shows the outcome (every partition has a live leader, or the topic is removed), or
REQUEST_TIMED_OUT. After a write without response the node is read: the topic id, chosen before the write, identifies it.
Source: Kafka ZkAdminManager, AdminZkClient, DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.inter_broker_version import InterBrokerVersion
from metadata.admin import topic_rules
from metadata.admin.internal_topics import REPLICATION_SETTINGS, internal_topic
from metadata.admin.metadata_wait import wait_for_image
from metadata.admin.placement import Placement, PlacementBroker, place
from metadata.admin.replication_policy import ReplicationPolicy
from metadata.admin.topic_requests import TIMED_OUT, CreatedTopic, NewPartitions, NewTopic, Outcome, Permits, not_stored
from metadata.image import ClusterImage, MetadataCache
from metadata.store import znodes
from metadata.store.node_reading import read_registrations
from metadata.store.port import (
    BadVersionError,
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SetData,
    Store,
    StoreError,
    Transaction,
)
from metadata.store.znodes import ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from runtime.error_texts import reason_of
from runtime.randomness import Randomness, uuid_bytes
from runtime.slices import Slices

MIN_INSYNC_REPLICAS = "min.insync.replicas"
TOPICS_STEP = (
    100  # topics of one request that are planned and written in one step; other clients are served between steps
)
REFUSALS_MAX = 1000
"""Topics whose last refused auto-creation is remembered."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Plan:
    name: str
    registration: TopicRegistration
    config: dict[str, str]

    @property
    def created(self) -> CreatedTopic:
        assignments = self.registration.assignments
        return CreatedTopic(
            Outcome(),
            self.registration.topic_id,
            len(assignments),
            len(next(iter(assignments.values())).replicas),
            self.config,
        )


class TopicAdmin:
    def __init__(
        self,
        store: Store,
        metadata: MetadataCache,
        settings: Callable[[], BrokerSettings],
        randomness: Randomness,
        policy: ReplicationPolicy,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._settings = settings
        self._randomness = randomness
        self._policy = policy
        self._being_created: set[str] = set()
        self._refusals: dict[str, str] = {}  # what was logged last, by topic

    # Creation.

    async def create(
        self,
        wanted: Iterable[NewTopic],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        slices: Slices | None = None,
        permits: Permits | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics; return the results by name. Topics of one request are independent. `slices` yields to the event
        loop between many of them. `permits` are taken for each topic before it is created."""
        results: dict[str, CreatedTopic] = {}
        names: dict[str, list[str]] = {}  # of the plans, by the part that colliding names share
        allowance = topic_rules.Allowance()
        created: list[_Plan] = []
        topics_left = list(wanted)
        hosts = await self._hosts()
        for start in range(0, len(topics_left), TOPICS_STEP):
            step = await self._plan_step(
                topics_left[start : start + TOPICS_STEP], names, allowance, results, hosts, slices
            )
            if validate_only:
                results.update((plan.name, replace(plan.created, topic_id=ZERO_UUID)) for plan in step)
            else:
                permitted = (
                    step if permits is None else [plan for plan in step if _is_permitted(plan, permits, results)]
                )
                created += await self._write_topics(permitted, results)
        await self._await_leaders({plan.name: plan.registration.assignments for plan in created}, timeout_ms)
        for plan in created:
            is_ready = timeout_ms > 0 and _all_led(self._metadata.image, plan.name, plan.registration.assignments)
            results[plan.name] = plan.created if is_ready else CreatedTopic(TIMED_OUT, plan.created.topic_id)
        return results

    async def _plan_step(
        self,
        step: Sequence[NewTopic],
        names: dict[str, list[str]],
        allowance: topic_rules.Allowance,
        results: dict[str, CreatedTopic],
        hosts: Mapping[int, str],
        slices: Slices | None,
    ) -> list[_Plan]:
        """Return the plans of the topics that can be created, and add the refusals to `results`. `names` are those planned
        so far, and are extended: topics of one request may collide."""
        plans: list[_Plan] = []
        for topic in step:
            if slices is not None:
                await slices.yield_if_due()
            try:
                plan = await self._plan(topic, names.get(topic_rules.folded(topic.name), ()), allowance, hosts)
                plans.append(plan)
                allowance.left -= len(plan.registration.assignments)
                names.setdefault(topic_rules.folded(topic.name), []).append(topic.name)
            except KafkaError as error:
                results[topic.name] = CreatedTopic(Outcome(error.code, error.own_message))
            except (ConnectionLossError, SessionExpiredError):
                results[topic.name] = CreatedTopic(TIMED_OUT)
        return plans

    async def auto_create(self, names: Iterable[str], permits: Permits | None = None) -> dict[str, ErrorCode]:
        """Create topics that a request names. LEADER_NOT_AVAILABLE: created, to be retried; UNKNOWN_TOPIC_OR_PARTITION:
        another request is creating it."""
        answers: dict[str, ErrorCode] = {}
        own: list[NewTopic] = []
        for name in dict.fromkeys(names):
            if not topic_rules.is_legal_name(name):
                answers[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif name in self._being_created:
                answers[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self._being_created.add(name)
                own.append(self._automatic(name))
        try:
            created = await self.create(own, 0, permits=permits) if own else {}
        finally:
            self._being_created.difference_update(topic.name for topic in own)
        for topic in own:
            outcome = created[topic.name].outcome
            if outcome.code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS):
                answers[topic.name] = ErrorCode.LEADER_NOT_AVAILABLE
                self._refusals.pop(topic.name, None)
            else:
                answers[topic.name] = outcome.code
                self._log_refusal(topic, outcome)
        return answers

    def _automatic(self, name: str) -> NewTopic:
        settings = self._settings()
        if name in REPLICATION_SETTINGS:
            topic = internal_topic(name, settings)
        else:
            topic = NewTopic(name, settings.num_partitions, settings.default_replication_factor)
        live_brokers = len(self._metadata.image.brokers)
        actual = self._policy.replication_factor(name, topic.replication_factor, live_brokers)
        config = dict(topic.config)
        if actual < topic.replication_factor and MIN_INSYNC_REPLICAS in config:
            # With fewer replicas than min.insync.replicas no write would be acknowledged.
            config[MIN_INSYNC_REPLICAS] = str(min(int(config[MIN_INSYNC_REPLICAS] or 1), actual))
        return replace(topic, replication_factor=actual, config=config)

    def _log_refusal(self, topic: NewTopic, outcome: Outcome) -> None:
        """Log why a topic is not created, once: clients repeat their requests."""
        reason = f"{outcome.code.name} {outcome.message}"
        if self._refusals.get(topic.name) == reason:
            return
        if len(self._refusals) == REFUSALS_MAX:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[topic.name] = reason
        if topic.name in REPLICATION_SETTINGS and outcome.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            logger.warning(
                "internal topic waits for more brokers: topic=%s replication_factor=%d brokers=%d resolution=%s",
                topic.name,
                topic.replication_factor,
                len(self._metadata.image.brokers),
                f"start brokers, or set {REPLICATION_SETTINGS[topic.name]} lower; until then coordinators are unavailable",
            )
        else:
            logger.warning(
                "topic not auto-created: topic=%s error=%s reason=%s", topic.name, outcome.code.name, outcome.message
            )

    async def _hosts(self) -> Mapping[int, str]:
        """Return the machine of each broker (barnabas.host.id). It is not in the metadata, and is read from the brokers'
        nodes; if this broker has none, no broker has."""
        if self._settings().barnabas_host_id is None:
            return {}
        try:
            registrations = await read_registrations(self._store)
        except (ConnectionLossError, SessionExpiredError):
            return {}
        return {
            broker_id: registration.host_id
            for broker_id, (registration, _) in registrations.items()
            if registration.host_id is not None
        }

    async def _plan(
        self, topic: NewTopic, planned: Sequence[str], allowance: topic_rules.Allowance, hosts: Mapping[int, str]
    ) -> _Plan:
        """Check in Apache Kafka's order. Raises KafkaError."""
        if topic.name in self._metadata.image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        null_names = [name for name, value in topic.config.items() if value is None]
        if null_names:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(null_names)}"
            )
        config = {name: value for name, value in topic.config.items() if value is not None}
        topic_rules.check_counts_or_assignment(topic.partitions, topic.replication_factor, bool(topic.assignment))
        assignment = self._assignment(topic, allowance, hosts)
        await self._check_new_name(topic.name, planned)
        topic_rules.check_new_assignment(assignment)
        try:
            topic_rules.check_settings(topic.name, config, self._settings())
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        version = InterBrokerVersion.parse(self._settings().inter_broker_protocol_version)
        registration = TopicRegistration(
            uuid_bytes(self._randomness) if version.supports_topic_ids else ZERO_UUID,
            {index: ReplicaAssignment(tuple(replicas)) for index, replicas in sorted(assignment.items())},
        )
        return _Plan(topic.name, registration, config)

    async def _check_new_name(self, name: str, planned: Sequence[str]) -> None:
        topic_rules.check_name(name)
        others = [*planned, *await self._store.children(znodes.TOPICS)] if topic_rules.may_collide(name) else ()
        topic_rules.check_new_name(
            name,
            exists=await self._store.exists(znodes.topic_path(name)) is not None,
            is_being_deleted=await self._store.exists(znodes.delete_topic_path(name)) is not None,
            others=others,
        )

    def _assignment(
        self, topic: NewTopic, allowance: topic_rules.Allowance, hosts: Mapping[int, str]
    ) -> Mapping[int, Sequence[int]]:
        if topic.assignment:
            allowance.check(len(topic.assignment))
            return topic.assignment
        settings = self._settings()
        partitions = settings.num_partitions if topic.partitions == topic_rules.DEFAULT_COUNT else topic.partitions
        allowance.check(partitions)
        replication_factor = (
            settings.default_replication_factor
            if topic.replication_factor == topic_rules.DEFAULT_COUNT
            else topic.replication_factor
        )
        brokers = placement_brokers(self._metadata.image, hosts)
        placement = Placement(self._random_index(brokers), self._random_index(brokers))
        return place(brokers, partitions, replication_factor, placement)

    def _random_index(self, brokers: Sequence[PlacementBroker]) -> int:
        return self._randomness.randrange(0, max(len(brokers), 1))

    async def _write_topics(self, plans: Iterable[_Plan], results: dict[str, CreatedTopic]) -> list[_Plan]:
        """Write settings and topic in one transaction each. Returns the plans whose topics were created by it."""
        remaining = list(plans)
        created = []
        transactions: list[Transaction] = [
            [
                Create(znodes.config_path("topics", plan.name), znodes.encode_config(plan.config)),
                Create(znodes.topic_path(plan.name), plan.registration.encode()),
            ]
            for plan in remaining
        ]
        outcomes: Sequence[object]
        try:
            outcomes = await self._store.write_many(transactions)
        except (ConnectionLossError, SessionExpiredError) as lost:
            outcomes = [lost] * len(remaining)
        for plan, outcome in zip(remaining, outcomes, strict=True):
            try:
                if isinstance(outcome, NodeExistsError) and outcome.operation_index == 0:
                    await self._write_over_old_config(plan)
                elif isinstance(outcome, ConnectionLossError | SessionExpiredError):
                    await self._check_written(plan)
                elif isinstance(outcome, StoreError):
                    raise outcome
            except (ConnectionLossError, SessionExpiredError):
                # The outcome is unknown: the client retries.
                results[plan.name] = CreatedTopic(TIMED_OUT)
            except NodeExistsError:
                message = f"Topic '{plan.name}' already exists."
                results[plan.name] = CreatedTopic(Outcome(ErrorCode.TOPIC_ALREADY_EXISTS, message))
            except (StoreError, ValueError) as error:
                logger.warning("topic not created: topic=%s error=%s", plan.name, reason_of(error))
                results[plan.name] = CreatedTopic(not_stored(error))
            else:
                logger.info("topic created: topic=%s partitions=%d", plan.name, len(plan.registration.assignments))
                created.append(plan)
        return created

    async def _write_over_old_config(self, plan: _Plan) -> None:
        """Create a topic over existing settings, which were written before it or remain from a deleted topic."""
        await self._store.multi(
            [
                SetData(znodes.config_path("topics", plan.name), znodes.encode_config(plan.config)),
                Create(znodes.topic_path(plan.name), plan.registration.encode()),
            ]
        )

    async def _check_written(self, plan: _Plan) -> None:
        """Check whether a write without response was executed. Raises NodeExistsError if another request created the topic."""
        try:
            data, _ = await self._store.get(znodes.topic_path(plan.name))
        except NoNodeError:
            await self._write_over_old_config_or_new(plan)
            return
        found = TopicRegistration.decode(plan.name, data)
        is_ours = (
            found == plan.registration
            if found.topic_id == ZERO_UUID
            else (found.topic_id == plan.registration.topic_id)
        )
        if not is_ours:
            raise NodeExistsError(znodes.topic_path(plan.name))

    async def _write_over_old_config_or_new(self, plan: _Plan) -> None:
        config_path = znodes.config_path("topics", plan.name)
        if await self._store.exists(config_path) is None:
            await self._store.create(config_path, znodes.encode_config(plan.config))
        await self._write_over_old_config(plan)

    async def _await_leaders(self, wanted: Mapping[str, Mapping[int, ReplicaAssignment]], timeout_ms: int) -> None:
        if wanted and timeout_ms > 0:
            await wait_for_image(
                self._metadata,
                lambda image: all(_all_led(image, name, assignments) for name, assignments in wanted.items()),
                timeout_ms,
            )

    # Growth.

    async def grow(
        self,
        wanted: Iterable[NewPartitions],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        slices: Slices | None = None,
        permits: Permits | None = None,
    ) -> dict[str, Outcome]:
        """Add partitions; return the outcomes by name. See `create`."""
        results: dict[str, Outcome] = {}
        grown: dict[str, Mapping[int, ReplicaAssignment]] = {}
        allowance = topic_rules.Allowance()
        for topic in wanted:
            if slices is not None:
                await slices.yield_if_due()
            try:
                assignments = await self._grow_one(topic, allowance, permits, validate_only=validate_only)
            except KafkaError as error:
                results[topic.name] = Outcome(error.code, error.own_message)
                continue
            except (ConnectionLossError, SessionExpiredError):
                results[topic.name] = TIMED_OUT
                continue
            except (StoreError, ValueError) as error:
                logger.warning("partitions not added: topic=%s error=%s", topic.name, reason_of(error))
                results[topic.name] = not_stored(error)
                continue
            results[topic.name] = Outcome()
            if not validate_only:
                grown[topic.name] = assignments
        await self._await_leaders(grown, timeout_ms)
        for name, assignments in grown.items():
            if timeout_ms <= 0 or not _all_led(self._metadata.image, name, assignments):
                results[name] = TIMED_OUT
        return results

    async def _grow_one(
        self,
        topic: NewPartitions,
        allowance: topic_rules.Allowance,
        permits: Permits | None,
        *,
        validate_only: bool,
    ) -> Mapping[int, ReplicaAssignment]:
        """Add partitions to one topic; return all its assignments. Raises KafkaError."""
        path = znodes.topic_path(topic.name)
        brokers = placement_brokers(self._metadata.image, await self._hosts())
        while True:
            try:
                data, stat = await self._store.get(path)
            except NoNodeError as error:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist."
                ) from error
            registration = TopicRegistration.decode(topic.name, data)
            allowance.check(topic.count - len(registration.assignments))
            added = topic_rules.plan_growth(
                topic.name,
                registration.assignments,
                topic.count,
                topic.assignments,
                brokers,
                self._random_index(brokers),
            )
            assignments = {**registration.assignments, **{each: ReplicaAssignment(added[each]) for each in added}}
            if validate_only:
                allowance.left -= len(added)
                return assignments
            if permits is not None:
                permits.take(len(added))
                permits = None  # also if it has to decide again
            try:
                await self._store.set(path, replace(registration, assignments=assignments).encode(), stat.version)
            except (BadVersionError, NoNodeError):
                continue  # another request changed it: decide again
            except ConnectionLossError:
                data, _ = await self._store.get(path)
                if TopicRegistration.decode(topic.name, data).assignments != assignments:
                    continue
            allowance.left -= len(added)
            logger.info("partitions added: topic=%s partitions=%d", topic.name, len(assignments))
            return assignments

    # Deletion.

    async def delete(self, names: Iterable[str], timeout_ms: int, permits: Permits | None = None) -> dict[str, Outcome]:
        """Request deletions; return when this broker's metadata has no such topics. REQUEST_TIMED_OUT does not cancel the
        deletion."""
        refused: dict[str, Outcome] = {}
        wanted = list(dict.fromkeys(names))
        if permits is not None:
            wanted = [name for name in wanted if self._may_delete(name, permits, refused)]
        try:
            wishes = await self._store.write_many([[Create(znodes.delete_topic_path(name))] for name in wanted])
        except (ConnectionLossError, SessionExpiredError):
            return refused | dict.fromkeys(wanted, TIMED_OUT)
        for wish in wishes:
            # The deletion is requested already.
            assert not isinstance(wish, StoreError) or isinstance(wish, NodeExistsError), repr(wish)

        def are_deleted(image: ClusterImage) -> bool:
            return not any(name in image.topics for name in wanted)

        if timeout_ms > 0:
            await wait_for_image(self._metadata, are_deleted, timeout_ms)
        late = Outcome(ErrorCode.REQUEST_TIMED_OUT)
        return refused | {
            name: late if timeout_ms <= 0 or name in self._metadata.image.topics else Outcome() for name in wanted
        }

    def _may_delete(self, name: str, permits: Permits, refused: dict[str, Outcome]) -> bool:
        try:
            permits.take(self._metadata.image.partitions_count(name) or 0)
        except KafkaError as error:
            refused[name] = Outcome(error.code, error.own_message)
            return False
        return True


def _is_permitted(plan: _Plan, permits: Permits, results: dict[str, CreatedTopic]) -> bool:
    try:
        permits.take(len(plan.registration.assignments))
    except KafkaError as error:
        results[plan.name] = CreatedTopic(Outcome(error.code, error.own_message))
        return False
    return True


def placement_brokers(image: ClusterImage, hosts: Mapping[int, str]) -> list[PlacementBroker]:
    return [
        PlacementBroker(broker.broker_id, broker.rack, hosts.get(broker.broker_id)) for broker in image.brokers.values()
    ]


def _all_led(image: ClusterImage, name: str, assignments: Mapping[int, ReplicaAssignment]) -> bool:
    return all(image.has_leader(name, partition) for partition in assignments)
