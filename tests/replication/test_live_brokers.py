"""What leaders do when other brokers go."""

from __future__ import annotations

from pathlib import Path

import pytest

from metadata.image import BrokerImage, ClusterImage
from protocol.errors import ErrorCode
from replication.leader import LeaderState
from replication.live_brokers import LiveBrokers
from tests.replication.replica_world import replica


def image(*broker_ids: int) -> ClusterImage:
    return ClusterImage("c", 1, {broker_id: BrokerImage(broker_id, {}) for broker_id in broker_ids})


async def test_records_and_deletions_wait_no_longer_for_a_broker_that_is_gone(tmp_path: Path) -> None:
    async with replica(tmp_path) as one:
        partition, brokers = one.partition, LiveBrokers(lambda: [one.partition])
        brokers.on_image(image(1, 2, 3))
        one.lead(isr=(1, 3))
        one.fetched(0, replica=2)
        (change,) = one.around.wishes
        one.fetched(0, replica=3)
        end = await one.append()
        one.fetched(end, replica=3)
        one.answer(change)  # 2 has joined, and leaves again by the controller's word
        one.lead(isr=(1, 3), partition_epoch=2)
        committed: list[ErrorCode] = []
        partition.own_waiters().when_committed(end, committed.append)
        assert committed == [], "2 is alive, and was caught up when it last fetched"

        one.around.alive = {1, 3}
        brokers.on_image(image(1, 3))
        assert (committed, partition.high_watermark) == ([ErrorCode.NONE], end)

        deleted: list[ErrorCode] = []
        one.around.alive = {1, 2, 3}
        brokers.on_image(image(1, 2, 3))
        partition.delete_records(end)
        one.fetched(end, replica=3, start=end)
        partition.own_waiters().when_deleted(end, deleted.append)
        assert deleted == []
        one.around.alive = {1, 3}
        brokers.on_image(image(1, 3))
        assert deleted == [ErrorCode.NONE]


async def test_partitions_without_a_replica_there_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(LeaderState, "on_brokers_lost", lambda _self, now_ms: asked.append(now_ms) or [])
    async with replica(tmp_path) as one:
        brokers = LiveBrokers(lambda: [one.partition])
        brokers.on_image(image(1, 2, 3, 4))
        one.follow(epoch=0)
        brokers.on_image(image(1, 2, 4))
        one.lead(isr=(1,), replicas=(1, 2), epoch=1, partition_epoch=1)
        brokers.on_image(image(1, 2))
        assert asked == []
        brokers.on_image(image(1))
        assert asked == [0]
