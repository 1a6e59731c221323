from __future__ import annotations

from typing import Any

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.primitives import ZERO_UUID
from tests.differential.batches import Batch, Rec, batch
from tests.differential.play import Run, case


def wanted(
    run: Run, topic: str, *offsets: int, topic_id: bytes | None = None, max_bytes: int = 1 << 20, **fields: Any
) -> FetchTopic:
    """Partition n from the nth offset."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)
        for index, offset in enumerate(offsets)
    ]
    if run.version >= 13:
        return FetchTopic(topic_id=run.last_topic_id if topic_id is None else topic_id, partitions=partitions)
    return FetchTopic(topic=topic, partitions=partitions)


def fetching(*topics: FetchTopic, max_wait_ms: int = 0, min_bytes: int = 0, **fields: Any) -> FetchRequest:
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=list(topics), **fields)


def filled(run: Run, batches: int = 3, short: str = "t", **configs: str) -> str:
    """A topic with `batches` batches of two records each."""
    topic = run.topic(short, 1, **configs)
    for number in range(batches):
        run.produce(topic, batch(b"a%d" % number, b"b%d" % number))
    return topic


@case(FetchRequest, "normal")
def from_the_start_and_from_a_batch(run: Run) -> None:
    topic = filled(run)
    for offset in (0, 2, 4):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "normal")
def every_compression(run: Run) -> None:
    topic = run.topic()
    for codec in (0, 1, 2, 3):
        run.produce(topic, batch(b"a" * 100, b"b" * 100, codec=codec))
    run.ask(fetching(wanted(run, topic, 0)))


@case(FetchRequest, "normal", "7+")
def a_session(run: Run) -> None:
    topic = filled(run)
    first = run.ask(fetching(wanted(run, topic, 0), session_epoch=0))
    session = {"session_id": first.session_id}
    run.ask(fetching(session_epoch=1, **session))
    run.ask(fetching(wanted(run, topic, 6), session_epoch=2, **session))
    run.ask(fetching(session_epoch=3, **session))
    run.produce(topic, batch(b"new"))
    run.ask(fetching(session_epoch=4, **session))
    run.ask(fetching(session_epoch=5, **session))
    run.ask(fetching(session_epoch=-1, **session))
    run.ask(fetching(session_epoch=6, **session))


@case(FetchRequest, "normal", "7+")
def a_session_forgets_a_topic(run: Run) -> None:
    topic = filled(run)
    first = run.ask(fetching(wanted(run, topic, 0), session_epoch=0))
    forgotten = (
        ForgottenTopic(topic_id=run.last_topic_id, partitions=[0])
        if run.version >= 13
        else ForgottenTopic(topic=topic, partitions=[0])
    )
    run.ask(fetching(forgotten_topics_data=[forgotten], session_id=first.session_id, session_epoch=1))
    run.produce(topic, batch(b"new"))
    run.ask(fetching(session_id=first.session_id, session_epoch=2))


@case(FetchRequest, "normal")
def read_committed(run: Run) -> None:
    run.ask(fetching(wanted(run, filled(run), 0), isolation_level=1))


@case(FetchRequest, "edge")
def inside_a_batch(run: Run) -> None:
    topic = filled(run)
    for offset in (1, 3, 5):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "edge")
def at_the_end(run: Run) -> None:
    topic = filled(run)
    run.ask(fetching(wanted(run, topic, 6)))
    run.ask(fetching(wanted(run, topic, 6), max_wait_ms=50, min_bytes=1))


@case(FetchRequest, "edge")
def waits_for_min_bytes(run: Run) -> None:
    topic = filled(run)
    run.send(fetching(wanted(run, topic, 6), max_wait_ms=60000, min_bytes=1))
    other = run.connect()
    from tests.differential.cases.produce import sending

    run.do(sending(topic, (0, batch(b"awaited"))), wire=other)
    run.receive(fetching())
    other.close()


@case(FetchRequest, "edge")
def small_limits(run: Run) -> None:
    topic = filled(run)
    for partition_bytes, all_bytes in (
        (1, 1 << 20),
        (0, 1 << 20),
        (200, 1 << 20),
        (1 << 20, 1),
        (1 << 20, 0),
        (1 << 20, 200),
        (-1, -1),
    ):
        request = fetching(wanted(run, topic, 0, max_bytes=partition_bytes), max_bytes=all_bytes)
        run.ask(request)


@case(FetchRequest, "edge")
def two_partitions_under_one_limit(run: Run) -> None:
    topic = run.topic("t", 2)
    for partition in (0, 1):
        for _ in range(2):
            run.produce(topic, batch(b"x" * 100), partition)
    run.ask(fetching(wanted(run, topic, 0, 0, max_bytes=1), max_bytes=1))
    run.ask(fetching(wanted(run, topic, 0, 0), max_bytes=400))


@case(FetchRequest, "edge")
def no_topics(run: Run) -> None:
    run.ask(fetching(max_wait_ms=50, min_bytes=1))


@case(FetchRequest, "edge")
def a_partition_twice(run: Run) -> None:
    topic = filled(run)
    request = fetching(wanted(run, topic, 0))
    request.topics[0].partitions.append(FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1 << 20))
    run.ask(request)


@case(FetchRequest, "edge", "9+")
def with_the_leader_epoch(run: Run) -> None:
    topic = filled(run)
    run.ask(fetching(wanted(run, topic, 0, current_leader_epoch=0)))


@case(FetchRequest, "edge", "12+")
def with_the_last_fetched_epoch(run: Run) -> None:
    topic = filled(run)
    for epoch in (0, -1, 5):
        run.ask(fetching(wanted(run, topic, 2, last_fetched_epoch=epoch)))


@case(FetchRequest, "edge", "11+")
def from_a_rack(run: Run) -> None:
    run.ask(fetching(wanted(run, filled(run), 0), rack_id="here"))


@case(FetchRequest, "edge")
def records_below_the_start(run: Run) -> None:
    topic = filled(run)
    partitions = [DeleteRecordsPartition(partition_index=0, offset=3)]
    run.do(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=5000))
    for offset in (2, 3, 4):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "edge", "15+")
def as_a_debugging_replica(run: Run) -> None:
    from protocol.messages.fetch import ReplicaState

    topic = filled(run)
    for replica in (-2, -1):
        run.ask(fetching(wanted(run, topic, 0), replica_state=ReplicaState(replica_id=replica, replica_epoch=-1)))


@case(FetchRequest, "edge", "0-14")
def as_a_debugging_replica_of_old(run: Run) -> None:
    run.ask(fetching(wanted(run, filled(run), 0), replica_id=-2))


@case(FetchRequest, "wrong")
def offsets_out_of_range(run: Run) -> None:
    topic = filled(run)
    for offset in (7, 100, -1, -2):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "wrong")
def one_of_two_out_of_range(run: Run) -> None:
    topic = run.topic("t", 2)
    run.produce(topic, batch(b"a"), 1)
    run.ask(fetching(wanted(run, topic, 9, 0), max_wait_ms=5000, min_bytes=1 << 20))


@case(FetchRequest, "wrong")
def unknown_topic_and_partition(run: Run) -> None:
    topic = filled(run)
    run.ask(fetching(wanted(run, topic, 0, 0, 0)))
    run.ask(fetching(wanted(run, run.name("missing"), 0, topic_id=bytes(range(16)))))


@case(FetchRequest, "wrong", "13+")
def zero_topic_id(run: Run) -> None:
    filled(run)
    run.ask(fetching(wanted(run, "", 0, topic_id=ZERO_UUID)))


@case(FetchRequest, "wrong", "9+")
def leader_epochs_that_are_not(run: Run) -> None:
    topic = filled(run)
    run.ask(fetching(wanted(run, topic, 0, current_leader_epoch=1)))


@case(FetchRequest, "wrong", "7+")
def sessions_that_are_not(run: Run) -> None:
    topic = filled(run)
    first = run.ask(fetching(wanted(run, topic, 0), session_epoch=0))
    run.ask(fetching(session_id=first.session_id ^ 0x155, session_epoch=1))
    run.ask(fetching(session_id=first.session_id, session_epoch=5))
    run.ask(fetching(wanted(run, topic, 0), session_id=first.session_id, session_epoch=0))
    run.ask(fetching(wanted(run, topic, 0), session_id=0, session_epoch=3))


@case(FetchRequest, "wrong", "7+")
def a_session_over_a_topic_that_is_not(run: Run) -> None:
    first = run.ask(fetching(wanted(run, run.name("missing"), 0, topic_id=bytes(range(16))), session_epoch=0))
    run.ask(fetching(session_id=first.session_id, session_epoch=1))


@case(FetchRequest, "wrong")
def isolation_of_nine(run: Run) -> None:
    run.ask(fetching(wanted(run, filled(run), 0), isolation_level=9))


@case(FetchRequest, "wrong", "0-14")
def as_a_replica_that_is_not(run: Run) -> None:
    topic = filled(run)
    for replica in (7, 0):
        run.ask(fetching(wanted(run, topic, 0), replica_id=replica))


@case(FetchRequest, "wrong", "15+")
def as_a_replica_that_is_not_with_epoch(run: Run) -> None:
    from protocol.messages.fetch import ReplicaState

    run.ask(fetching(wanted(run, filled(run), 0), replica_state=ReplicaState(replica_id=7, replica_epoch=1)))


@case(FetchRequest, "wrong", "12+")
def another_cluster_s_id(run: Run) -> None:
    run.ask(fetching(wanted(run, filled(run), 0), cluster_id="another"))


@case(FetchRequest, "wrong", "0-9")
def zstd_before_version_10(run: Run) -> None:
    topic = run.topic()
    run.produce(topic, batch(b"a" * 50, codec=4))
    run.ask(fetching(wanted(run, topic, 0)))


@case(FetchRequest, "wrong", "0-9")
def a_topic_that_stores_zstd(run: Run) -> None:
    topic = filled(run, compression_type="zstd")
    run.ask(fetching(wanted(run, topic, 0)))


@case(FetchRequest, "wrong", "13+")
def a_session_by_name_goes_on_by_id(run: Run) -> None:
    topic = filled(run)
    by_name = FetchTopic(
        topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    )
    first = run.do(fetching(by_name, session_epoch=0), 12)
    run.ask(fetching(wanted(run, topic, 0), session_id=first.session_id, session_epoch=1))
    run.ask(fetching(session_id=first.session_id, session_epoch=2))


@case(FetchRequest, "wrong", "13+")
def a_session_over_a_topic_made_anew(run: Run) -> None:
    from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
    from tests.differential.cases.topics import create_again

    topic = filled(run)
    first = run.ask(fetching(wanted(run, topic, 0), session_epoch=0))
    run.do(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=30000))
    create_again(run, topic)
    run.ask(fetching(session_id=first.session_id, session_epoch=1))


@case(FetchRequest, "normal", "0-3")
def batches_as_message_sets(run: Run) -> None:
    topic = run.topic()
    for records in (
        batch(b"a", None, b"c"),
        Batch(records=[Rec(key=None, headers=[(b"h", b"x")]), Rec(value=b"")]).encode(),
        batch(b"d", b"e", codec=1),
        batch(b"f", codec=2),
        batch(b"g", b"h", codec=3),
    ):
        run.produce(topic, records)
    for offset in range(10):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "normal", "0-3")
def stamped_batches_as_message_sets(run: Run) -> None:
    topic = run.topic(message_timestamp_type="LogAppendTime")
    run.produce(topic, batch(b"a", b"b"))
    run.produce(topic, batch(b"a", b"b"))
    run.ask(fetching(wanted(run, topic, 0)))


@case(FetchRequest, "edge", "0-3")
def message_sets_under_small_limits(run: Run) -> None:
    topic = run.topic()
    for codec in (0, 0, 1, 0):
        run.produce(topic, batch(b"a" * 100, b"b" * 100, codec=codec))
    for partition_bytes in (0, 1, 12, 100, 300, 310, 500, 600, 700, 900):
        for offset in (0, 1, 4):
            run.ask(fetching(wanted(run, topic, offset, max_bytes=partition_bytes), max_bytes=1 << 20))


@case(FetchRequest, "edge", "0-3")
def small_records_that_grow(run: Run) -> None:
    topic = run.topic()
    for _ in range(6):
        run.produce(topic, batch(*[b"x"] * 10))
    for offset in (0, 5, 25, 55, 59):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "edge", "0-3")
def zstd_behind_others(run: Run) -> None:
    topic = run.topic()
    run.produce(topic, batch(b"a", b"b"))
    run.produce(topic, batch(b"a" * 50, codec=4))
    for offset in (0, 1, 2):
        run.ask(fetching(wanted(run, topic, offset)))


@case(FetchRequest, "wrong", "0-4")
def a_topic_that_forbids_conversion(run: Run) -> None:
    topic = filled(run, message_downconversion_enable="false")
    for offset in (0, 6, 9):
        run.ask(fetching(wanted(run, topic, offset)))
