"""Expiry of records: who deletes them, when, how far, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from replication import message_expiry
from replication.message_expiry import MessageExpiry
from runtime.tasks import TaskScope
from storage.log.partition_log import AppendOrigin
from tests.doubles.clock import ManualClock
from tests.replication.replica_world import Replica, replica
from tests.storage.logs import NOW_MS, batch, config, until

TTL = {"barnabas.message.ttl.ms": "1000"}


class World:
    """One partition, and what expires its records, called by hand."""

    def __init__(self, one: Replica, tasks: TaskScope) -> None:
        self.one = one
        self.partition = one.partition
        self.clock = ManualClock(NOW_MS)
        self.expiry = MessageExpiry(self.clock, tasks)

    async def append(self, *timestamps: int) -> None:
        for timestamp in timestamps:
            records = batch("v", timestamp=timestamp)
            self.partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=NOW_MS)
        await self.partition.log.await_appends()

    def configure(self, **settings: Any) -> None:
        self.partition.log.configure(config(**settings))
        self.expiry.on_config_changed(self.partition)

    async def start_at(self, now_ms: int) -> int:
        """The log start at that time."""
        self.clock.now_ms = now_ms
        await self.expiry.expire()
        return self.partition.log.log_start_offset


@asynccontextmanager
async def expiring(folder: Path, **settings: Any) -> AsyncIterator[World]:
    async with replica(folder, **(settings or TTL)) as one, TaskScope("test") as tasks:
        yield World(one, tasks)


async def test_the_log_start_follows_the_clock(tmp_path: Path) -> None:
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        await one.append(NOW_MS, NOW_MS + 10, NOW_MS + 10, NOW_MS + 30)
        one.expiry.on_leader(one.partition)
        starts = [await one.start_at(NOW_MS + ms) for ms in (0, 1_000, 1_001, 1_010, 1_011, 1_030, 1_031, 900)]
        assert starts == [0, 0, 1, 1, 3, 3, 4, 4]
        await one.append(NOW_MS + 40)
        assert await one.start_at(NOW_MS + 1_040) == 4
        assert await one.start_at(NOW_MS + 1_041) == 5


async def test_what_followers_lack_stays(tmp_path: Path) -> None:
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1, 2))
        await one.append(1, 2, 3)
        one.expiry.on_leader(one.partition)
        assert await one.start_at(NOW_MS) == 0
        one.one.fetched(2)
        assert await one.start_at(NOW_MS) == 2
        one.one.fetched(3)
        assert await one.start_at(NOW_MS) == 3


async def test_an_open_transaction_holds_nothing_up(tmp_path: Path) -> None:
    """As with DeleteRecords: what is left of it has expired, and who reads committed records goes on."""
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        records = batch("v", timestamp=1, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        one.partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=NOW_MS)
        await one.append(2, NOW_MS)
        assert one.partition.last_stable_offset == 0
        one.expiry.on_leader(one.partition)
        assert await one.start_at(NOW_MS) == 2
        assert one.partition.last_stable_offset == 2


async def test_only_a_leader_deletes(tmp_path: Path) -> None:
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        await one.append(1)
        one.expiry.on_leader(one.partition)
        one.one.follow(epoch=1)
        assert await one.start_at(NOW_MS) == 0
        one.expiry.on_not_leader("t", 0, 1)
        assert len(one.expiry) == 0
        one.one.lead(isr=(1,), epoch=2)
        one.expiry.on_leader(one.partition)
        assert await one.start_at(NOW_MS) == 1


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({}, 0),
        ({"barnabas.message.ttl.ms": "-1"}, 0),
        ({**TTL, "cleanup.policy": "compact"}, 0),
        ({**TTL, "cleanup.policy": "compact,delete"}, 1),
        ({"barnabas.message.ttl.ms": "0"}, 1),
        ({"barnabas.message.ttl.ms": str((1 << 63) - 1)}, 0),
    ],
)
async def test_the_topic_says_whether_records_expire(tmp_path: Path, settings: dict[str, str], start: int) -> None:
    async with expiring(tmp_path, retention_ms=-1) as one:
        one.one.lead(isr=(1,))
        await one.append(1)
        one.expiry.on_leader(one.partition)
        assert len(one.expiry) == 0
        one.configure(**settings)
        assert await one.start_at(NOW_MS) == start
        one.configure()
        assert len(one.expiry) == 0


async def test_records_of_internal_topics_stay(tmp_path: Path) -> None:
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        one.partition.topic = "__consumer_offsets"
        one.expiry.on_leader(one.partition)
        assert len(one.expiry) == 0


async def test_a_look_reads_nothing_while_the_oldest_record_is_too_young(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    find = message_expiry.find_expired

    async def counted(*arguments: Any, **options: Any) -> Any:
        looks.append(options["start_offset"])
        return await find(*arguments, **options)

    monkeypatch.setattr(message_expiry, "find_expired", counted)
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        one.expiry.on_leader(one.partition)
        await one.start_at(NOW_MS)
        assert looks == [], "there is no record"
        await one.append(NOW_MS, NOW_MS + 10_000)
        for ms in range(0, 5_000, 100):
            await one.start_at(NOW_MS + ms)
        assert looks == [0, 0], "the first time, and when the first record has expired"
        one.one.lead(isr=(1,), epoch=1)
        await one.start_at(NOW_MS + 5_000)
        assert looks == [0, 0, 1], "a new leader has to look once"


async def test_who_waits_for_more_is_not_woken(tmp_path: Path) -> None:
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        await one.append(1, 2)
        one.one.around.turn()
        one.expiry.on_leader(one.partition)
        assert await one.start_at(NOW_MS) == 2
        assert not one.one.around.soon


async def test_damaged_records_stay_and_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_arguments: Any, **_options: Any) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "cannot read")

    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        await one.append(1)
        one.expiry.on_leader(one.partition)
        with monkeypatch.context() as broken:
            broken.setattr(message_expiry, "find_expired", fail)
            assert [await one.start_at(NOW_MS + ms) for ms in (0, 1_000, 59_999)] == [0, 0, 0]
        assert [record.message.split(":")[0] for record in caplog.records] == ["records cannot be read"]
        assert await one.start_at(NOW_MS + 59_999) == 0, "it waits"
        assert await one.start_at(NOW_MS + 60_000) == 1


async def test_settings_that_change_during_a_look_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = message_expiry.find_expired

    async def change_meanwhile(*arguments: Any, **options: Any) -> Any:
        found = await find(*arguments, **options)
        one.configure(**{"barnabas.message.ttl.ms": str(NOW_MS)})
        return found

    monkeypatch.setattr(message_expiry, "find_expired", change_meanwhile)
    async with expiring(tmp_path) as one:
        one.one.lead(isr=(1,))
        await one.append(1)
        one.expiry.on_leader(one.partition)
        assert await one.start_at(NOW_MS) == 0


async def test_there_is_a_task_while_a_topic_has_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_expiry, "INTERVAL_MS", 1)
    async with expiring(tmp_path) as one:
        before = asyncio.all_tasks()

        def tasks() -> set[str]:
            return {task.get_name() for task in asyncio.all_tasks() - before}

        one.one.lead(isr=(1,))
        await one.append(1)
        for _ in range(2):
            one.partition.log.configure(LogConfig({}))
            one.expiry.on_config_changed(one.partition)
            await until(lambda: not tasks())
            one.configure(**TTL)
            assert len(tasks()) == 1
        await until(lambda: one.partition.log.log_start_offset == 1)
