"""What three brokers are asked, scenario by scenario, in this order: each goes on from where the one before left them.

Broker 1 controls. Topics are placed by assignment wherever their replicas show in an answer.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, RequestPartitionData, RequestTopicData
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.primitives import ZERO_UUID
from tests.differential.batches import batch
from tests.differential.cases.configs import BROKER, SET, TOPIC, describing, shortened
from tests.differential.cases.configs import Change as SettingChange
from tests.differential.cases.reassignments import listing, moving
from tests.differential.cases.topics import creating, electing, growing, new_topic, without_defaults
from tests.differential.cluster_run import CONTROLLER, ClusterRun

FOLLOWER = 2
"""A broker that does not control, and stays."""
LEAVER = 3
"""The one that is stopped, and comes back."""
MISSING = 9
UNCLEAN = 1

SCENARIOS: dict[str, Callable[[ClusterRun], None]] = {}


def scenario(play: Callable[[ClusterRun], None]) -> Callable[[ClusterRun], None]:
    SCENARIOS[f"{len(SCENARIOS) + 1:02}-{play.__name__.replace('_', '-')}"] = play
    return play


# -- requests


def asked_of(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def all_brokers() -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=False)


def assigned(name: str, *replicas: list[int], **configs: str) -> Any:
    """A topic whose nth partition has the nth replicas."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    return new_topic(name, -1, -1, dict(enumerate(replicas)), settings)  # type: ignore[arg-type]


def produced(topic: str, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=batch(b"a", b"b"))]
    return ProduceRequest(acks=acks, timeout_ms=30000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def deletion(version: int, *names: str) -> DeleteTopicsRequest:
    if version >= 6:
        topics = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
        return DeleteTopicsRequest(topics=topics, timeout_ms=30000)
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=30000)


def newest_offset(topic: str, partition: int = 0) -> ListOffsetsRequest:
    rows = [ListOffsetsPartition(partition_index=partition, timestamp=-1)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=rows)])


def fetch(topic: str, partition: int = 0) -> FetchRequest:
    rows = [FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1000)]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=rows)])


def make(run: ClusterRun, *topics: Any) -> None:
    """Topics that are there and in sync when this returns."""
    answer = run.do(CONTROLLER, creating(*topics))
    for topic in answer.topics:
        assert topic.error_code == 0, (topic.name, ErrorCode(topic.error_code).name, topic.error_message)
    run.wait_until_whole(*(topic.name for topic in topics))


# -- everybody is there


@scenario
def brokers(run: ClusterRun) -> None:
    for broker_id in (1, 2, 3):
        run.ask_every_version(broker_id, lambda _: all_brokers())
        run.ask_every_version(broker_id, lambda version: MetadataRequest(topics=[]), since=1)


@scenario
def placement(run: ClusterRun) -> None:
    """Automatic, over two brokers in one rack and one in another."""
    for name, partitions, replicas in (("all", 6, 3), ("pairs", 6, 2), ("single", 6, 1), ("default", 3, -1)):
        run.ask(CONTROLLER, creating(new_topic(name, partitions, replicas)), what=name, pick=without_defaults)
        run.wait_until_whole(name)
        run.note(f"placement of {name}", run.spread(name))
    run.ask(CONTROLLER, growing("pairs", 9))
    run.wait_for("pairs", lambda topic: len(topic.partitions) == 9)
    run.wait_until_whole("pairs")
    placed = run.spread("pairs")
    run.note("placement of pairs, grown", {key: placed[key] for key in ("partitions", "replicas", "racks")})


@scenario
def created_by_assignment(run: ClusterRun) -> None:
    run.ask_every_version(
        CONTROLLER,
        lambda version: creating(assigned(f"given-{version}", [1, 2, 3], [2, 3], [3])),
        pick=without_defaults,
    )
    for version in range(8):
        run.ask(CONTROLLER, creating(assigned(f"t{version}", [2, 3, 1], [3, 1, 2])), version, pick=without_defaults)
    for version in range(8):
        run.wait_until_whole(f"t{version}")
    for broker_id in (1, 2, 3):
        run.ask_every_version(broker_id, lambda _: asked_of("t0", "t7"))


@scenario
def not_the_controller(run: ClusterRun) -> None:
    """In every version. Nothing comes of it."""
    ask = run.ask_every_version
    ask(FOLLOWER, lambda version: creating(new_topic("elsewhere"), assigned("t0", [1])))
    ask(FOLLOWER, lambda _: creating(new_topic("elsewhere"), validate_only=True), since=1)
    ask(FOLLOWER, lambda version: deletion(version, "t0", "missing"))
    ask(FOLLOWER, lambda _: growing("t0", 5))
    ask(FOLLOWER, lambda _: electing("t0", 0))
    ask(FOLLOWER, lambda _: ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), what="all")
    ask(FOLLOWER, lambda _: moving("t0", (0, [1]), (1, None)))
    ask(FOLLOWER, lambda _: listing("t0", 0))
    ask(FOLLOWER, lambda _: ListPartitionReassignmentsRequest(topics=None, timeout_ms=1000), what="all")
    updates = [FeatureUpdateKey(feature="a", max_version_level=1)]
    ask(FOLLOWER, lambda _: UpdateFeaturesRequest(feature_updates=updates))
    ask(FOLLOWER, lambda _: AllocateProducerIdsRequest(broker_id=FOLLOWER, broker_epoch=1))
    ask(FOLLOWER, lambda _: AlterPartitionRequest(broker_id=FOLLOWER, broker_epoch=1, topics=[]))
    ask(FOLLOWER, lambda _: ControlledShutdownRequest(broker_id=FOLLOWER, broker_epoch=1))
    run.ask(FOLLOWER, asked_of("t0", "elsewhere"))


@scenario
def grown(run: ClusterRun) -> None:
    make(run, assigned("grows", [1, 2]))
    bad: tuple[list[list[int]], ...] = ([[1]], [[1, 2, 3]], [[1, MISSING]], [[2, 2]], [[1, 2], [2, 3]])
    for given in bad:
        run.ask_every_version(CONTROLLER, lambda _, given=given: growing("grows", 2, given))  # type: ignore[misc]
    run.ask(CONTROLLER, growing("grows", 2, [[3, 1]], validate_only=True), what="only validated")
    run.ask(CONTROLLER, growing("grows", 2, [[3, 1]]))
    run.wait_for("grows", lambda topic: len(topic.partitions) == 2)
    run.wait_until_whole("grows")
    run.ask(LEAVER, asked_of("grows"))


@scenario
def settings(run: ClusterRun) -> None:
    """Changed through one broker, and read from the others."""
    make(run, assigned("set", [1, 2, 3]))
    for kind, name, setting in (
        (TOPIC, "set", "retention.ms"),
        (BROKER, "", "log.flush.interval.messages"),
        (BROKER, str(FOLLOWER), "log.retention.ms"),
        (BROKER, str(LEAVER), "log.retention.ms"),
    ):
        changes = [SettingChange(name=setting, config_operation=SET, value="3")]
        resource = ChangedResource(resource_type=kind, resource_name=name, configs=changes)
        run.ask(
            FOLLOWER,
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False),
            what=f"{name}.{setting}",
        )
    for broker_id in (1, 2, 3):
        _until_read(run, broker_id, TOPIC, "set", "retention.ms")
        if broker_id == FOLLOWER:  # the only one that takes it
            _until_read(run, broker_id, BROKER, str(broker_id), "log.retention.ms")
        run.ask_every_version(
            broker_id, lambda _: describing(TOPIC, "set", ["retention.ms"], synonyms=True), pick=shortened()
        )
        _until_read(run, broker_id, BROKER, str(broker_id), "log.flush.interval.messages")
        for other in (1, 2, 3, MISSING):
            run.ask(
                broker_id,
                describing(
                    BROKER,
                    str(other),
                    ["log.retention.ms", "log.flush.interval.messages", "broker.rack"],
                    synonyms=True,
                ),
                what=str(other),
                pick=shortened(),
            )


def _until_read(run: ClusterRun, broker_id: int, kind: int, name: str, setting: str) -> None:
    def is_read() -> bool:
        (result,) = run.do(broker_id, describing(kind, name, [setting])).results
        return bool(result.configs and result.configs[0].value == "3")

    run.cluster.wait_for(f"broker {broker_id} has {setting}", is_read)


@scenario
def log_directories(run: ClusterRun) -> None:
    make(run, assigned("stored", [1, 2], [2, 3], [3, 1]))
    for partition in (0, 1, 2):
        run.do(partition + 1, produced("stored", partition), 11)
    wanted = [DescribableLogDirTopic(topic="stored", partitions=[0, 1, 2, 7])]
    for broker_id in (1, 2, 3):
        run.ask_every_version(broker_id, lambda _: DescribeLogDirsRequest(topics=wanted))


# -- leaders and replicas move


@scenario
def elected(run: ClusterRun) -> None:
    names = [f"elects-{version}" for version in range(3)]
    make(run, *(assigned(name, [1, 2, 3], [2, 3, 1]) for name in names))
    for version, name in enumerate(names):
        run.ask(CONTROLLER, moving(name, (0, [3, 1, 2])))
        run.wait_for(name, lambda topic: _replicas(topic, 0) == [3, 1, 2])
        run.ask(CONTROLLER, electing(name, 0, 1, 7), version)
        run.wait_for(name, lambda topic: _leader(topic, 0) == 3)
        run.ask(LEAVER, asked_of(name))
        run.ask(CONTROLLER, electing(name, 0, 1), version, what="again")
        run.ask(CONTROLLER, electing(name, 0, 1, kind=UNCLEAN), max(version, 1), what="unclean")


def _partition(topic: Any, index: int) -> Any:
    return next(one for one in topic.partitions if one.partition_index == index)


def _replicas(topic: Any, index: int) -> list[int]:
    return list(_partition(topic, index).replica_nodes)


def _leader(topic: Any, index: int) -> int:
    return int(_partition(topic, index).leader_id)


@scenario
def reassigned(run: ClusterRun) -> None:
    make(run, assigned("moves", [1, 2], [1, 2], [2, 3]))
    wrong: tuple[list[int] | None, ...] = ([], [1, 1], [-1], [MISSING], [1, MISSING], None)
    for replicas in wrong:
        run.ask(CONTROLLER, moving("moves", (0, replicas)), what=str(replicas))
    run.ask(CONTROLLER, moving("moves", (0, [2, 3]), (1, [3]), (2, None), (7, [1])))
    run.cluster.wait_for("it is done", lambda: not run.do(CONTROLLER, _all_moves()).topics)
    run.wait_for("moves", lambda topic: (_replicas(topic, 0), _replicas(topic, 1)) == ([2, 3], [3]))
    run.wait_until_whole("moves")
    run.ask(FOLLOWER, asked_of("moves"))
    run.ask(CONTROLLER, _all_moves())


def _all_moves() -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(topics=None, timeout_ms=5000)


@contextmanager
def hung(run: ClusterRun, broker_id: int) -> Iterator[None]:
    """For less than its session: it stays alive in everybody's eyes, and copies nothing."""
    run.cluster.brokers[broker_id].pause()
    try:
        yield
    finally:
        run.cluster.brokers[broker_id].resume()


@scenario
def reassigned_to_a_broker_that_hangs(run: ClusterRun) -> None:
    make(run, assigned("stalls", [1, 2], [2, 1]))
    with hung(run, LEAVER):
        run.ask(CONTROLLER, moving("stalls", (0, [1, 3]), (1, [3])))
        run.ask(CONTROLLER, _all_moves(), what="all")
        run.ask(CONTROLLER, listing("stalls", 0, 7), what="one")
        run.ask_every_version(CONTROLLER, lambda _: growing("stalls", 3))
        for partition in (0, 1):
            run.wait_for("stalls", lambda topic, at=partition: LEAVER in _replicas(topic, at), [CONTROLLER])  # type: ignore[misc]
        run.ask(CONTROLLER, asked_of("stalls"))
        run.ask(CONTROLLER, moving("stalls", (0, [3, 2])), what="replaced")
        run.ask(CONTROLLER, listing("stalls", 0), what="replaced")
        run.ask(CONTROLLER, moving("stalls", (0, None), (1, None)), what="called off")
        run.ask(CONTROLLER, _all_moves(), what="called off")
        run.ask(CONTROLLER, moving("stalls", (0, None)), what="called off twice")
    run.wait_until_whole("stalls")
    run.ask(FOLLOWER, asked_of("stalls"))


# -- what only a leader does


@scenario
def not_the_leader(run: ClusterRun) -> None:
    make(run, assigned("led", [1, 2], [2, 1]))
    for broker_id in (2, 3):
        run.ask_every_version(broker_id, lambda _: produced("led"), since=3)
        run.ask_every_version(broker_id, lambda _: newest_offset("led"), since=1)
    run.ask(LEAVER, fetch("led"), 12)


# -- one is gone


@scenario
def of_brokers_that_are_down(run: ClusterRun) -> None:
    make(
        run,
        assigned("alone", [3]),
        assigned("lonely", [3]),
        assigned("mixed", [3, 1, 2], [1, 2, 3], [3, 1, 2]),
        assigned("strict", [1, 3, 2], min_insync_replicas="3"),
        assigned("doomed", [3, 1], [1, 2]),
        assigned("doomed-alone", [3]),
    )
    run.do(CONTROLLER, moving("mixed", (2, [LEAVER])))
    run.wait_for("mixed", lambda topic: _replicas(topic, 2) == [LEAVER])
    run.cluster.brokers[LEAVER].stop()
    run.cluster.wait_for("it is gone", lambda: LEAVER not in run.cluster.registered())
    for name in ("alone", "mixed", "strict"):
        run.wait_for(name, lambda topic: all(_is_told_gone(one) for one in topic.partitions))
    run.wait_for("strict", lambda topic: LEAVER not in topic.partitions[0].isr_nodes)
    for broker_id in (1, 2):
        run.ask(broker_id, all_brokers())
        run.ask_every_version(broker_id, lambda _: asked_of("alone", "mixed", "strict"))


def _is_told_gone(partition: Any) -> bool:
    return LEAVER not in partition.replica_nodes or LEAVER in partition.offline_replicas


@scenario
def creation_while_one_is_down(run: ClusterRun) -> None:
    run.ask_every_version(CONTROLLER, lambda version: creating(new_topic("too-many", 1, 3)))
    run.ask(CONTROLLER, creating(new_topic("too-many", 1, 3), validate_only=True), what="only validated")
    run.ask(CONTROLLER, creating(new_topic("default-count", 1, -1)), what="default")
    run.ask(CONTROLLER, creating(assigned("half", [3, 1])), what="half there", pick=without_defaults)
    run.ask(CONTROLLER, creating(assigned("nobody", [3]), timeout_ms=500), what="not there", pick=without_defaults)
    run.ask(FOLLOWER, asked_of("nobody"), what="not there")
    run.ask(CONTROLLER, growing("mixed", 4), what="three replicas of two brokers")
    run.ask(CONTROLLER, growing("mixed", 4, [[1, 2, 3]]), what="assigned to one that is down")
    request = growing("lonely", 2)
    request.timeout_ms = 500
    run.ask(CONTROLLER, request, what="one replica")


@scenario
def leaders_while_one_is_down(run: ClusterRun) -> None:
    run.ask_every_version(CONTROLLER, lambda _: electing("mixed", 0, 1, 2, timeout_ms=500))
    for version in (1, 2):
        run.ask(CONTROLLER, electing("mixed", 0, 1, 2, kind=UNCLEAN, timeout_ms=500), version, what="unclean")
    every = [TopicPartitions(topic="mixed", partitions=[0]), TopicPartitions(topic="alone", partitions=[0])]
    run.ask(CONTROLLER, ElectLeadersRequest(topic_partitions=every, timeout_ms=500), what="two topics")
    for partition in (1, 2):
        run.ask(CONTROLLER, produced("mixed", partition), 11, what=str(partition))
        run.ask(CONTROLLER, newest_offset("mixed", partition), what=str(partition))
        run.ask(CONTROLLER, fetch("mixed", partition), 12, what=str(partition))
    run.ask_every_version(CONTROLLER, lambda _: produced("strict"), since=3)


@scenario
def moves_while_one_is_down(run: ClusterRun) -> None:
    run.ask(CONTROLLER, moving("mixed", (1, [2, 3])), what="stays on one that is down")
    run.ask(CONTROLLER, moving("mixed", (2, [1])), what="its only replica is down")
    run.ask(CONTROLLER, _all_moves())
    run.ask(CONTROLLER, moving("mixed", (1, None), (2, None)), what="called off")
    run.ask(CONTROLLER, _all_moves(), what="called off")
    run.ask(CONTROLLER, moving("grows", (0, [1, 3])), what="to one that is down")
    run.ask(CONTROLLER, moving("grows", (0, [2, 1])), what="among those that are there")
    run.ask(FOLLOWER, moving("grows", (0, [1, 2])), what="off the controller")


@scenario
def deletion_while_one_is_down(run: ClusterRun) -> None:
    for name in ("doomed", "doomed-alone"):
        run.ask(CONTROLLER, deletion(6, name), what=name)
        run.wait_for(name, lambda topic: topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    run.ask(CONTROLLER, creating(assigned("doomed", [1])), what="again")
    run.ask(CONTROLLER, deletion(6, "doomed"), what="twice")
    run.ask(CONTROLLER, growing("doomed", 5), what="being deleted")
    run.ask(CONTROLLER, moving("doomed", (0, [1, 2])), what="being deleted")
    run.ask(CONTROLLER, electing("doomed", 0, timeout_ms=500), what="being deleted")
    run.ask(FOLLOWER, asked_of("doomed"))


@scenario
def back_again(run: ClusterRun) -> None:
    run.cluster.brokers[LEAVER].start()
    run.cluster.wait_until_known()
    for name in ("doomed", "doomed-alone"):
        run.wait_until_gone(name)
    run.wait_until_whole("alone", "mixed", "strict", "half", "nobody")
    run.ask(CONTROLLER, electing("mixed", 0, 1, 2))
    run.wait_for("mixed", lambda topic: [_leader(topic, index) for index in (0, 1, 2)] == [3, 2, 3])
    run.wait_until_whole("mixed")
    for broker_id in (1, 2, 3):
        run.ask(broker_id, asked_of("alone", "mixed", "strict", "doomed", "half", "nobody"))
    run.ask(CONTROLLER, creating(assigned("doomed", [1, 3])), what="again", pick=without_defaults)


@scenario
def deleted(run: ClusterRun) -> None:
    run.wait_until_whole(*(f"t{version}" for version in range(8)))
    run.ask_every_version(CONTROLLER, lambda version: deletion(version, f"t{version}", "missing"))
    for version in range(7):
        run.wait_until_gone(f"t{version}")
    for broker_id in (1, 2, 3):
        run.ask(broker_id, asked_of("t0", "t6", "t7"))


@scenario
def called_off_when_the_origin_is_gone(run: ClusterRun) -> None:
    """A partition moves from 2 to 1 and 3. Broker 1 has come into sync and 3 hangs when 2 goes."""
    make(run, assigned("left", [2]))
    with hung(run, LEAVER):
        run.ask(CONTROLLER, moving("left", (0, [1, 3])))
        run.cluster.wait_for("1 is in sync", lambda: run.cluster.isr("left") == {1, 2})
        run.cluster.brokers[FOLLOWER].signal(signal.SIGTERM)
        run.cluster.wait_for("2 is not", lambda: run.cluster.isr("left") == {1})
        run.ask(CONTROLLER, moving("left", (0, None)), what="called off")
    run.cluster.brokers[FOLLOWER].stop()
    run.cluster.brokers[FOLLOWER].start()
    run.cluster.wait_until_known()


# -- what a leader may wish


@scenario
def wishes_of_one_that_does_not_lead(run: ClusterRun) -> None:
    """In the name of broker 2, of a partition that broker 1 leads."""
    make(run, assigned("wished", [1, 2, 3]))
    topic_id = run.topic(CONTROLLER, "wished").topic_id
    epoch = run.cluster.kazoo.get(f"/brokers/ids/{FOLLOWER}")[1].czxid
    row = RequestPartitionData(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=0,
        new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=-1) for one in (1, 2)],
    )
    topics = [RequestTopicData(topic_id=topic_id, partitions=[row])]
    run.ask(CONTROLLER, AlterPartitionRequest(broker_id=FOLLOWER, broker_epoch=epoch, topics=topics))


# -- a topic that goes


@scenario
def deleted_while_it_moves(run: ClusterRun) -> None:
    """To a broker that hangs, and to one that goes down."""
    make(run, assigned("hanging", [1, 2]), assigned("stranded", [1, 2]))
    leaver = run.cluster.brokers[LEAVER]
    with hung(run, LEAVER):
        _delete_while_it_moves(run, "hanging")
    run.wait_until_gone("hanging")
    _use_again(run, "hanging")
    leaver.pause()
    _start_to_move(run, "stranded")
    leaver.signal(signal.SIGKILL)
    leaver.stop()
    run.cluster.kazoo.delete(f"/brokers/ids/{LEAVER}")  # its session would last for long
    for one in (CONTROLLER, FOLLOWER):
        run.wait_for("stranded", lambda topic: LEAVER in topic.partitions[0].offline_replicas, [one])
    _delete_while_it_moves(run, "stranded")
    leaver.start()
    run.cluster.wait_until_known()
    run.wait_until_gone("stranded")
    _use_again(run, "stranded")


def _start_to_move(run: ClusterRun, name: str) -> None:
    run.do(CONTROLLER, moving(name, (0, [3, 2])))
    run.wait_for(name, lambda topic: LEAVER in _replicas(topic, 0), [CONTROLLER, FOLLOWER])


def _delete_while_it_moves(run: ClusterRun, name: str) -> None:
    if LEAVER not in _replicas(run.topic(CONTROLLER, name), 0):
        _start_to_move(run, name)
    request = deletion(6, name)
    request.timeout_ms = 1000
    run.ask(CONTROLLER, request, what=name)
    run.wait_for(name, lambda topic: topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [CONTROLLER, FOLLOWER])
    run.ask(CONTROLLER, produced(name), 11, what=name)
    run.ask(CONTROLLER, fetch(name), 12, what=name)
    run.ask(CONTROLLER, asked_of(name), what=name)
    run.ask(CONTROLLER, listing(name, 0), what=name)
    run.ask(CONTROLLER, _all_moves(), what=f"all beside {name}")
    run.ask(CONTROLLER, moving(name, (0, None)), what=f"{name}, called off")
    run.ask(CONTROLLER, moving(name, (0, [2])), what=f"{name}, replaced")
    run.ask(CONTROLLER, creating(assigned(name, [1])), what=f"{name}, too early")


def _use_again(run: ClusterRun, name: str) -> None:
    run.ask(CONTROLLER, _all_moves(), what=f"{name}, gone")
    run.ask(CONTROLLER, creating(assigned(name, [2, 3])), what=f"{name}, again", pick=without_defaults)
    run.wait_until_whole(name)
    run.ask(CONTROLLER, asked_of(name), what=f"{name}, again")
    run.ask(CONTROLLER, listing(name, 0), what=f"{name}, again")
