"""Log directories: whose they are, what a start finds, where logs go, what happens when one fails."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import uuid_to_text
from runtime.disk.filesystem import File, FileSystem
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_directory import DirectoryRefused, deletion_folder, parse_partition_folder
from storage.directories.log_manager import LogManager
from storage.log.removal.segment_retention import delete_records
from tests.doubles.clock import ManualClock
from tests.doubles.file_system import ControlledFileSystem
from tests.storage.logs import NOW_MS, SETTINGS, all_values, append, batch, read, until_closed, values_of

TOPIC_ID = bytes(range(16))


@dataclass
class Broker:
    logs: LogManager
    failed: list[str] = field(default_factory=list)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    # When a directory that had refused a write was heard to have room.
    room_again_ms: list[int] = field(default_factory=list)


@asynccontextmanager
async def broker(
    *directories: Path,
    settings: BrokerSettings = SETTINGS,
    overrides: dict[str, str] | None = None,
    kill: bool = False,
    broker_id: int = 1,
    cluster_id: str = "c",
    filesystem: FileSystem | None = None,
) -> AsyncIterator[Broker]:
    """A broker's logs from start to stop, or to kill -9."""
    disk = OsDisk()
    clock = ManualClock(NOW_MS)
    failed: list[str] = []
    room_again_ms: list[int] = []
    logs = LogManager(
        settings=settings,
        directories=[str(path) for path in directories],
        config_of=lambda topic: LogConfig.from_settings(settings, overrides or {}),
        filesystem=filesystem or OsFileSystem(),
        disk=disk,
        clock=clock,
        randomness=random.Random(1),
        on_directory_failed=lambda path, error: failed.append(path),
        on_room_again=lambda: room_again_ms.append(clock.now_ms),
    )
    try:
        logs.lock()
        logs.claim(broker_id, cluster_id)
        await logs.load()
        logs.start()
        yield Broker(logs, failed, clock, room_again_ms)
    finally:
        left: list[File] = []
        if kill:
            segments = chain.from_iterable(log.segments for log in logs.logs.values())
            left += [segment.file for segment in segments if segment.file is not None]
            logs.abandon()
        else:
            await logs.close(broker_epoch=7)
        await until_closed(disk)
        await disk.close()
        for file in left:  # as the end of a process does
            file.close()


def tear(folder: Path) -> None:
    """Leave half a batch behind the log."""
    (log_file,) = folder.glob("*.log")
    log_file.write_bytes(log_file.read_bytes() + b"torn")


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def folders(directory: Path) -> list[str]:
    """Those set aside for deletion."""
    return [path.name for path in directory.glob("*-delete")]


async def test_logs_and_their_offsets_survive_a_clean_stop(tmp_path: Path) -> None:
    async with broker(tmp_path) as first:
        for partition in range(3):
            log = await first.logs.log_for("orders", partition, TOPIC_ID)
            for value in "abcd":
                await append(log, value)
            log.high_watermark = partition
        log.high_watermark = 4
        delete_records(log, 2)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 7}
    meta = (tmp_path / "orders-0" / "partition.metadata").read_text()
    assert meta == f"version: 0\ntopic_id: {uuid_to_text(TOPIC_ID)}"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 2 2\n"
    async with broker(tmp_path) as second:
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        assert second.logs.broker_epoch_at_clean_stop == 7
        assert len(second.logs.logs) == 3
        for partition in range(3):
            log = await second.logs.log_for("orders", partition)
            assert log.topic_id == TOPIC_ID
            assert (log.log_end_offset, log.high_watermark) == (4, 4 if partition == 2 else partition)
            assert all(segment.file is None for segment in log.segments)
            assert log.log_start_offset == (2 if partition == 2 else 0)
            assert len(await all_values(log)) == (2 if partition == 2 else 4)


async def test_high_watermarks_of_logs_that_nobody_has_assigned_yet_stay_in_the_checkpoint(tmp_path: Path) -> None:
    """KAFKA-1647: written before the controller has spoken, it must not forget those it will speak of."""
    async with broker(tmp_path) as first:
        for partition in range(2):
            log = await first.logs.log_for("orders", partition, TOPIC_ID)
            await append(log, "a", "b", "c")
            log.high_watermark = partition + 1
    checkpoint = (tmp_path / "replication-offset-checkpoint").read_text()
    async with broker(tmp_path, kill=True) as second:
        await second.logs.log_for("orders", 2, TOPIC_ID)  # the first that the controller names
        await second.logs.upkeep.checkpoint_high_watermarks()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == checkpoint.replace(
        "0\n2\n", "0\n3\n"
    ) + "orders 2 0\n"
    async with broker(tmp_path) as third:
        assert [third.logs.logs["orders", partition].high_watermark for partition in range(3)] == [1, 2, 0]


async def test_after_a_kill_the_logs_are_recovered(tmp_path: Path) -> None:
    async with broker(tmp_path, kill=True) as first:
        log = await first.logs.log_for("orders", 0, TOPIC_ID)
        for value in "abcd":
            await append(log, value)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    tear(tmp_path / "orders-0")
    async with broker(tmp_path) as second:
        log = await second.logs.log_for("orders", 0)
        assert [value for _, value in await all_values(log)] == ["a", "b", "c", "d"]
        assert second.logs.broker_epoch_at_clean_stop == -1


@pytest.mark.parametrize("marker", [b"", b"{", b'{"version":1}', b"[]"])
async def test_an_unreadable_clean_shutdown_marker_counts_as_unclean(tmp_path: Path, marker: bytes) -> None:
    async with broker(tmp_path) as first:
        log = await first.logs.log_for("orders", 0, TOPIC_ID)
        await append(log, "a")
    tear(tmp_path / "orders-0")
    (tmp_path / ".kafka_cleanshutdown").write_bytes(marker)
    async with broker(tmp_path) as second:
        log = await second.logs.log_for("orders", 0)
        await append(log, "b")
        assert [value for _, value in await all_values(log)] == ["a", "b"]


async def test_a_second_broker_is_refused_by_name(tmp_path: Path) -> None:
    async with broker(tmp_path):
        with pytest.raises(DirectoryRefused, match=f"another broker is using {tmp_path}"):
            async with broker(tmp_path):
                raise AssertionError("started on a directory in use")


async def test_the_directories_of_another_broker_or_cluster_are_refused(tmp_path: Path) -> None:
    async with broker(tmp_path / "a", broker_id=3, cluster_id="one"):
        pass
    text = (tmp_path / "a" / "meta.properties").read_text()
    assert {"version=0", "broker.id=3", "cluster.id=one"} <= set(text.split("\n"))
    with pytest.raises(DirectoryRefused, match=r"broker.id 4 does not match 3"):
        async with broker(tmp_path / "a", broker_id=4, cluster_id="one"):
            pass
    with pytest.raises(DirectoryRefused, match="another cluster's"):
        async with broker(tmp_path / "a", broker_id=3, cluster_id="two"):
            pass
    async with broker(tmp_path / "b", broker_id=9, cluster_id="one"):
        pass
    with pytest.raises(DirectoryRefused, match="different brokers"):
        async with broker(tmp_path / "a", tmp_path / "b", broker_id=3, cluster_id="one"):
            pass
    # A directory that was added later is taken over; text as Apache Kafka writes it is read.
    (tmp_path / "a" / "meta.properties").write_text(
        "#\n#Sat Nov 21 07:40:59 UTC 2026\nbroker.id=3\nversion=0\ncluster.id=one\n"
    )
    async with broker(tmp_path / "a", tmp_path / "new", broker_id=3, cluster_id="one"):
        assert (tmp_path / "new" / "meta.properties").exists()


async def test_a_foreign_folder_is_refused_and_a_foreign_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "store.sqlite").write_bytes(b"x")
    async with broker(tmp_path):
        pass
    (tmp_path / "holiday_pictures").mkdir()
    with pytest.raises(DirectoryRefused, match="holiday_pictures"):
        async with broker(tmp_path):
            pass


async def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    async with broker(tmp_path / "a", tmp_path / "b", tmp_path / "c") as one:
        await asyncio.gather(*(one.logs.log_for("t", partition, TOPIC_ID) for partition in range(9)))
        described = await one.logs.describe()
        assert [len(directory.logs) for directory in described] == [3, 3, 3]
        again = await one.logs.log_for("t", 4)
        assert again is one.logs.find("t", 4)


async def test_one_log_asked_for_twice_at_once_is_made_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        made = await asyncio.gather(*(one.logs.log_for("t", 0, TOPIC_ID) for _ in range(5)))
        assert all(log is made[0] for log in made)


async def test_a_deleted_log_is_set_aside_and_then_removed(tmp_path: Path) -> None:
    async with broker(tmp_path, overrides={"file.delete.delay.ms": "0"}) as one:
        log = await one.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
        await one.logs.delete("t", 0)
        assert one.logs.find("t", 0) is None
        with pytest.raises(KafkaError):
            log.reading.read(0, limit_offset=1, max_bytes=10, at_least_one=True)
        while folders(tmp_path):  # noqa: ASYNC110 - removal runs in the directory's queue
            await asyncio.sleep(0)
        anew = await one.logs.log_for("t", 0, bytes(15) + b"\x01")
        assert anew.log_end_offset == 0
        await one.logs.delete("never", 0)


@pytest.mark.parametrize("pass_over_all_logs", ["checkpoint_high_watermarks", "flush_due", "delete_old_segments"])
async def test_a_log_that_is_deleted_while_others_are_kept_takes_no_directory_with_it(
    tmp_path: Path, pass_over_all_logs: str
) -> None:
    """The pass goes from log to log and waits at each: meanwhile the folder of one of them has another name."""
    async with broker(tmp_path, overrides={"flush.ms": "1"}) as one:
        logs = [await one.logs.log_for(f"t{number}", 0, bytes(15) + bytes([number])) for number in range(1, 8)]
        for log in logs:
            log.epochs.assign(1, 0)
            await append(log, "a")
        one.clock.now_ms += 10
        owner = one.logs.retention if pass_over_all_logs == "delete_old_segments" else one.logs.upkeep
        keeping = asyncio.ensure_future(getattr(owner, pass_over_all_logs)())
        for log in reversed(logs[1:]):
            await one.logs.delete(log.topic, 0)
        await keeping
        assert not one.failed
        assert sorted(one.logs.logs) == [("t1", 0)]


async def test_folders_set_aside_go_at_the_next_start(tmp_path: Path) -> None:
    long_topic = "t" * 249
    async with broker(tmp_path) as one:
        for topic in ("t", long_topic):
            await append(await one.logs.log_for(topic, 0, TOPIC_ID), "a")
            await one.logs.delete(topic, 0)
        assert len(folders(tmp_path)) == 2 and max(map(len, folders(tmp_path))) <= 255
    assert len(folders(tmp_path)) == 2
    async with broker(tmp_path) as two:
        assert not folders(tmp_path)
        assert not two.logs.logs


def test_names_of_folders() -> None:
    assert parse_partition_folder("a-b-12") == ("a-b", 12)
    assert parse_partition_folder("a-2147483647") == ("a", 2147483647)
    for name in ("a", "-1", "a-", "a-x", "a-1.0123-delete", "a-2147483648"):
        assert parse_partition_folder(name) is None
    assert deletion_folder("a", 3, bytes(16)) == f"a-3.{'0' * 32}-delete"


async def test_description_tells_sizes(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        log = await one.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
        await one.logs.log_for("u", 0, TOPIC_ID)
        (directory,) = await one.logs.describe({("t", 0)})
        assert (directory.path, directory.error) == (str(tmp_path), ErrorCode.NONE)
        assert [(each.topic, each.size_bytes) for each in directory.logs] == [("t", len(batch("a")))]
        assert directory.total_bytes > directory.usable_bytes > 0


async def test_a_failing_directory_goes_offline_alone(tmp_path: Path) -> None:
    async with broker(tmp_path / "a", tmp_path / "b") as one:
        logs = [await one.logs.log_for("t", partition, TOPIC_ID) for partition in range(4)]
        for log in logs:
            await append(log, "x")
        bad, other = logs[0], logs[1]
        file = bad.segments.active.file
        assert file is not None
        file.close()
        with pytest.raises(KafkaError) as refused:
            await append(bad, "y")
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert one.failed == one.logs.offline_directories == list(one.logs.offline_since_ms) == [str(tmp_path / "a")]
        assert one.logs.find("t", 0) is None and one.logs.find("t", 2) is None
        with pytest.raises(KafkaError):
            await append(logs[2], "y")
        await append(other, "y")
        assert [value for _, value in values_of(await read(other, 0))] == ["x", "y"]
        errors = [directory.error for directory in await one.logs.describe()]
        assert errors == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        with pytest.raises(KafkaError, match="offline"):
            await one.logs.log_for("t", 9, TOPIC_ID, is_new=False)
        assert (await one.logs.log_for("t", 9, TOPIC_ID)).directory == str(tmp_path / "b" / "t-9")
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


async def test_settings_of_a_topic_change_while_it_is_used(tmp_path: Path) -> None:
    overrides: dict[str, str] = {}
    async with broker(tmp_path, overrides=overrides) as one:
        log = await one.logs.log_for("t", 0, TOPIC_ID)
        for _ in range(5):
            await append(log, "x" * 100)
        assert len(log.segments) == 1
        overrides["segment.bytes"] = "600"
        one.logs.update_configs("t")
        await append(log, "x" * 100)
        assert len(log.segments) == 2


async def test_logs_are_flushed_when_their_time_has_come(tmp_path: Path) -> None:
    async with broker(tmp_path, overrides={"flush.ms": "500"}) as one:
        log = await one.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
        await one.logs.upkeep.flush_due()
        assert log.offsets.recovery_point == 0
        one.clock.now_ms += 500
        await one.logs.upkeep.flush_due()
        assert log.offsets.recovery_point == 1
        await one.logs.upkeep.checkpoint_recovery_points()
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"


async def test_a_stop_before_loading_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        await append(await one.logs.log_for("t", 0, TOPIC_ID), "a")
    before = files(tmp_path)
    with pytest.raises(DirectoryRefused):
        async with broker(tmp_path, cluster_id="another"):
            pass
    assert files(tmp_path) == before


@pytest.mark.parametrize("work", ["checkpoint", "removal"])
async def test_no_append_waits_for_what_lies_beside_the_logs(tmp_path: Path, work: str) -> None:
    filesystem = ControlledFileSystem()
    async with broker(tmp_path, filesystem=filesystem, overrides={"file.delete.delay.ms": "0"}) as here:
        log = await here.logs.log_for("orders", 0, TOPIC_ID)
        await here.logs.log_for("old", 0, TOPIC_ID)
        await append(log, "a")
        log.high_watermark = 1
        slow_call = ("replace", "*-checkpoint") if work == "checkpoint" else ("remove_tree", "*")
        gate = filesystem.shut_on(*slow_call)
        slow = asyncio.ensure_future(
            here.logs.upkeep.checkpoint_high_watermarks() if work == "checkpoint" else here.logs.delete("old", 0)
        )
        try:
            async with asyncio.timeout(30):
                await gate.reached()
                await append(log, "b")
            assert await all_values(log) == [(0, "a"), (1, "b")]
        finally:
            gate.open()
        await slow
    assert folders(tmp_path) == []
