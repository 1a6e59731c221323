"""The five APIs of the share coordinator, and what it stores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from coordinator.runtime.partitioner import partition_for
from protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from protocol.messages.write_share_group_state import StateBatch, WriteShareGroupStateRequest
from protocol.primitives import ZERO_UUID
from protocol.share_states import share_key
from tests.differential.internal_topics import note_share_records
from tests.differential.newer.offsets import NOBODYS_ID
from tests.differential.play import Run, newer_case

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
Batches = Sequence[tuple[int, int, int, int]]


class Keeper:
    """One share partition, of which nobody else knows."""

    def __init__(self, run: Run, topic_id: bytes | None = None, partition: int = 0, short: str = "g") -> None:
        if topic_id is None:
            run.topic("t")
            topic_id = run.last_topic_id
        self.run = run
        self.group = run.name(short)
        self.topic_id = topic_id
        self.partition = partition
        key = share_key(self.group, topic_id, partition)

        def is_there() -> bool:
            answer = run.do(FindCoordinatorRequest(coordinator_keys=[key], key_type=2), 6)
            return bool(answer.coordinators[0].error_code == 0)

        run.until("there is a share coordinator", is_there)

        def is_loaded() -> bool:
            (row,) = run.do(self.reading(), 0).results[0].partitions
            return row.error_code not in (14, 15, 16)

        if topic_id not in (ZERO_UUID, NOBODYS_ID):
            run.until("it is loaded", is_loaded)

    def _ask(self, request: Any) -> Any:
        api = type(request)
        return self.run.ask(request, self.run.version if self.run.case.api is api else api.max_version)

    def initialize(self, state_epoch: int = 0, start_offset: int = -1) -> Any:
        row = initialize_share_group_state.PartitionData(
            partition=self.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initialize_share_group_state.TopicData(topic_id=self.topic_id, partitions=[row])
        return self._ask(InitializeShareGroupStateRequest(group_id=self.group, topics=[topic]))

    def reading(self, leader_epoch: int = -1) -> ReadShareGroupStateRequest:
        row = read_share_group_state.PartitionData(partition=self.partition, leader_epoch=leader_epoch)
        topic = read_share_group_state.TopicData(topic_id=self.topic_id, partitions=[row])
        return ReadShareGroupStateRequest(group_id=self.group, topics=[topic])

    def read(self, leader_epoch: int = 0) -> Any:
        return self._ask(self.reading(leader_epoch))

    def summarize(self, leader_epoch: int = 0) -> Any:
        row = read_share_group_state_summary.PartitionData(partition=self.partition, leader_epoch=leader_epoch)
        topic = read_share_group_state_summary.TopicData(topic_id=self.topic_id, partitions=[row])
        return self._ask(ReadShareGroupStateSummaryRequest(group_id=self.group, topics=[topic]))

    def write(
        self,
        batches: Batches = (),
        *,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = -1,
        delivery_complete_count: int = -1,
    ) -> Any:
        row = write_share_group_state.PartitionData(
            partition=self.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        topic = write_share_group_state.TopicData(topic_id=self.topic_id, partitions=[row])
        return self._ask(WriteShareGroupStateRequest(group_id=self.group, topics=[topic]))

    def delete(self) -> Any:
        topic = delete_share_group_state.TopicData(
            topic_id=self.topic_id, partitions=[delete_share_group_state.PartitionData(partition=self.partition)]
        )
        return self._ask(DeleteShareGroupStateRequest(group_id=self.group, topics=[topic]))

    def note_records(self) -> None:
        note_share_records(self.run, self.group, partition_for(share_key(self.group, self.topic_id, self.partition), 5))


@newer_case(InitializeShareGroupStateRequest)
def initialized_and_again(run: Run) -> None:
    keeper = Keeper(run)
    keeper.initialize()
    keeper.initialize()
    keeper.read(-1)
    keeper.initialize(2, 10)
    keeper.initialize(1, 20)
    keeper.initialize(2, 30)
    keeper.read()
    keeper.initialize(-1, 30)
    keeper.initialize(3, -2)
    keeper.read()
    keeper.note_records()


@newer_case(ReadShareGroupStateRequest)
def read_by_leaders(run: Run) -> None:
    keeper = Keeper(run)
    keeper.read()
    keeper.initialize(0, 5)
    for epoch in (3, 2, 3, -1, 4, -2):
        keeper.read(epoch)
    keeper.note_records()


@newer_case(ReadShareGroupStateSummaryRequest)
def summarized(run: Run) -> None:
    keeper = Keeper(run)
    keeper.summarize()
    keeper.initialize(1, 5)
    keeper.read(3)
    keeper.summarize()
    keeper.summarize(2)
    keeper.summarize(5)
    keeper.write([(5, 8, ACKNOWLEDGED, 1)], state_epoch=1, leader_epoch=5, delivery_complete_count=4)
    keeper.summarize()
    keeper.write([(9, 9, AVAILABLE, 1)], state_epoch=1, leader_epoch=5, start_offset=9, delivery_complete_count=0)
    keeper.summarize(-1)


@newer_case(WriteShareGroupStateRequest)
def written_by_leaders(run: Run) -> None:
    keeper = Keeper(run)
    keeper.write([(0, 9, ACKNOWLEDGED, 1)])
    keeper.initialize(1, 0)
    keeper.write([(0, 9, ACKNOWLEDGED, 1)], state_epoch=1, delivery_complete_count=10)
    keeper.write([(0, 9, ACKNOWLEDGED, 1)], state_epoch=0)
    keeper.write([(10, 19, AVAILABLE, 1)], state_epoch=2)
    keeper.write([(10, 19, AVAILABLE, 1)], state_epoch=1, leader_epoch=4, start_offset=10, delivery_complete_count=0)
    keeper.write([(10, 19, AVAILABLE, 1)], state_epoch=1, leader_epoch=3)
    keeper.write([(10, 19, AVAILABLE, 1)], state_epoch=1, leader_epoch=-1)
    keeper.read(4)
    keeper.write([], state_epoch=1, leader_epoch=4, start_offset=20)
    keeper.read(4)
    keeper.write([], state_epoch=1, leader_epoch=4)
    keeper.write([(30, 39, AVAILABLE, 1)], state_epoch=1, leader_epoch=4, start_offset=15)
    keeper.read(4)
    keeper.note_records()


@newer_case(WriteShareGroupStateRequest, "1")
def batches_are_merged(run: Run) -> None:
    keeper = Keeper(run)
    keeper.initialize(0, 0)
    for batches in (
        [(0, 9, AVAILABLE, 1), (10, 19, AVAILABLE, 1)],
        [(5, 14, ACKNOWLEDGED, 2)],
        [(0, 30, AVAILABLE, 1)],
        [(20, 25, ARCHIVED, 5), (27, 27, ACKNOWLEDGED, 2), (26, 26, ARCHIVED, 5)],
        [(0, 3, AVAILABLE, 3), (2, 6, AVAILABLE, 2), (6, 8, ACKNOWLEDGED, 1)],
        [(100, 100, AVAILABLE, 1)],
    ):
        keeper.write(batches, start_offset=-1)
        keeper.read()
    keeper.write([(8, 8, AVAILABLE, 9)], start_offset=7)
    keeper.read()
    keeper.note_records()


@newer_case(WriteShareGroupStateRequest, "1")
def batches_that_make_no_sense(run: Run) -> None:
    keeper = Keeper(run)
    keeper.initialize(0, 0)
    for batches in (
        [(9, 0, AVAILABLE, 1)],
        [(-5, 0, AVAILABLE, 1)],
        [(0, 9, 7, 1)],
        [(0, 9, ACQUIRED, 1)],
        [(0, 9, AVAILABLE, -1)],
        [(0, 9, AVAILABLE, 0)],
    ):
        keeper.write(batches)
    keeper.read()
    keeper.write([], start_offset=-7)
    keeper.write([], start_offset=3, delivery_complete_count=-9)
    keeper.read()


@newer_case(DeleteShareGroupStateRequest)
def deleted(run: Run) -> None:
    keeper = Keeper(run)
    keeper.delete()
    keeper.initialize(0, 3)
    keeper.write([(3, 4, ACKNOWLEDGED, 1)])
    keeper.delete()
    keeper.read()
    keeper.summarize()
    keeper.write([(3, 4, ACKNOWLEDGED, 1)])
    keeper.delete()
    keeper.initialize(0, 7)
    keeper.read()
    keeper.note_records()


@newer_case(InitializeShareGroupStateRequest)
def share_partitions_that_are_none(run: Run) -> None:
    run.topic("t")
    known = run.last_topic_id
    Keeper(run, known)
    for topic_id, partition in ((NOBODYS_ID, 0), (ZERO_UUID, 0), (known, 7), (known, -1)):
        keeper = Keeper(run, known)
        keeper.topic_id, keeper.partition = topic_id, partition
        keeper.initialize()
        keeper.read()
        keeper.summarize()
        keeper.write([(0, 0, ACKNOWLEDGED, 1)])
        keeper.delete()
    keeper = Keeper(run, known)
    for group in ("", "  "):
        keeper.group = group
        keeper.initialize()
        keeper.read()
        keeper.summarize()
        keeper.write([(0, 0, ACKNOWLEDGED, 1)])
        keeper.delete()


@newer_case(ReadShareGroupStateRequest)
def requests_of_nothing(run: Run) -> None:
    Keeper(run)
    group = run.name("g")
    run.ask(InitializeShareGroupStateRequest(group_id=group, topics=[]), 0)
    run.ask(ReadShareGroupStateRequest(group_id=group, topics=[]), 0)
    run.ask(ReadShareGroupStateSummaryRequest(group_id=group, topics=[]), 1)
    run.ask(WriteShareGroupStateRequest(group_id=group, topics=[]), 1)
    run.ask(DeleteShareGroupStateRequest(group_id=group, topics=[]), 0)


@newer_case(WriteShareGroupStateRequest, "1")
def snapshots_and_updates(run: Run) -> None:
    keeper = Keeper(run)
    keeper.initialize(0, 0)
    for number in itertools.chain(range(4), range(10, 14)):
        keeper.write([(number, number, ACKNOWLEDGED, 1)], start_offset=-1 if number % 2 else number, leader_epoch=1)
    keeper.read(1)
    keeper.read(2)
    keeper.note_records()
