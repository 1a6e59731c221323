"""A broker of its own whose store is not where it was: what it holds without knowing it, it keeps."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.cluster.topics_at_start import TopicAtStart
from broker.dependencies import Dependencies
from broker.process import open_embedded_store
from broker.server import Broker
from config.broker import BrokerSettings
from metadata.store.store_file import FILE_NAME
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.randomness import system_randomness
from storage.directories.log_directory import DirectoryRefused
from storage.log.partition_log import PartitionLog
from tests.storage.logs import append

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1", "log.cleaner.threads": "0"}
TOPIC = TopicAtStart("t", 1)


@asynccontextmanager
async def broker_over(
    *directories: Path,
    topics: tuple[TopicAtStart, ...] = (),
    on_fatal: Callable[[str], None] | None = None,
    **given: str,
) -> AsyncIterator[Broker]:
    """A broker from its start to its stop. Settings by name with underscores."""
    own = {name.replace("_", "."): value for name, value in given.items()}
    settings = BrokerSettings.from_sources({}, {}, SETTINGS | {"log.dirs": ",".join(map(str, directories))} | own)
    disk = OsDisk()
    doors = Dependencies(
        SystemClock(), system_randomness(), OsFileSystem(), disk, OsNetwork(SocketOptions()), open_embedded_store
    )
    broker = Broker(settings, doors, topics=topics, on_fatal=on_fatal)
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()
        await disk.close()


def log_of(broker: Broker, topic: str = "t") -> PartitionLog:
    log = broker.logs.find(topic, 0)
    assert log is not None
    return log


async def fill(broker: Broker) -> None:
    """Segments of a record each, older than any retention, and with one key."""
    log = log_of(broker)
    for _ in range(3):
        await append(log, "x" * 900)
    log.high_watermark = log.log_end_offset
    assert len(log.segments) == 3


async def look_at(broker: Broker) -> tuple[int, bool]:
    """(log start offset, whether something was cleaned) when retention and cleaner have gone through the logs."""
    await broker.logs.retention.delete_old_segments()
    return log_of(broker).log_start_offset, await broker.logs.cleaner.clean_dirtiest()


def is_known(broker: Broker) -> bool:
    return broker.services.partitions.find("t", 0) is not None


async def test_no_new_store_is_made_while_the_directory_that_may_hold_it_is_offline(tmp_path: Path) -> None:
    """It would know no topic, and the settings of none."""
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker_over(a, b, topics=(TOPIC,)):
        pass
    (a / ".lock").unlink()
    (a / ".lock").mkdir()
    with pytest.raises(DirectoryRefused, match=f"{a} is offline, and may contain {FILE_NAME}.*from log.dirs"):
        async with broker_over(a, b):
            pass
    (a / ".lock").rmdir()
    (b / ".lock").unlink()
    (b / ".lock").mkdir()
    async with broker_over(a, b) as broker:
        assert is_known(broker)


async def test_the_broker_ends_with_the_directory_that_holds_its_store(tmp_path: Path) -> None:
    """It could make no topic, nor tell anybody that partitions are gone."""
    a, b = tmp_path / "a", tmp_path / "b"
    told: list[str] = []
    async with broker_over(a, b, on_fatal=told.append) as broker:
        broker.logs.fail_directory(str(b), OSError(errno.EIO, "no answer"))
        assert told == []
    async with broker_over(a, b, on_fatal=told.append) as broker:
        broker.logs.fail_directory(str(a), OSError(errno.EIO, "no answer"))
        assert told == [f"the log directory {a}, which holds the store, has failed: no answer"]


async def test_the_store_is_found_where_it_is(tmp_path: Path) -> None:
    """Whatever the order of log.dirs is now."""
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker_over(a, topics=(TOPIC,)):
        pass
    async with broker_over(b, a) as broker:
        assert is_known(broker)
    assert not (b / FILE_NAME).exists()


@pytest.mark.parametrize(("policy", "known"), [("delete", (3, False)), ("compact", (0, True))])
async def test_logs_that_the_store_does_not_know_keep_their_records(
    tmp_path: Path, policy: str, known: tuple[int, bool]
) -> None:
    """What their topics' settings are nobody knows, and the broker's own may say that everything is due."""
    due = {"log_segment_bytes": "1000", "log_cleanup_policy": policy, "log_cleaner_min_cleanable_ratio": "0"}
    store, kept = tmp_path / "a" / FILE_NAME, tmp_path / FILE_NAME
    async with broker_over(tmp_path / "a", topics=(TOPIC,), **due) as broker:
        await fill(broker)
    store.rename(kept)
    async with broker_over(tmp_path / "a", **due) as broker:
        assert await look_at(broker) == (0, False)
    kept.replace(store)
    async with broker_over(tmp_path / "a", **due) as broker:
        assert await look_at(broker) == known


@pytest.mark.parametrize("is_made_before", [True, False])
async def test_a_topic_is_made_anew_over_its_log_without_partition_metadata(
    tmp_path: Path, is_made_before: bool
) -> None:
    """What docs/storage.md says of topics that are lost."""
    metadata = tmp_path / "t-0" / "partition.metadata"
    async with broker_over(tmp_path, topics=(TOPIC,)) as broker:
        await append(log_of(broker), "x")
    (tmp_path / FILE_NAME).unlink()
    if is_made_before:
        async with broker_over(tmp_path, topics=(TOPIC,)) as broker:
            assert not is_known(broker)
    metadata.unlink()
    for _ in range(2):
        async with broker_over(tmp_path, topics=(TOPIC,)) as broker:
            assert is_known(broker)
            assert log_of(broker).log_end_offset == 1
    assert metadata.exists()


async def next_producer_id(broker: Broker) -> int:
    ids = broker.services.producer_ids
    return await ids.next_id()


async def test_producers_after_a_lost_store_are_not_taken_for_those_before(tmp_path: Path) -> None:
    """The log of a topic that is made anew would take their records for repeated ones: acknowledged, and not stored."""
    async with broker_over(tmp_path, topics=(TOPIC,)) as broker:
        assert await next_producer_id(broker) == 0
    (tmp_path / FILE_NAME).unlink()
    given = []
    for _ in range(2):
        async with broker_over(tmp_path) as broker:
            given.append(await next_producer_id(broker))
    first, second = given
    assert 1 << 32 <= first < 1 << 62
    assert second == first + 1_000


async def test_a_broker_whose_meta_properties_is_lost_is_the_one_its_store_has_topics_of(tmp_path: Path) -> None:
    """Another one would lead none of them."""
    async with broker_over(tmp_path, topics=(TOPIC,), broker_id="5"):
        pass
    (tmp_path / "meta.properties").unlink()
    for given in ("-1", "5", "-1"):
        async with broker_over(tmp_path, broker_id=given) as broker:
            assert broker.broker_id == 5
            assert is_known(broker)


@pytest.mark.parametrize("meta", [None, "version=0\nbroker.id=6\n"])
async def test_a_broker_of_none_of_its_stores_topics_does_not_start(tmp_path: Path, meta: str | None) -> None:
    async with broker_over(tmp_path, topics=(TOPIC,), broker_id="5"):
        pass
    (tmp_path / "meta.properties").unlink()
    if meta is not None:
        (tmp_path / "meta.properties").write_text(meta)
    with pytest.raises(DirectoryRefused, match=rf"{FILE_NAME} has only topics of broker 5, but the broker\.id is 6"):
        async with broker_over(tmp_path, broker_id="6"):
            pass
    assert (tmp_path / "meta.properties").exists() == (meta is not None)
