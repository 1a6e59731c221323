"""What scenarios cannot say: records of others, transactions in the log, removals larger than a batch."""

from __future__ import annotations

from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.events import RecordSkipped
from coordinator.group.group_removal import TOMBSTONE_BATCH_BYTES
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import group_tombstone, offset_record
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.runtime.contract import AppendRecords, BatchPosition, BatchProducer, CoordinatorRecord, Effect
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from tests.coordinator.driver import START_MS, GroupDriver
from tests.coordinator.requests import commit_request, fetch_group, transactional_commit_request

PLACE = ("orders", 0)


def loaded(*records: tuple[CoordinatorRecord, BatchPosition]) -> tuple[GroupShard, list[Effect]]:
    shard = GroupShard(0, GroupSettings(), WaitingBytes(1))
    for record, place in records:
        shard.replay(record, place, START_MS)
    return shard, shard.on_loaded(START_MS)


def committed(shard: GroupShard, group_id: str = "g") -> tuple[int, int]:
    topic, partition = PLACE
    found = shard.fetch_offsets(fetch_group(group_id, [PLACE]), require_stable=True).topic_partitions[topic][partition]
    if isinstance(found, CommittedOffset):
        return found.offset, ErrorCode.NONE
    return -1, found or ErrorCode.NONE


def test_records_that_are_not_understood_are_skipped_and_told() -> None:
    good = offset_record("g", PLACE, CommittedOffset(5, -1, "", START_MS))
    bad_value = CoordinatorRecord(good.key, b"\x00\x63")
    newer_kind = CoordinatorRecord(b"\x00\x05\x00\x01g", b"")
    shard, effects = loaded(
        (good, BatchPosition(0)),
        (bad_value, BatchPosition(1)),
        (newer_kind, BatchPosition(2)),
        (CoordinatorRecord(b"", None), BatchPosition(3)),
    )
    assert committed(shard) == (5, ErrorCode.NONE)
    assert [effect.offset for effect in effects if isinstance(effect, RecordSkipped)] == [1, 2, 3]


def test_a_group_of_tombstones_only_is_not_there() -> None:
    record = offset_record("g", PLACE, CommittedOffset(5, -1, "", START_MS))
    gone = CoordinatorRecord(record.key, None)
    shard, _ = loaded((record, BatchPosition(0)), (gone, BatchPosition(1)), (group_tombstone("h"), BatchPosition(2)))
    assert shard.group_ids() == []


def test_a_deleted_group_has_no_offsets_when_its_open_transaction_ends() -> None:
    driver = GroupDriver()
    producer = BatchProducer(7, 0)
    request = transactional_commit_request("g", {PLACE: 5})
    driver.do(lambda shard, now_ms: shard.commit_offsets_in_transaction(request, producer, "commit", now_ms))
    assert committed(driver.shard) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    driver.do(lambda shard, now_ms: shard.delete_group("g", "delete", now_ms))
    _, response = driver.responses[-1]
    assert isinstance(response, DeletableGroupResult) and response.error_code == ErrorCode.NONE
    driver.end_transaction(7, committed=True)
    assert driver.shard.group_ids() == []
    assert driver.loaded_again().durable_state() == {}
    assert committed(driver.loaded_again()) == (-1, ErrorCode.NONE)


def test_a_large_removal_is_several_batches_and_one_answer() -> None:
    driver = GroupDriver()
    topic = "t" * 240
    places = [(f"{topic}{number}", 0) for number in range(2_000)]
    request = commit_request("g", dict.fromkeys(places, 1))
    driver.do(lambda shard, now_ms: shard.commit_offsets(request, "commit", now_ms))
    effects = driver.shard.delete_group("g", "delete", driver.now_ms)
    batches = [effect.result.records for effect in effects if isinstance(effect, AppendRecords)]
    assert len(batches) == 2
    assert all(sum(len(record.key) for record in batch) <= TOMBSTONE_BATCH_BYTES for batch in batches)
    driver.responses.clear()
    driver.carry_out(effects)
    assert [waiter for waiter, _ in driver.responses] == ["delete"]
    assert driver.shard.group_ids() == []
    assert driver.loaded_again().durable_state() == {}


def test_a_removal_that_fails_in_part_leaves_the_rest() -> None:
    driver = GroupDriver()
    places = [(f"{'t' * 240}{number}", 0) for number in range(2_000)]
    request = commit_request("g", dict.fromkeys(places, 1))
    driver.do(lambda shard, now_ms: shard.commit_offsets(request, "commit", now_ms))
    first, second = [
        effect
        for effect in driver.shard.delete_group("g", "delete", driver.now_ms)
        if isinstance(effect, AppendRecords)
    ]
    driver.carry_out([first])
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.carry_out([second])
    waiter, response = driver.responses[-1]
    assert waiter == "delete" and isinstance(response, DeletableGroupResult)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.shard.describe("g").group_state == "Empty"
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()
    assert 0 < driver.shard.offsets_count() < 2_000
