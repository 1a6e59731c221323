"""AlterPartitionReassignments, ListPartitionReassignments and UpdateFeatures. What needs several brokers is asked of a
whole cluster: `tests.differential.cluster_admin`."""

from __future__ import annotations

from collections.abc import Callable

from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.differential.cases.metadata import named
from tests.differential.play import Run, case

OURS = 0
MISSING = 9


def moving(
    topic: str, *wanted: tuple[int, list[int] | None], timeout_ms: int = 5000
) -> AlterPartitionReassignmentsRequest:
    """(partition, its replicas), None to call its move off."""
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in wanted]
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)], timeout_ms=timeout_ms
    )


def listing(topic: str, *partitions: int) -> ListPartitionReassignmentsRequest:
    wanted = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(partitions))]
    return ListPartitionReassignmentsRequest(topics=wanted, timeout_ms=5000)


@case(AlterPartitionReassignmentsRequest, "normal")
def to_where_it_is(run: Run) -> None:
    topic = run.topic("t", 2)
    run.ask(moving(topic, (0, [OURS]), (1, [OURS])))
    run.ask(named(topic), 4)
    run.ask(listing(topic, 0, 1), 0)


@case(AlterPartitionReassignmentsRequest, "edge")
def nothing_to_move(run: Run) -> None:
    run.ask(AlterPartitionReassignmentsRequest(topics=[], timeout_ms=5000))
    run.ask(moving(run.topic()))
    run.ask(moving(run.name("t"), (0, [OURS]), timeout_ms=0))
    run.ask(moving(run.name("t"), (0, [OURS]), timeout_ms=-1))


@case(AlterPartitionReassignmentsRequest, "edge")
def a_partition_and_a_topic_twice(run: Run) -> None:
    topic = run.topic()
    run.ask(moving(topic, (0, [OURS]), (0, [MISSING])))
    run.ask(moving(topic, (0, None), (0, [OURS])))
    request = moving(topic, (0, [OURS]))
    request.topics.append(ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=7)]))
    run.ask(request)


@case(AlterPartitionReassignmentsRequest, "wrong")
def replicas_that_cannot_be(run: Run) -> None:
    topic = run.topic()
    bad: tuple[list[int], ...] = ([], [MISSING], [OURS, OURS], [-1], [OURS, -1], [OURS, MISSING])
    for replicas in bad:
        run.ask(moving(topic, (0, replicas)))
    run.ask(named(topic), 4)


@case(AlterPartitionReassignmentsRequest, "wrong")
def calls_off_what_is_not_under_way(run: Run) -> None:
    run.ask(moving(run.topic(), (0, None)))


@case(AlterPartitionReassignmentsRequest, "wrong")
def missing_topic_and_partition(run: Run) -> None:
    run.ask(moving(run.topic(), (7, [OURS]), (-1, [OURS]), (7, None), (8, [MISSING])))
    run.ask(moving(run.name("missing"), (0, [OURS]), (1, None), (2, [])))
    run.ask(moving("", (0, [OURS])))


def own_topics(run: Run) -> Callable[[ListPartitionReassignmentsResponse], None]:
    def pick(answer: ListPartitionReassignmentsResponse) -> None:
        answer.topics = [topic for topic in answer.topics if topic.name.startswith(run.prefix)]

    return pick


@case(ListPartitionReassignmentsRequest, "normal")
def all_of_them(run: Run) -> None:
    run.topic()
    run.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=5000), pick=own_topics(run))


@case(ListPartitionReassignmentsRequest, "normal")
def of_a_topic_that_does_not_move(run: Run) -> None:
    run.ask(listing(run.topic("t", 2), 0, 1))


@case(ListPartitionReassignmentsRequest, "edge")
def no_topics_or_partitions(run: Run) -> None:
    run.ask(ListPartitionReassignmentsRequest(topics=[], timeout_ms=5000))
    run.ask(listing(run.topic()))
    run.ask(ListPartitionReassignmentsRequest(topics=[], timeout_ms=-1))


@case(ListPartitionReassignmentsRequest, "wrong")
def missing_topic_and_partition_(run: Run) -> None:
    run.ask(listing(run.topic(), 7, -1))
    run.ask(listing(run.name("missing"), 0))
    run.ask(listing("", 0))


# -- UpdateFeatures


def updating(*updates: FeatureUpdateKey, validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only, timeout_ms=5000)


@case(UpdateFeaturesRequest, "normal")
def features_that_no_broker_has(run: Run) -> None:
    run.ask(updating(FeatureUpdateKey(feature="metadata.version", max_version_level=20)))
    run.ask(
        updating(FeatureUpdateKey(feature="a", max_version_level=1), FeatureUpdateKey(feature="b", max_version_level=2))
    )


@case(UpdateFeaturesRequest, "edge")
def no_features(run: Run) -> None:
    run.ask(updating())


@case(UpdateFeaturesRequest, "edge", "1+")
def only_validated(run: Run) -> None:
    run.ask(updating(validate_only=True))
    run.ask(updating(FeatureUpdateKey(feature="a", max_version_level=1), validate_only=True))


@case(UpdateFeaturesRequest, "edge")
def a_feature_twice(run: Run) -> None:
    run.ask(
        updating(FeatureUpdateKey(feature="a", max_version_level=1), FeatureUpdateKey(feature="a", max_version_level=2))
    )


@case(UpdateFeaturesRequest, "wrong")
def names_and_levels(run: Run) -> None:
    for name, level in (("", 1), ("a", 0), ("a", -1), ("a", 32767)):
        run.ask(updating(FeatureUpdateKey(feature=name, max_version_level=level)))


@case(UpdateFeaturesRequest, "wrong")
def downgrades_of_what_is_not_there(run: Run) -> None:
    kinds = ({"allow_downgrade": True},) if run.version == 0 else ({"upgrade_type": 2}, {"upgrade_type": 3})
    for kind in kinds:
        for level in (1, 0, -1):
            run.ask(updating(FeatureUpdateKey(feature="a", max_version_level=level, **kind)))


@case(UpdateFeaturesRequest, "wrong", "1+")
def kinds_that_are_none(run: Run) -> None:
    for kind in (0, 9, -1):
        run.ask(updating(FeatureUpdateKey(feature="a", max_version_level=1, upgrade_type=kind)))
