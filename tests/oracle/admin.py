"""Administration of a cluster for tests: each request goes to whoever must answer it, and an error is an exception.

The messages are this project's own, so that a test can ask in any version and see every field.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.primitives import ZERO_UUID
from protocol.schema import Request
from tests.differential.wire import NoResponse, Wire
from tests.oracle.broker import Broker
from tests.oracle.cluster import Cluster
from tests.oracle.process import wait_until
from tests.oracle.versions import newest_version

TIMEOUT_S = 60.0


class AnswerError(AssertionError):
    """An error code in an answer; `code` is it."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {ErrorCode(code).name} {message or ''}")
        self.code = ErrorCode(code)


def ask(broker: Broker, request: Request, version: int | None = None, timeout_s: float = TIMEOUT_S) -> Any:
    """The answer of one broker, in the newest version unless told. Raises ConnectionError when none came."""
    wire = Wire("127.0.0.1", broker.port)
    try:
        answer = wire.ask(request, newest_version(request) if version is None else version, timeout_s)
    finally:
        wire.close()
    if isinstance(answer, NoResponse):
        raise ConnectionError(f"{request.api_name} to broker {broker.broker_id}: {answer.outcome}")
    return answer


class Admin:
    """`via` is the broker that is asked what any may answer; without it the first that runs."""

    def __init__(self, cluster: Cluster, via: int | None = None) -> None:
        self._cluster = cluster
        self._via = via

    @property
    def any_broker(self) -> Broker:
        if self._via is not None:
            return self._cluster.brokers[self._via]
        return next(broker for broker in self._cluster.brokers.values() if broker.is_running)

    def to_controller(self, request: Request) -> Any:
        """The answer of the broker that controls: who is just elected, or just deposed, says that it does not."""
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.append(ask(self._cluster.controller, request))
            return not _is_off_the_controller(answers[-1])

        assert wait_until(is_answered, TIMEOUT_S), f"nobody controls, for {request.api_name}"
        return answers[-1]

    # --- topics ---

    def create(
        self,
        topic: str,
        assignment: Mapping[int, list[int]] | None = None,
        *,
        partitions: int = 1,
        replicas: int = 3,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """With the replicas that `assignment` gives each partition, else where the controller places them."""
        given = [
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in (assignment or {}).items()
        ]
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1 if given else partitions,
            replication_factor=-1 if given else replicas,
            assignments=given,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()],
        )
        (result,) = self.to_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000)).topics
        _check(f"create {topic}", result)
        self._cluster.wait_in_sync(topic)
        count = len(self._cluster.partitions(topic))
        self._cluster.wait_for("everybody knows its leaders", lambda: self._is_led(topic, count))

    def delete(self, topic: str) -> None:
        """Returns when ZooKeeper knows the topic no more."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=20_000)
        (result,) = self.to_controller(request).responses
        _check(f"delete {topic}", result)
        self._cluster.wait_for(f"{topic} is gone", lambda: topic not in self._cluster.topics())

    def grow(self, topic: str, partitions: int) -> None:
        wanted = [CreatePartitionsTopic(name=topic, count=partitions, assignments=None)]
        request = CreatePartitionsRequest(topics=wanted, timeout_ms=20_000, validate_only=False)
        (result,) = self.to_controller(request).results
        _check(f"grow {topic}", result)
        self._cluster.wait_for("everybody knows all leaders", lambda: self._is_led(topic, partitions))

    def reassign(self, topic: str, replicas: Mapping[int, list[int] | None], *, wait: bool = True) -> None:
        """None cancels. Returns when the new replicas are the only ones, unless `wait` is off."""
        partitions = [ReassignablePartition(partition_index=one, replicas=list_) for one, list_ in replicas.items()]
        wanted = [ReassignableTopic(name=topic, partitions=partitions)]
        answer = self.to_controller(AlterPartitionReassignmentsRequest(topics=wanted, timeout_ms=20_000))
        _check("reassign", answer)
        for result in answer.responses[0].partitions:
            _check(f"reassign {topic}-{result.partition_index}", result)
        if wait:
            self._cluster.wait_for(f"{topic} is reassigned", lambda: not self.reassignments())
            self._cluster.wait_in_sync(topic)

    def reassignments(self) -> list[Any]:
        answer = self.to_controller(ListPartitionReassignmentsRequest(topics=None, timeout_ms=20_000))
        _check("list reassignments", answer)
        return list(answer.topics)

    def elect_preferred(self, topic: str, partitions: Iterable[int] = (0,)) -> None:
        """Leadership goes to the first replica of each partition, unless it is there already."""
        wanted = [TopicPartitions(topic=topic, partitions=list(partitions))]
        answer = self.to_controller(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=20_000))
        _check("elect", answer)
        for result in answer.replica_election_results:
            for one in result.partition_result:
                if one.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    _check(f"elect {topic}-{one.partition_id}", one)

    def move_leader(self, topic: str, broker_id: int, partition: int = 0) -> None:
        """The same replicas with `broker_id` first, and leadership there, which every broker knows."""
        others = [replica for replica in self._cluster.partitions(topic)[partition] if replica != broker_id]
        self.reassign(topic, {partition: [broker_id, *others]})
        self.elect_preferred(topic, [partition])
        self._cluster.wait_for(
            f"broker {broker_id} leads {topic}-{partition}",
            lambda: self._cluster.leader_id(topic, partition) == broker_id,
        )
        self._cluster.wait_for("everybody says so", lambda: self.leads_everywhere(broker_id, topic, partition))

    def leads_everywhere(self, broker_id: int, topic: str, partition: int = 0) -> bool:
        def is_led(found: Any) -> bool:
            return any(one.leader_id == broker_id for one in found.partitions if one.partition_index == partition)

        return self.everybody_agrees(topic, is_led)

    # --- what brokers say ---

    def metadata(self, topic: str, broker: Broker | None = None) -> Any:
        """The topic's part of a broker's Metadata."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = ask(broker or self.any_broker, request).topics
        return found

    def cluster_of(self, broker: Broker | None = None) -> Any:
        return ask(broker or self.any_broker, DescribeClusterRequest(include_cluster_authorized_operations=False))

    def coordinator_of(self, group: str, broker: Broker | None = None) -> int:
        """The broker that coordinates the group; waits until there is one."""
        return self._coordinator_of(group, 0, broker)

    def transaction_coordinator_of(self, transactional_id: str, broker: Broker | None = None) -> int:
        """The broker that coordinates the transactions of the id; waits until there is one."""
        return self._coordinator_of(transactional_id, 1, broker)

    def _coordinator_of(self, key: str, key_type: int, broker: Broker | None) -> int:
        found: list[int] = []

        def is_found() -> bool:
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            (answer,) = ask(broker or self.any_broker, request).coordinators
            if answer.error_code == ErrorCode.NONE:
                found.append(answer.node_id)
            return bool(found)

        assert wait_until(is_found, TIMEOUT_S), f"no coordinator for {key}"
        return found[0]

    def coordinator_partition(self, group: str) -> int:
        """The partition of __consumer_offsets that holds the group; the topic is made when it is not there."""
        self.coordinator_of(group)
        return java_hash(group) % len(self._cluster.partitions("__consumer_offsets"))

    def transaction_partition(self, transactional_id: str) -> int:
        """The partition of __transaction_state that holds the id; the topic is made when it is not there."""
        self.transaction_coordinator_of(transactional_id)
        return java_hash(transactional_id) % len(self._cluster.partitions("__transaction_state"))

    def committed(self, group: str, topic: str, partition: int) -> int:
        """The committed offset, asked of the group's coordinator."""
        wanted = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        )
        coordinator = self._cluster.brokers[self.coordinator_of(group)]
        (answer,) = ask(coordinator, OffsetFetchRequest(groups=[wanted])).groups
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        return int(answer.topics[0].partitions[0].committed_offset)

    def start_offset(self, topic: str, partition: int) -> int:
        """The log start offset, asked of the leader."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-2)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        (answer,) = ask(self.leader_of(topic, partition), request).topics[0].partitions
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        return int(answer.offset)

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        """Everything in front of `offset`."""
        partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=20_000
        )
        (answer,) = ask(self.leader_of(topic, partition), request).topics[0].partitions
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name

    def leader_of(self, topic: str, partition: int) -> Broker:
        return self._cluster.brokers[self._cluster.leader_id(topic, partition)]

    def wait_until_loaded(self, group: str) -> int:
        """The broker that coordinates the group, once it has read what the group left."""
        coordinator = self.coordinator_of(group)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])

        def is_loaded() -> bool:
            (answer,) = ask(self._cluster.brokers[coordinator], request).groups
            return bool(answer.error_code == ErrorCode.NONE)

        assert wait_until(is_loaded, TIMEOUT_S), f"broker {coordinator} does not serve {group}"
        return coordinator

    def _is_led(self, topic: str, partitions: int) -> bool:
        return self.everybody_agrees(topic, lambda one: _has_leaders(one) and len(one.partitions) == partitions)

    def everybody_agrees(self, topic: str, condition: Callable[[Any], bool]) -> bool:
        """Whether the Metadata of every running broker fulfils `condition`."""
        running = [broker for broker in self._cluster.brokers.values() if broker.is_running]
        return all(condition(self.metadata(topic, broker)) for broker in running)


def _has_leaders(topic: Any) -> bool:
    return topic.error_code == ErrorCode.NONE and all(one.error_code == ErrorCode.NONE for one in topic.partitions)


def _is_off_the_controller(answer: Any) -> bool:
    rows = [getattr(answer, name, None) or () for name in ("topics", "responses", "results")]
    codes = [getattr(one, "error_code", ErrorCode.NONE) for one in itertools.chain([answer], *rows)]
    return ErrorCode.NOT_CONTROLLER in codes


def java_hash(text: str) -> int:
    """`abs(String.hashCode())` as Kafka takes it, of ASCII text."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >= 1 << 31 else value) & 0x7FFFFFFF


def _check(what: str, result: Any) -> None:
    if result.error_code != ErrorCode.NONE:
        raise AnswerError(what, result.error_code, result.error_message)
