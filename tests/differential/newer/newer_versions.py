"""Versions of requests that 3.9.1 has not, and that no feature explains: topic ids, one more field, or one more error."""

from __future__ import annotations

from typing import Any

from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.primitives import ZERO_UUID
from tests.differential.batches import batch
from tests.differential.newer.offsets import NOBODYS_ID
from tests.differential.play import Run, newer_case

FETCHED_BYTES = 1 << 20


def _producing(*rows: tuple[str, bytes, tuple[int, bytes | None]]) -> ProduceRequest:
    """Of each row: name and id of a topic, and records for one of its partitions."""
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=name, topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=records)]
            )
            for name, topic_id, (index, records) in rows
        ],
    )


def _without_texts(answer: Any) -> None:
    """4.3.0 explains none of these errors any more; the texts here are those of 3.9.1."""
    for topic in answer.responses:
        for row in topic.partition_responses:
            row.error_message = None


@newer_case(ProduceRequest, "12-13")
def topics_by_name_and_by_id(run: Run) -> None:
    topic, records = run.topic("t", 2), batch(b"a")
    topic_id = run.last_topic_id
    for _ in range(4):  # also those that are recognised by their bytes
        run.ask(_producing((topic, topic_id, (0, records))))
    run.ask(_producing((topic, topic_id, (7, records))), pick=_without_texts)
    run.ask(_producing((topic, topic_id, (0, records[:-1]))), pick=_without_texts)
    run.ask(_producing((topic, topic_id, (0, records)), (topic, topic_id, (0, records))))
    run.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[]))


@newer_case(ProduceRequest, "13")
def topic_ids_that_are_not_known(run: Run) -> None:
    topic, records = run.topic("t", 2), batch(b"a")
    topic_id = run.last_topic_id
    run.ask(_producing(("", NOBODYS_ID, (0, records))))
    run.ask(_producing(("", ZERO_UUID, (0, records))))
    run.ask(_producing(("", NOBODYS_ID, (0, records)), ("", NOBODYS_ID, (0, records))))
    run.ask(_producing(("", NOBODYS_ID, (0, b"junk"))))
    run.ask(_producing((topic, topic_id, (0, records)), ("", NOBODYS_ID, (0, records))))


@newer_case(FetchRequest, "18")
def what_a_consumer_reads(run: Run) -> None:
    topic = run.topic("t")
    topic_id = run.last_topic_id
    run.do(_producing((topic, topic_id, (0, batch(b"a")))))
    for fields in ({}, {"high_watermark": 0}, {"high_watermark": 1}):
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCHED_BYTES, **fields)
        topics = [FetchTopic(topic_id=topic_id, partitions=[row])]
        run.ask(FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics))


@newer_case(ListOffsetsRequest, "9-11")
def offsets_that_mean_something_special(run: Run) -> None:
    topic = run.topic("t")
    run.do(_producing((topic, run.last_topic_id, (0, batch(b"a", b"b")))))
    for timestamp in range(-1, -8, -1):
        row = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        run.ask(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])], timeout_ms=1_000)
        )


@newer_case(MetadataRequest, "12-13")
def topics_of_metadata(run: Run) -> None:
    topic = run.topic("t", 2)
    for name, topic_id in [
        (topic, ZERO_UUID),
        (run.name("never"), ZERO_UUID),
        ("a b", ZERO_UUID),
        (None, run.last_topic_id),
        (None, NOBODYS_ID),
    ]:
        asked = MetadataRequestTopic(name=name, topic_id=topic_id)
        run.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False))


@newer_case(MetadataRequest, "12-13")
def a_topic_with_neither_name_nor_id(run: Run) -> None:
    asked = MetadataRequestTopic(name=None, topic_id=ZERO_UUID)
    run.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False))


@newer_case(DescribeClusterRequest, "1-2")
def brokers_and_fenced_ones(run: Run) -> None:
    for fields in ({}, {"include_fenced_brokers": True}, {"endpoint_type": 2}, {"endpoint_type": 3}):
        run.ask(DescribeClusterRequest(include_cluster_authorized_operations=False, **fields))


def _only_flags(answer: Any) -> None:
    for row in answer.results:
        row.log_dir, row.total_bytes, row.usable_bytes = "", 0, 0


@newer_case(DescribeLogDirsRequest, "4-5")
def a_directory_that_gets_new_logs(run: Run) -> None:
    topics = [DescribableLogDirTopic(topic=run.topic("t"), partitions=[0])]
    run.ask(DescribeLogDirsRequest(topics=topics), pick=_only_flags)


@newer_case(ListTransactionsRequest, "2")
def transactional_ids_by_expression(run: Run) -> None:
    for pattern in ("nobody.*", "(", "[", "(?=a)", "a{1001}"):
        run.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern))
    nonsense = ["Nonsense"]
    run.ask(ListTransactionsRequest(state_filters=nonsense, producer_id_filters=[], transactional_id_pattern="("))
    run.ask(ListTransactionsRequest(state_filters=nonsense, producer_id_filters=[], transactional_id_pattern=""))


@newer_case(DescribeGroupsRequest, "5-6")
def groups_that_are_not_there(run: Run) -> None:
    run.ask(DescribeGroupsRequest(groups=[run.name("never"), ""], include_authorized_operations=True))
