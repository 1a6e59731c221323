"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch."""

from __future__ import annotations

import time

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.differential.batches import MARCH, batch
from tests.differential.cases.control import OTHER, OURS, hold, leading, led, let_go
from tests.differential.cases.fetch import filled
from tests.differential.play import CONTROLLED, Run, case

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
FAR_FUTURE = 1 << 62


def listing(
    topic: str,
    *timestamps: int,
    partition: int = 0,
    replica: int = -1,
    isolation: int = 0,
    epoch: int = -1,
    most: int = 10,
) -> ListOffsetsRequest:
    """Partition n at the nth timestamp, from `partition` on."""
    partitions = [
        ListOffsetsPartition(
            partition_index=partition + index, timestamp=timestamp, current_leader_epoch=epoch, max_num_offsets=most
        )
        for index, timestamp in enumerate(timestamps)
    ]
    return ListOffsetsRequest(
        replica_id=replica, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )


@case(ListOffsetsRequest, "normal")
def first_and_last(run: Run) -> None:
    topic = filled(run)
    for timestamp in (EARLIEST, LATEST):
        run.ask(listing(topic, timestamp))
        if run.version >= 2:
            run.ask(listing(topic, timestamp, isolation=1))


@case(ListOffsetsRequest, "normal", "1+")
def by_time(run: Run) -> None:
    topic = run.topic()
    for start in (0, 1000, 500):
        run.produce(topic, batch(b"a", b"b", b"c", base_timestamp=MARCH + start))
    run.produce(topic, batch(b"d", b"e", base_timestamp=MARCH + 2000, codec=1))
    for delta in (-1, 0, 1, 2, 3, 501, 999, 1000, 1001, 1002, 1003, 2000, 2001, 2002):
        run.ask(listing(topic, MARCH + delta))


@case(ListOffsetsRequest, "normal", "7+")
def largest_timestamp(run: Run) -> None:
    topic = run.topic()
    for start in (0, 1000, 500):
        run.produce(topic, batch(b"a", b"b", b"c", base_timestamp=MARCH + start))
    run.ask(listing(topic, MAX_TIMESTAMP))


@case(ListOffsetsRequest, "edge")
def of_an_empty_partition(run: Run) -> None:
    topic = run.topic()
    for timestamp in (EARLIEST, LATEST, MARCH, 0):
        run.ask(listing(topic, timestamp))


@case(ListOffsetsRequest, "edge", "7+")
def largest_timestamp_of_an_empty_partition(run: Run) -> None:
    run.ask(listing(run.topic(), MAX_TIMESTAMP))


@case(ListOffsetsRequest, "edge", "7+")
def largest_timestamp_of_records_without_any(run: Run) -> None:
    topic = run.topic()
    for _ in range(2):
        run.produce(topic, batch(b"a", base_timestamp=-1))
    run.ask(listing(topic, MAX_TIMESTAMP))


@case(ListOffsetsRequest, "edge", "7+")
def largest_timestamp_of_deleted_records(run: Run) -> None:
    topic = run.topic(segment_bytes="200")
    for start in (1000, 2000, 0, 500):
        run.produce(topic, batch(b"x" * 100, base_timestamp=MARCH + start))
    for offset in (1, 2, 4):
        run.do(deleting(topic, offset))
        run.ask(listing(topic, MAX_TIMESTAMP))


@case(ListOffsetsRequest, "edge", "1-6")
def specials_before_their_version(run: Run) -> None:
    run.ask(listing(filled(run), MAX_TIMESTAMP))


@case(ListOffsetsRequest, "edge", "8+")
def local_and_tiered(run: Run) -> None:
    topic = filled(run)
    run.ask(listing(topic, EARLIEST_LOCAL))
    if run.version >= 9:
        run.ask(listing(topic, LATEST_TIERED))


@case(ListOffsetsRequest, "edge", "1+")
def local_and_tiered_before_their_version(run: Run) -> None:
    topic = filled(run)
    if run.version < 8:
        run.ask(listing(topic, EARLIEST_LOCAL))
    if run.version < 9:
        run.ask(listing(topic, LATEST_TIERED))


@case(ListOffsetsRequest, "edge", "1+")
def negative_times(run: Run) -> None:
    topic = filled(run)
    for timestamp in (-6, -100, 0x7FFFFFFFFFFFFFFF):
        run.ask(listing(topic, timestamp))


@case(ListOffsetsRequest, "edge")
def after_deletion(run: Run) -> None:
    topic = filled(run)
    run.do(deleting(topic, 3))
    for timestamp in (EARLIEST, LATEST, MARCH, 0):
        run.ask(listing(topic, timestamp))


@case(ListOffsetsRequest, "edge", "0")
def at_most_so_many(run: Run) -> None:
    topic = run.topic(segment_bytes="200")
    for _ in range(4):
        run.produce(topic, batch(b"x" * 100))
    for most in (0, 1, 2, 3, 10):
        for timestamp in (LATEST, EARLIEST):
            run.ask(listing(topic, timestamp, most=most))


@case(ListOffsetsRequest, "edge", "0")
def segments_written_before_a_time(run: Run) -> None:
    """By the times of the files: a moment before each of three segments, and one behind them."""
    topic = run.topic(segment_bytes="200")
    moments = []
    for _ in range(3):
        moments.append(quiet_moment())
        run.produce(topic, batch(b"x" * 100))
    moments.append(quiet_moment())
    for timestamp in (0, *moments, FAR_FUTURE):
        for most in (10, 2, 1, 0):
            run.ask(listing(topic, timestamp, most=most))
    run.do(deleting(topic, 2))
    for timestamp in (0, *moments, FAR_FUTURE, LATEST, EARLIEST):
        run.ask(listing(topic, timestamp))


@case(ListOffsetsRequest, "edge", "0")
def far_future_of_an_empty_partition(run: Run) -> None:
    topic = run.topic()
    for timestamp in (quiet_moment(), FAR_FUTURE, LATEST, EARLIEST):
        for most in (10, 1, 0):
            run.ask(listing(topic, timestamp, most=most))


@case(ListOffsetsRequest, "edge", "0")
def specials_that_version_0_does_not_know(run: Run) -> None:
    topic = filled(run)
    for timestamp in (MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, -6, -(1 << 63)):
        run.ask(listing(topic, timestamp))


@case(ListOffsetsRequest, "wrong", "0")
def fewer_than_none(run: Run) -> None:
    topic = filled(run)
    for most in (-1, -(1 << 31)):
        for timestamp in (LATEST, EARLIEST, 0):
            run.ask(listing(topic, timestamp, most=most))


@case(ListOffsetsRequest, "edge", stage=CONTROLLED)
def before_the_epoch_is_committed(run: Run) -> None:
    """A new leader has a record that its follower may not have."""
    both = [OURS, OTHER]
    topic = hold(run, "t", led(OURS, isr=both))
    run.produce(topic, batch(b"a"), acks=1)
    elected = led(OURS, leader_epoch=4, partition_epoch=5, isr=both, is_new=False)
    run.do(leading(run, {topic: [elected]}, LeaderAndIsrRequest.max_version))
    for timestamp in (LATEST, EARLIEST, 0, FAR_FUTURE):
        for replica in (-1, -2, OTHER):
            run.ask(listing(topic, timestamp, replica=replica))
    let_go(run, topic)


def quiet_moment() -> int:
    """The time of now, with enough time around it in which nothing is written that no file's own can be the same."""
    time.sleep(0.05)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.05)
    return moment


@case(ListOffsetsRequest, "edge")
def as_a_debugging_replica(run: Run) -> None:
    topic = filled(run)
    for replica in (-2, 0, 5):
        run.ask(listing(topic, LATEST, replica=replica))


@case(ListOffsetsRequest, "edge")
def no_topics(run: Run) -> None:
    run.ask(ListOffsetsRequest(replica_id=-1, topics=[]))


@case(ListOffsetsRequest, "edge")
def a_partition_twice(run: Run) -> None:
    topic = filled(run)
    request = listing(topic, EARLIEST, LATEST)
    request.topics[0].partitions[1].partition_index = 0
    run.ask(request)


@case(ListOffsetsRequest, "edge", "4+")
def with_the_leader_epoch(run: Run) -> None:
    run.ask(listing(filled(run), LATEST, epoch=0))


@case(ListOffsetsRequest, "wrong")
def unknown_topic_and_partition(run: Run) -> None:
    run.ask(listing(run.name("missing"), LATEST))
    run.ask(listing(filled(run), LATEST, partition=5))
    run.ask(listing(filled(run, short="u"), LATEST, partition=-1))


@case(ListOffsetsRequest, "wrong", "4+")
def a_leader_epoch_that_is_not(run: Run) -> None:
    run.ask(listing(filled(run), LATEST, EARLIEST, epoch=3))


@case(ListOffsetsRequest, "wrong", "2+")
def isolation_of_five(run: Run) -> None:
    run.ask(listing(filled(run), LATEST, isolation=5))


def deleting(topic: str, *offsets: int, partition: int = 0) -> DeleteRecordsRequest:
    partitions = [
        DeleteRecordsPartition(partition_index=partition + index, offset=offset) for index, offset in enumerate(offsets)
    ]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=30000)


@case(DeleteRecordsRequest, "normal")
def up_to_an_offset_and_all(run: Run) -> None:
    topic = filled(run)
    for offset in (2, 3, -1):
        run.ask(deleting(topic, offset))


@case(DeleteRecordsRequest, "edge")
def nothing_to_delete(run: Run) -> None:
    topic = filled(run)
    for offset in (0, 6, 6, 0, 3):
        run.ask(deleting(topic, offset))
    run.ask(DeleteRecordsRequest(topics=[], timeout_ms=1000))


@case(DeleteRecordsRequest, "wrong")
def offsets_out_of_range(run: Run) -> None:
    topic = filled(run)
    for offset in (7, -2, 1 << 40):
        run.ask(deleting(topic, offset))


@case(DeleteRecordsRequest, "wrong")
def unknown_topic_or_partition(run: Run) -> None:
    run.ask(deleting(run.name("missing"), 1))
    run.ask(deleting(filled(run), 1, partition=9))


@case(DeleteRecordsRequest, "wrong")
def from_a_topic_that_is_only_compacted(run: Run) -> None:
    run.ask(deleting(filled(run, cleanup_policy="compact"), 1))


@case(DeleteRecordsRequest, "wrong")
def from_an_internal_topic(run: Run) -> None:
    run.group()
    run.ask(deleting("__consumer_offsets", 0))


def epochs(
    topic: str, epoch: int, *, partition: int = 0, current: int = -1, replica: int = -2
) -> OffsetForLeaderEpochRequest:
    partitions = [OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)]
    return OffsetForLeaderEpochRequest(
        replica_id=replica, topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions)]
    )


@case(OffsetForLeaderEpochRequest, "normal")
def of_the_current_epoch(run: Run) -> None:
    run.ask(epochs(filled(run), 0))


@case(OffsetForLeaderEpochRequest, "edge")
def of_other_epochs(run: Run) -> None:
    topic = filled(run)
    for epoch in (1, 5, -1, -2):
        run.ask(epochs(topic, epoch))


@case(OffsetForLeaderEpochRequest, "edge")
def of_an_empty_partition_(run: Run) -> None:
    topic = run.topic()
    for epoch in (0, 1):
        run.ask(epochs(topic, epoch))


@case(OffsetForLeaderEpochRequest, "edge")
def no_topics_(run: Run) -> None:
    run.ask(OffsetForLeaderEpochRequest(topics=[]))


@case(OffsetForLeaderEpochRequest, "edge", "3+")
def from_a_consumer(run: Run) -> None:
    topic = filled(run)
    for replica in (-1, 0, 3):
        run.ask(epochs(topic, 0, replica=replica))


@case(OffsetForLeaderEpochRequest, "wrong")
def unknown_topic_or_partition_(run: Run) -> None:
    run.ask(epochs(run.name("missing"), 0))
    run.ask(epochs(filled(run), 0, partition=4))


@case(OffsetForLeaderEpochRequest, "wrong", "2+")
def a_current_epoch_that_is_not(run: Run) -> None:
    topic = filled(run)
    for current in (0, 1):
        run.ask(epochs(topic, 0, current=current))
