"""Who may do what with records: Produce, Fetch and what else reads or cuts logs."""

from __future__ import annotations

from typing import Any

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.fetch import FetchRequest, ReplicaState
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from security.access import Operation, ResourceType
from tests.differential.batches import batch
from tests.differential.cases.fetch import fetching, wanted
from tests.differential.cases.init_producer_id import new_producer
from tests.differential.play import SECURED, Run, case
from tests.differential.secured import Grant, Scene, check, denied_on_topic, on_cluster, on_topic, on_transaction

LATEST = -1
TRANSACTIONAL = 0x10
FOLLOWER = 5
UNKNOWN_ID = bytes(range(16))

# -- Produce


def producing(
    records: bytes | None, *topics: str, acks: int = 1, transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
            for topic in topics
        ],
    )


_WRITERS = {
    "may write to one": on_topic(Operation.WRITE),
    "may read one": on_topic(Operation.READ),
    "may describe one": on_topic(Operation.DESCRIBE),
    "may write to the missing one": on_topic(Operation.WRITE, name="missing"),
    "may write to both": [*on_topic(Operation.WRITE), *on_topic(Operation.WRITE, name="missing")],
    "may write idempotently": on_cluster(Operation.IDEMPOTENT_WRITE),
}

check(
    ProduceRequest,
    lambda run, _: producing(batch(b"a"), run.name("t"), run.name("missing")),
    _WRITERS,
    prepare=lambda run: run.topic(),
)


def _idempotent(run: Run, _: Any) -> ProduceRequest:
    producer_id, epoch = new_producer(run)
    records = batch(b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    return producing(records, run.name("t"))


check(ProduceRequest, _idempotent, _WRITERS, "3+", about="who may write idempotently", prepare=lambda run: run.topic())

_TRANSACTIONAL_WRITERS = {
    "may write in the transaction": on_transaction(Operation.WRITE),
    "may write to the topic": on_topic(Operation.WRITE),
    "may write to both": [*on_transaction(Operation.WRITE), *on_topic(Operation.WRITE)],
    "may describe the transaction and write to the topic": [
        *on_transaction(Operation.DESCRIBE),
        *on_topic(Operation.WRITE),
    ],
}


def _in_a_transaction(run: Run, _: Any) -> ProduceRequest:
    producer_id, epoch = new_producer(run)
    records = batch(b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL)
    return producing(records, run.name("t"), run.name("missing"), transactional_id=run.name("tx"))


check(
    ProduceRequest,
    _in_a_transaction,
    _TRANSACTIONAL_WRITERS,
    "3+",
    about="who may write in a transaction",
    prepare=lambda run: run.topic(),
)
check(
    ProduceRequest,
    lambda run, _: producing(batch(b"a"), run.name("t"), transactional_id=run.name("tx")),
    _TRANSACTIONAL_WRITERS,
    "3+",
    about="who may name a transaction",
    prepare=lambda run: run.topic(),
)
check(
    ProduceRequest,
    lambda run, _: producing(batch(b"a"), "__consumer_offsets", run.name("t")),
    {
        "may write to it": [Grant(Operation.WRITE, ResourceType.TOPIC, "__consumer_offsets", is_whole=True)],
        "may write to the other": on_topic(Operation.WRITE),
    },
    "3+",
    about="who may write to an internal topic",
    prepare=lambda run: run.topic(),
)
check(
    ProduceRequest,
    lambda run, _: producing(batch(b"a"), run.name("t"), acks=7),
    {"may write to it": on_topic(Operation.WRITE)},
    "3+",
    about="who may wait for seven replicas",
    prepare=lambda run: run.topic(),
)
check(
    ProduceRequest,
    lambda run, _: producing(b"rubbish" * 20, run.name("t")),
    {"may write to it": on_topic(Operation.WRITE)},
    "3+",
    about="who may send rubbish",
    prepare=lambda run: run.topic(),
)


@case(ProduceRequest, "edge", stage=SECURED)
def without_acknowledgement(run: Run) -> None:
    """Of a refused one the client learns by the end of the connection; one that is allowed leaves it open."""
    topic, scene = run.topic(), Scene(run)
    scene.ask(producing(batch(b"a"), topic, acks=0))
    scene.grant(on_topic(Operation.WRITE))
    wire = scene.wire_of("alice")
    wire.send(producing(batch(b"b"), topic, acks=0), run.version)
    scene.ask(producing(batch(b"c"), topic))
    scene.revoke()
    scene.ask(producing(batch(b"d"), topic, acks=0))
    scene.close()


@case(ProduceRequest, "edge", "3+", stage=SECURED)
def the_same_after_an_acl_is_gone(run: Run) -> None:
    topic, scene = run.topic(), Scene(run)
    scene.grant(on_topic(Operation.WRITE))
    for value in b"abcd":
        scene.ask(producing(batch(bytes([value])), topic))
    scene.revoke()
    scene.ask(producing(batch(b"e"), topic))
    scene.grant(on_topic(Operation.WRITE))
    scene.ask(producing(batch(b"f"), topic))
    scene.close()


# -- Fetch

_READERS = {
    "may read one": on_topic(Operation.READ),
    "may describe one": on_topic(Operation.DESCRIBE),
    "may write to one": on_topic(Operation.WRITE),
    "may read the missing one": on_topic(Operation.READ, name="missing"),
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
}


def _filled(run: Run) -> bytes:
    run.produce(run.topic(), batch(b"a"))
    return run.last_topic_id


def _reading(run: Run, topic_id: bytes) -> FetchRequest:
    run.names.topic_ids[UNKNOWN_ID] = "<unknown id>"
    topics = [
        wanted(run, run.name("t"), 0, topic_id=topic_id),
        wanted(run, run.name("missing"), 0, topic_id=UNKNOWN_ID),
    ]
    return fetching(*topics)


def _following(run: Run, topic_id: bytes) -> FetchRequest:
    request = _reading(run, topic_id)
    request.replica_id = FOLLOWER if run.version < 15 else -1
    request.replica_state = ReplicaState(replica_id=FOLLOWER, replica_epoch=-1)
    return request


check(FetchRequest, _reading, _READERS, "4+", prepare=_filled)
check(FetchRequest, _following, _READERS, "4+", about="who may follow", prepare=_filled)


def _reading_old(run: Run, _: Any) -> FetchRequest:
    return fetching(*(wanted(run, run.name(short), 0) for short in ("t", "missing")))


check(FetchRequest, _reading_old, _READERS, "0-3", about="who may read as an old client", prepare=_filled)


@case(FetchRequest, "edge", "7+", stage=SECURED)
def a_session_whose_acls_change(run: Run) -> None:
    scene, ids = Scene(run), []
    for short in ("t", "hidden"):
        run.produce(run.topic(short), batch(b"a"))
        ids.append(run.last_topic_id)
    names = [run.name("t"), run.name("hidden")]
    scene.grant(on_topic(Operation.READ))
    topics = [wanted(run, name, 0, topic_id=topic_id) for name, topic_id in zip(names, ids, strict=True)]
    first = scene.ask(fetching(*topics, session_epoch=0))
    session: dict[str, Any] = {"session_id": first.session_id}
    scene.ask(fetching(session_epoch=1, **session))
    scene.grant(on_topic(Operation.READ, name="hidden"))
    scene.ask(fetching(session_epoch=2, **session))
    scene.ask(fetching(*[wanted(run, names[1], 1, topic_id=ids[1])], session_epoch=3, **session))
    scene.revoke()
    scene.ask(fetching(session_epoch=4, **session))
    scene.grant(on_topic(Operation.READ))
    scene.ask(fetching(session_epoch=5, **session))
    scene.close()


@case(FetchRequest, "edge", "7+", stage=SECURED)
def a_session_of_another_user(run: Run) -> None:
    """Whoever knows its number may go on with it, with its own rights."""
    run.produce(run.topic(), batch(b"a"))
    scene = Scene(run)
    scene.grant(on_topic(Operation.READ))
    first = scene.ask(fetching(wanted(run, run.name("t"), 0), session_epoch=0))
    scene.ask(fetching(session_epoch=1, session_id=first.session_id), None)
    scene.close()


# -- what else reads or cuts logs


def _offsets(run: Run, _: Any) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)]
    topics = [ListOffsetsTopic(name=run.name(short), partitions=partitions) for short in ("t", "missing")]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


check(
    ListOffsetsRequest,
    _offsets,
    {
        "may describe one": on_topic(Operation.DESCRIBE),
        "may read one": on_topic(Operation.READ),
        "may alter settings": on_topic(Operation.ALTER_CONFIGS),
        "may describe the missing one": on_topic(Operation.DESCRIBE, name="missing"),
        "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
        "may describe one, and may not": [*on_topic(Operation.DESCRIBE), *denied_on_topic(Operation.DESCRIBE)],
        "may read one, and may not describe it": [*on_topic(Operation.READ), *denied_on_topic(Operation.DESCRIBE)],
        "may describe one, and may not read it": [*on_topic(Operation.DESCRIBE), *denied_on_topic(Operation.READ)],
        "may describe every one but one": [
            Grant(Operation.DESCRIBE, ResourceType.TOPIC, "*", is_whole=True),
            *denied_on_topic(Operation.DESCRIBE),
        ],
    },
    prepare=lambda run: run.topic(),
)


def _epochs(run: Run, _: Any) -> OffsetForLeaderEpochRequest:
    partitions = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[OffsetForLeaderTopic(topic=run.name(short), partitions=partitions) for short in ("t", "missing")],
    )


check(
    OffsetForLeaderEpochRequest,
    _epochs,
    {
        "may describe one": on_topic(Operation.DESCRIBE),
        "may read one": on_topic(Operation.READ),
        "may create one": on_topic(Operation.CREATE),
        "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
    },
    prepare=_filled,
)


def _cutting(run: Run, _: Any) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=run.name(short), partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            for short in ("t", "missing")
        ],
        timeout_ms=30000,
    )


check(
    DeleteRecordsRequest,
    _cutting,
    {
        "may delete one": on_topic(Operation.DELETE),
        "may write to one": on_topic(Operation.WRITE),
        "may alter one": on_topic(Operation.ALTER),
        "may delete the missing one": on_topic(Operation.DELETE, name="missing"),
    },
    prepare=_filled,
)


def _producers(run: Run, _: Any) -> DescribeProducersRequest:
    names = [run.name("t"), run.name("missing"), "not/legal"]
    return DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0]) for name in names])


check(
    DescribeProducersRequest,
    _producers,
    {
        "may read one": on_topic(Operation.READ),
        "may describe one": on_topic(Operation.DESCRIBE),
        "may read the missing one": on_topic(Operation.READ, name="missing"),
    },
    prepare=_filled,
)
