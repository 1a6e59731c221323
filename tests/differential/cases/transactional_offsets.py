"""TxnOffsetCommit, and the offsets of open transactions as other requests see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.differential.cases.groups import joined, stable
from tests.differential.cases.offsets import committed, deleting, fetching
from tests.differential.play import VERIFIED, Run, case

COORDINATOR_IS_STARTING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@dataclass
class OffsetsProducer:
    """A transactional producer that stores the offsets of one group."""

    run: Run
    group: str
    topic: str
    transactional_id: str = ""
    producer_id: int = -1
    epoch: int = -1

    def __post_init__(self) -> None:
        self.transactional_id = self.transactional_id or self.run.name("tx")
        finding = FindCoordinatorRequest(coordinator_keys=[self.transactional_id], key_type=1)
        self.run.until(
            "there is a transaction coordinator", lambda: bool(self.run.do(finding).coordinators[0].error_code == 0)
        )
        self.start()

    def start(self) -> None:
        """Get a producer id, or the next epoch of it."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60000)
        answer = self.retried(lambda: self.run.do(request))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.run.names.numbered("producer", self.producer_id)

    def retried(self, ask: Callable[[], Any]) -> Any:
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.append(ask())
            return answers[-1].error_code not in COORDINATOR_IS_STARTING

        self.run.until("the transaction coordinator answers", is_answered)
        assert answers[-1].error_code == 0, answers[-1]
        return answers[-1]

    def add_group(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=self.group,
        )
        self.retried(lambda: self.run.do(request))

    def committing(self, *offsets: int, metadata: str | None = "", partition: int = 0, **fields: Any) -> Any:
        rows = [
            TxnOffsetCommitRequestPartition(
                partition_index=partition + index,
                committed_offset=offset,
                committed_leader_epoch=0,
                committed_metadata=metadata,
            )
            for index, offset in enumerate(offsets)
        ]
        values: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": self.group,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [TxnOffsetCommitRequestTopic(name=self.topic, partitions=rows)],
        }
        return TxnOffsetCommitRequest(**{**values, **fields})

    def commit(self, *offsets: int, **fields: Any) -> None:
        answer = self.run.do(self.committing(*offsets, **fields))
        assert all(row.error_code == 0 for topic in answer.topics for row in topic.partitions), answer

    def end(self, *, committed: bool) -> None:
        """Return when the group's partition has the marker."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        self.retried(lambda: self.run.do(request))
        asking = fetching_stable(self.group, {self.topic: [0, 1]})
        self.run.until(
            "the offsets are stable",
            lambda: all(row.error_code == 0 for row in self.run.do(asking).groups[0].topics[0].partitions),
        )

    def begin(self, *offsets: int) -> None:
        """A transaction that has stored `offsets`."""
        self.add_group()
        self.commit(*offsets)


def fetching_stable(group: str, topics: dict[str, list[int]] | None) -> OffsetFetchRequest:
    wanted = None
    if topics is not None:
        wanted = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes)) for name, indexes in topics.items()
        ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)], require_stable=True)


def producer_of(run: Run, partitions: int = 2) -> OffsetsProducer:
    return OffsetsProducer(run, run.group(), run.topic("t", partitions))


def note_offsets(producer: OffsetsProducer, *partitions: int) -> None:
    """What readers of stable and of all offsets get."""
    request = fetching_stable(producer.group, {producer.topic: list(partitions or (0, 1))})
    producer.run.ask(request, 9)
    request.require_stable = False
    producer.run.ask(request, 9)


# -- normal


@case(TxnOffsetCommitRequest, "normal", stage=VERIFIED)
def in_a_transaction_that_commits(run: Run) -> None:
    producer = producer_of(run)
    committed(run, producer.group, producer.topic, 3)
    producer.add_group()
    run.ask(producer.committing(5, 7, metadata="mine"))
    note_offsets(producer)
    run.ask(producer.committing(6))
    producer.end(committed=True)
    note_offsets(producer)


@case(TxnOffsetCommitRequest, "normal", stage=VERIFIED)
def in_a_transaction_that_aborts(run: Run) -> None:
    producer = producer_of(run)
    committed(run, producer.group, producer.topic, 3)
    producer.add_group()
    run.ask(producer.committing(5, 7))
    producer.end(committed=False)
    note_offsets(producer)
    producer.add_group()
    run.ask(producer.committing(8))
    producer.end(committed=True)
    note_offsets(producer)


@case(TxnOffsetCommitRequest, "normal", "3+", stage=VERIFIED)
def by_a_member_(run: Run) -> None:
    producer = producer_of(run)
    member = stable(run, producer.group)
    producer.add_group()
    run.ask(producer.committing(5, member_id=member.member_id, generation_id=member.generation_id))
    producer.end(committed=True)
    note_offsets(producer)


@case(TxnOffsetCommitRequest, "normal", "3+", stage=VERIFIED)
def by_an_instance_(run: Run) -> None:
    producer = producer_of(run)
    member = stable(run, producer.group, group_instance_id="one")
    producer.add_group()
    fields = {"member_id": member.member_id, "generation_id": member.generation_id}
    run.ask(producer.committing(5, group_instance_id="one", **fields))
    run.ask(producer.committing(6, **fields))


# -- edge


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def without_a_member_of_a_group_that_has_some(run: Run) -> None:
    producer = producer_of(run)
    stable(run, producer.group)
    producer.add_group()
    run.ask(producer.committing(5))


@case(TxnOffsetCommitRequest, "edge", "3+", stage=VERIFIED)
def while_the_group_waits_for_its_assignment(run: Run) -> None:
    producer = producer_of(run)
    member = joined(run, producer.group)
    producer.add_group()
    run.ask(producer.committing(5, member_id=member.member_id, generation_id=member.generation_id))


@case(TxnOffsetCommitRequest, "edge", "3+", stage=VERIFIED)
def a_member_of_an_empty_group_without_a_generation(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(5, member_id="nobody"))
    run.ask(producer.committing(5, group_instance_id="nobody"))


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def null_and_long_metadata_(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    for metadata in (None, "x" * 4096, "x" * 4097):
        run.ask(producer.committing(5, 6, metadata=metadata))


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def negative_offsets_(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    for offset in (-1, -3, 0x7FFFFFFFFFFFFFFF):
        run.ask(producer.committing(offset))


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def a_partition_twice(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    request = producer.committing(5)
    request.topics[0].partitions += producer.committing(6).topics[0].partitions
    run.ask(request)
    request = producer.committing(7)
    request.topics += producer.committing(8).topics
    run.ask(request)
    producer.end(committed=True)
    note_offsets(producer, 0)


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def no_topics_and_no_partitions(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(topics=[]))
    run.ask(producer.committing())


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def some_partitions_that_are_not(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    request = producer.committing(5, 6, 7)
    missing = producer.committing(1).topics[0]
    missing.name = run.name("missing")
    request.topics = [*request.topics, missing]
    run.ask(request)


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def an_offset_commit_before_the_marker(run: Run) -> None:
    """The later one in the log wins, not the later one to be visible."""
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(5, 6))
    committed(run, producer.group, producer.topic, 9)
    note_offsets(producer)
    producer.end(committed=True)
    note_offsets(producer)


@case(TxnOffsetCommitRequest, "edge", stage=VERIFIED)
def two_transactions_of_a_group(run: Run) -> None:
    first = producer_of(run)
    second = OffsetsProducer(run, first.group, first.topic, run.name("tx2"))
    first.add_group()
    second.add_group()
    run.ask(first.committing(5, 6))
    run.ask(second.committing(7))
    request = EndTxnRequest(
        transactional_id=second.transactional_id, producer_id=second.producer_id, producer_epoch=second.epoch,
        committed=True,
    )  # fmt: skip
    second.retried(lambda: run.do(request))
    run.until("the second transaction is complete", lambda: second_offset(first) == 7)
    first.end(committed=True)
    note_offsets(first)


def second_offset(producer: OffsetsProducer) -> int:
    request = fetching_stable(producer.group, {producer.topic: [0]})
    request.require_stable = False
    return int(producer.run.do(request).groups[0].topics[0].partitions[0].committed_offset)


# -- wrong


@case(TxnOffsetCommitRequest, "wrong", stage=VERIFIED)
def missing_topic_and_partition(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(5, partition=9))
    request = producer.committing(5)
    request.topics[0].name = run.name("missing")
    run.ask(request)


@case(TxnOffsetCommitRequest, "wrong", stage=VERIFIED)
def without_the_group_in_the_transaction(run: Run) -> None:
    producer = producer_of(run)
    run.ask(producer.committing(5))
    producer.begin(6)
    producer.end(committed=True)
    run.ask(producer.committing(7))
    note_offsets(producer)


@case(TxnOffsetCommitRequest, "wrong", stage=VERIFIED)
def unknown_producers(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(5, transactional_id=run.name("unknown")))
    run.ask(producer.committing(5, producer_id=0x7FFFFFFFFFFF))
    run.ask(producer.committing(5, producer_id=-1, producer_epoch=-1))
    run.ask(producer.committing(5, transactional_id=""))


@case(TxnOffsetCommitRequest, "wrong", stage=VERIFIED)
def epochs_that_are_not_the_producers(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(5, producer_epoch=producer.epoch + 5))
    producer.commit(5)
    old_epoch = producer.epoch
    producer.start()
    run.ask(producer.committing(6, producer_epoch=old_epoch))
    producer.add_group()
    run.ask(producer.committing(6, producer_epoch=old_epoch))
    run.ask(producer.committing(7))
    run.ask(producer.committing(8, producer_epoch=old_epoch))


@case(TxnOffsetCommitRequest, "wrong", stage=VERIFIED)
def an_empty_group(run: Run) -> None:
    producer = producer_of(run)
    run.ask(producer.committing(5, group_id=""))


@case(TxnOffsetCommitRequest, "wrong", "3+", stage=VERIFIED)
def strangers_to_the_group(run: Run) -> None:
    producer = producer_of(run)
    member = stable(run, producer.group, group_instance_id="one")
    generation = member.generation_id
    producer.add_group()
    for fields in (
        {"member_id": "nobody"},
        {"member_id": "nobody", "generation_id": generation},
        {"generation_id": generation},
        {"member_id": member.member_id, "generation_id": generation + 1},
        {"member_id": member.member_id},
        {"member_id": member.member_id, "generation_id": generation, "group_instance_id": "two"},
        {"member_id": "nobody", "generation_id": generation, "group_instance_id": "one"},
        {"group_instance_id": "one"},
    ):
        run.ask(producer.committing(5, **fields))


@case(TxnOffsetCommitRequest, "wrong", "3+", stage=VERIFIED)
def a_generation_of_a_group_that_is_not(run: Run) -> None:
    producer = producer_of(run)
    producer.add_group()
    run.ask(producer.committing(5, generation_id=0))
    run.ask(producer.committing(5, generation_id=1, member_id="nobody"))
    run.ask(producer.committing(5, generation_id=-1, member_id="nobody"))


# -- other requests and open transactions


@case(OffsetFetchRequest, "normal", "1+", stage=VERIFIED)
def of_an_open_transaction(run: Run) -> None:
    producer = producer_of(run)
    committed(run, producer.group, producer.topic, 3)
    producer.begin(5, 6)
    stable_ones = (False, True) if run.version >= 7 else (False,)
    for require_stable in stable_ones:
        run.ask(fetching(run, producer.group, {producer.topic: [0, 1]}, require_stable=require_stable))
        if run.version >= 2:
            run.ask(fetching(run, producer.group, None, require_stable=require_stable))


@case(OffsetDeleteRequest, "edge", stage=VERIFIED)
def of_an_open_transaction_(run: Run) -> None:
    producer = producer_of(run)
    committed(run, producer.group, producer.topic, 3)
    producer.begin(5, 6)
    run.ask(deleting(producer.group, producer.topic, 0))
    note_offsets(producer)
    producer.end(committed=True)
    note_offsets(producer)


@case(DeleteGroupsRequest, "edge", stage=VERIFIED)
def with_an_open_transaction(run: Run) -> None:
    producer = producer_of(run)
    committed(run, producer.group, producer.topic, 3)
    producer.begin(5, 6)
    run.ask(DeleteGroupsRequest(groups_names=[producer.group]))
    note_offsets(producer)
    producer.end(committed=True)
    note_offsets(producer)


@case(TxnOffsetCommitRequest, "wrong", stage=VERIFIED)
def larger_than_a_batch_may_be_(run: Run) -> None:
    """Every record repeats the name of the group."""
    producer = OffsetsProducer(run, run.group("g" * 32000), run.topic("t", 40))
    producer.add_group()
    answer = run.do(producer.committing(*range(40)), run.version)
    (code,) = {row.error_code for row in answer.topics[0].partitions}
    run.note({"error_code": code})
