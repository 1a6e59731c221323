"""Who may do what with producers and their transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from security.access import Operation
from tests.differential.cases.transactions_coordinator import Coordinated
from tests.differential.play import Run
from tests.differential.secured import check, on_cluster, on_group, on_topic, on_transaction

_WRITE_BOTH = [*on_transaction(Operation.WRITE), *on_topic(Operation.WRITE)]


def _producer(run: Run) -> Coordinated:
    """Of a transaction that has begun, in a topic of two."""
    producer = Coordinated(run)
    producer.init()
    producer.add(run.topic())
    run.topic("hidden")
    return producer


def _idle_producer(run: Run) -> Coordinated:
    producer = Coordinated(run)
    producer.init()
    run.topic()
    run.topic("hidden")
    run.group()
    return producer


# -- InitProducerId

check(
    InitProducerIdRequest,
    lambda run, producer: producer.initializing(),
    {
        "may write in the transaction": on_transaction(Operation.WRITE),
        "may describe the transaction": on_transaction(Operation.DESCRIBE),
        "may write idempotently": on_cluster(Operation.IDEMPOTENT_WRITE),
        "may write to a topic": on_topic(Operation.WRITE),
    },
    prepare=Coordinated,
)
check(
    InitProducerIdRequest,
    lambda run, _: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000),
    {
        "may write idempotently": on_cluster(Operation.IDEMPOTENT_WRITE),
        "may write to a topic": on_topic(Operation.WRITE),
        "may read a topic": on_topic(Operation.READ),
        "may write in a transaction": on_transaction(Operation.WRITE),
        "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
    },
    about="who may write idempotently",
)
check(
    InitProducerIdRequest,
    lambda run, _: InitProducerIdRequest(
        transactional_id="", transaction_timeout_ms=60000, producer_id=7, producer_epoch=-1
    ),
    {"may write idempotently": on_cluster(Operation.IDEMPOTENT_WRITE)},
    about="who may leave the name empty",
)

# -- AddPartitionsToTxn, AddOffsetsToTxn, EndTxn


def _adding(run: Run, producer: Coordinated) -> AddPartitionsToTxnRequest:
    return producer.adding({run.name("t"): [0], run.name("hidden"): [0]})


_PRODUCERS = {
    "may write in the transaction": on_transaction(Operation.WRITE),
    "may write to one topic": on_topic(Operation.WRITE),
    "may write in the transaction to one topic": _WRITE_BOTH,
    "may read one topic": [*on_transaction(Operation.WRITE), *on_topic(Operation.READ)],
    "may write in the transaction to both": [*_WRITE_BOTH, *on_topic(Operation.WRITE, name="hidden")],
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
}

check(AddPartitionsToTxnRequest, _adding, _PRODUCERS, prepare=_idle_producer)
check(
    AddPartitionsToTxnRequest,
    lambda run, producer: producer.adding({run.name("t"): [0], run.name("missing"): [0], "__consumer_offsets": [0]}),
    _PRODUCERS,
    about="who may add what is missing or internal",
    prepare=_idle_producer,
)
check(
    AddOffsetsToTxnRequest,
    lambda run, producer: producer.adding_offsets(run.name("g")),
    {
        "may write in the transaction": on_transaction(Operation.WRITE),
        "may read the group": on_group(Operation.READ),
        "may do both": [*on_transaction(Operation.WRITE), *on_group(Operation.READ)],
        "may describe the group": [*on_transaction(Operation.WRITE), *on_group(Operation.DESCRIBE)],
    },
    prepare=_idle_producer,
)
check(
    EndTxnRequest,
    lambda run, producer: replace(producer, epoch=producer.epoch + 1).ending(),
    {
        "may write in another": on_transaction(Operation.WRITE, name="other"),
        "may describe it": on_transaction(Operation.DESCRIBE),
        "may write to the topic": on_topic(Operation.WRITE),
        "may write in it": on_transaction(Operation.WRITE),
    },
    prepare=_producer,
)

# -- TxnOffsetCommit


def _committing(run: Run, producer: Coordinated) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id=producer.name, group_id=run.name("g"), producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(name=run.name(short), partitions=[row]) for short in ("t", "hidden", "missing")
        ],
    )  # fmt: skip


check(
    TxnOffsetCommitRequest,
    _committing,
    {
        "may write in the transaction": on_transaction(Operation.WRITE),
        "may read the group": on_group(Operation.READ),
        "may read the topic": on_topic(Operation.READ),
        "may do the first two": [*on_transaction(Operation.WRITE), *on_group(Operation.READ)],
        "may do all": [*on_transaction(Operation.WRITE), *on_group(Operation.READ), *on_topic(Operation.READ)],
        "may write to the topic": [
            *on_transaction(Operation.WRITE),
            *on_group(Operation.READ),
            *on_topic(Operation.WRITE),
        ],
    },
    prepare=_idle_producer,
)

# -- WriteTxnMarkers


def _marking(run: Run, producer: Coordinated) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=run.name(short), partition_indexes=[0]) for short in ("t", "missing")]
    marker = WritableTxnMarker(
        producer_id=producer.producer_id, producer_epoch=producer.epoch, transaction_result=False, topics=topics,
        coordinator_epoch=0,
    )  # fmt: skip
    return WriteTxnMarkersRequest(markers=[marker])


check(
    WriteTxnMarkersRequest,
    _marking,
    {
        "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
        "may alter the cluster": on_cluster(Operation.ALTER),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
        "may write to all": _WRITE_BOTH,
    },
    prepare=_idle_producer,
)

# -- what administrators ask

_DESCRIBERS = {
    "may describe it": on_transaction(Operation.DESCRIBE),
    "may write in it": on_transaction(Operation.WRITE),
    "may describe it and the topic": [*on_transaction(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE)],
    "may write in it and to the topic": _WRITE_BOTH,
    "may describe the topic": on_topic(Operation.DESCRIBE),
    "may describe another": on_transaction(Operation.DESCRIBE, name="other"),
    "may describe the cluster": on_cluster(Operation.DESCRIBE),
}
check(
    DescribeTransactionsRequest,
    lambda run, producer: DescribeTransactionsRequest(transactional_ids=[producer.name, run.name("other")]),
    _DESCRIBERS,
    prepare=_producer,
)


def _own(run: Run) -> Callable[[ListTransactionsResponse], None]:
    def pick(answer: ListTransactionsResponse) -> None:
        rows = answer.transaction_states
        answer.transaction_states = [row for row in rows if row.transactional_id.startswith(run.prefix)]

    return pick


check(
    ListTransactionsRequest,
    lambda run, _: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
    _DESCRIBERS,
    prepare=_producer,
    pick=_own,
)
