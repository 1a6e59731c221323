"""Each setting that may change while the broker runs, by its effect: in flight, after a restart, and once it is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker.cluster.topics_at_start import TopicAtStart
from broker.dependencies import Dependencies
from broker.network.quotas.connection_rates import RateLimits
from broker.process import open_embedded_store
from broker.server import Broker
from config.broker import BrokerSettings
from config.definition import Update
from config.layers import Throttles
from config.topic import LogConfig
from protocol.records.record import Record, encode_batch
from replication.throttle import NO_LIMIT
from runtime.clock import Clock
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.randomness import system_randomness
from storage.log.validation import AppendOrigin
from tests.doubles.clock import RunningClock

TOPIC = "t"
PRODUCER_ID = 4_000
DAY_MS = 86_400_000


def log_of(broker: Broker) -> Any:
    return broker.logs.find(TOPIC, 0)


def of_the_log(attribute: str) -> Callable[[Broker], Any]:
    """What the open log of a topic goes by."""
    return lambda broker: getattr(log_of(broker).config, attribute)


def of_the_cleaner(attribute: str) -> Callable[[Broker], Any]:
    return lambda broker: getattr(broker.logs.cleaner._settings, attribute)


def of_the_acceptor(attribute: str) -> Callable[[Broker], Any]:
    return lambda broker: getattr(broker._acceptor.limits, attribute)


def cleaner_threads(broker: Broker) -> int:
    """The ones that are kept; those beyond the number end by themselves."""
    return broker.logs.cleaner._settings.log_cleaner_threads


def forgets_a_producer_of_yesterday(broker: Broker) -> bool:
    """One that is silent for a day, when the upkeep comes by."""
    clock, log = broker._dependencies.clock, log_of(broker)
    assert isinstance(clock, RunningClock)
    batch = encode_batch(
        [Record(0, clock.wall_ms(), b"k", b"v", [])], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0
    )
    partition = broker.services.partitions.find(TOPIC, 0)
    assert partition is not None
    partition.append(bytearray(batch), origin=AppendOrigin.CLIENT, acks=1, now_ms=clock.wall_ms())
    assert any(each.producer_id == PRODUCER_ID for each in log.producers.states.describe())
    clock.wall_ahead_ms += DAY_MS // 2
    upkeep = broker.logs.upkeep.forget_producers()
    with pytest.raises(StopIteration):
        upkeep.send(None)
    is_forgotten = not any(each.producer_id == PRODUCER_ID for each in log.producers.states.describe())
    log.producers.remove_expired(clock.wall_ms() + 10 * DAY_MS, 0)
    return is_forgotten


@dataclass(frozen=True)
class Row:
    value: str
    observe: Callable[[Broker], Any]
    before: Any
    after: Any


ROWS: dict[str, Row] = {
    "producer.id.expiration.ms": Row("60000", forgets_a_producer_of_yesterday, False, True),
    "max.connections": Row("700", of_the_acceptor("max_connections"), 2**31 - 1, 700),
    "max.connection.creation.rate": Row("77", of_the_acceptor("rates"), RateLimits(), RateLimits(77)),
    "max.connections.per.ip": Row("70", of_the_acceptor("max_connections_per_ip"), 2**31 - 1, 70),
    "max.connections.per.ip.overrides": Row("127.0.0.9:7", of_the_acceptor("per_ip_overrides"), {}, {"127.0.0.9": 7}),
    "log.cleaner.threads": Row("3", cleaner_threads, 1, 3),
    "log.cleaner.backoff.ms": Row("777", of_the_cleaner("log_cleaner_backoff_ms"), 15_000, 777),
    "log.cleaner.dedupe.buffer.size": Row(
        "9000000", of_the_cleaner("log_cleaner_dedupe_buffer_size"), 134_217_728, 9_000_000
    ),
    "log.cleaner.io.buffer.load.factor": Row("0.5", of_the_cleaner("log_cleaner_io_buffer_load_factor"), 0.9, 0.5),
    "log.cleaner.io.buffer.size": Row("600000", of_the_cleaner("log_cleaner_io_buffer_size"), 524_288, 600_000),
    "log.cleaner.io.max.bytes.per.second": Row(
        "1000", of_the_cleaner("log_cleaner_io_max_bytes_per_second"), 1.7976931348623157e308, 1000.0
    ),
    "num.recovery.threads.per.data.dir": Row(
        "3", lambda broker: broker.logs._current_settings().num_recovery_threads_per_data_dir, 1, 3
    ),
    "transaction.partition.verification.enable": Row(
        "false",
        lambda broker: broker.services.dynamic_settings.settings.transaction_partition_verification_enable,
        True,
        False,
    ),
    "group.consumer.assignment.interval.ms": Row(
        "7", lambda broker: broker.services.group_configs.current.of("any").assignment_interval_ms, 1000, 7
    ),
    "group.share.assignment.interval.ms": Row(
        "7", lambda broker: broker.services.group_configs.current.share_of("any").assignment_interval_ms, 1000, 7
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": Row(
        "5000", lambda broker: broker.services.log_moves._dependencies.quota.limit_bytes_per_second, NO_LIMIT, 5000
    ),
}
TOPIC_VALUES = {
    "log.cleanup.policy": ("compact", ("compact",)),
    "compression.gzip.level": ("2", 2),
    "compression.lz4.level": ("2", 2),
    "compression.zstd.level": ("2", 2),
    "compression.type": ("lz4", "lz4"),
    "log.cleaner.delete.retention.ms": ("5", 5),
    "log.segment.delete.delay.ms": ("5", 5),
    "log.flush.interval.messages": ("5", 5),
    "log.flush.interval.ms": ("5", 5),
    "log.index.interval.bytes": ("5", 5),
    "log.cleaner.max.compaction.lag.ms": ("500", 500),
    "message.max.bytes": ("500", 500),
    "log.message.downconversion.enable": ("false", False),
    "log.message.timestamp.after.max.ms": ("5", 5),
    "log.message.timestamp.before.max.ms": ("5", 5),
    "log.message.timestamp.difference.max.ms": ("5", 5),
    "log.message.timestamp.type": ("LogAppendTime", "LogAppendTime"),
    "log.cleaner.min.cleanable.ratio": ("0.25", 0.25),
    "log.cleaner.min.compaction.lag.ms": ("5", 5),
    "min.insync.replicas": ("2", 2),
    "log.retention.bytes": ("5000", 5000),
    "log.retention.ms": ("500000", 500_000),
    "log.segment.bytes": ("5000", 5000),
    "log.index.size.max.bytes": ("5000", 5000),
    "log.roll.jitter.ms": ("5", 5),
    "log.roll.ms": ("5000", 5000),
    "unclean.leader.election.enable": ("true", True),
}
"""Defaults of topics: the log of a topic that has no value of its own goes by them."""
for _row in LogConfig.definitions.values():
    if _row.synonyms and _row.synonyms[0] in TOPIC_VALUES:
        _text, _value = TOPIC_VALUES[_row.synonyms[0]]
        ROWS[_row.synonyms[0]] = Row(_text, of_the_log(_row.attribute), _row.default, _value)

ELSEWHERE = {
    "advertised.listeners": "refused in flight: docs/differences.md",
    "principal.builder.class": "its default only: tests/config/test_java_classes.py",
    "sasl.enabled.mechanisms": "of a listener with SASL, after a restart: tests/broker/test_sasl_start.py",
    "sasl.jaas.config": "the same",
    **dict.fromkeys(
        (
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
        ),
        "of a broker with others beside it, after a restart",
    ),
    "sasl.mechanism.inter.broker.protocol": "of a broker with others: tests/broker/cluster/logins/test_broker_login.py",
    "listeners": "refused in flight: docs/differences.md",
    "listener.security.protocol.map": "refused in flight: docs/differences.md",
    "leader.replication.throttled.rate": "of a broker with others beside it: tests/broker/test_cluster.py",
    "follower.replication.throttled.rate": "the same",
    "num.replica.fetchers": "of a broker with others beside it: tests/replication/followers/test_fetchers.py",
}
ELSEWHERE |= {
    name: "of a listener: tests/broker/network/listening/test_tls_listeners.py"
    for name, row in BrokerSettings.definitions.items()
    if name.startswith("ssl.") and row.effective and row.update is not Update.READ_ONLY
}


def effective_dynamic_settings() -> set[str]:
    rows = {**BrokerSettings.definitions, **Throttles.definitions}
    return {
        name
        for name, row in rows.items()
        if row.update is not Update.READ_ONLY and (row.effective or name in Throttles.definitions)
    }


def test_every_dynamic_setting_has_its_row() -> None:
    assert effective_dynamic_settings() == ROWS.keys() | ELSEWHERE.keys()
    assert not ROWS.keys() & ELSEWHERE.keys()


async def begun(folder: Path, clock: Clock, disk: OsDisk) -> Broker:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder), "broker.id": "1"}
    doors = Dependencies(
        clock, system_randomness(), OsFileSystem(), disk, OsNetwork(SocketOptions()), open_embedded_store
    )
    broker = Broker(BrokerSettings.from_sources({}, {}, given), doors, topics=[TopicAtStart(TOPIC, 1)])
    await broker.start()
    return broker


def seen(broker: Broker) -> dict[str, Any]:
    return {name: row.observe(broker) for name, row in ROWS.items()}


BEFORE = {name: row.before for name, row in ROWS.items()}
AFTER = {name: row.after for name, row in ROWS.items()}


async def change_all(broker: Broker, *, per_broker: bool, given: dict[str, str]) -> None:
    await broker.services.dynamic_settings.alter_broker(
        lambda _stored: given, per_broker=per_broker, validate_only=False
    )


async def life_of_settings(folder: Path, per_broker: bool) -> None:
    clock, disk = RunningClock(), OsDisk()
    broker = await begun(folder, clock, disk)
    try:
        assert seen(broker) == BEFORE
        await change_all(broker, per_broker=per_broker, given={name: row.value for name, row in ROWS.items()})
        assert seen(broker) == AFTER
        await broker.stop()
        broker = await begun(folder, clock, disk)
        assert seen(broker) == AFTER, "after a restart"
        await change_all(broker, per_broker=per_broker, given={})
        assert seen(broker) == BEFORE, "once they are deleted"
    finally:
        await broker.stop()
        await disk.close()


@pytest.mark.parametrize("per_broker", [False, True])
def test_each_has_its_effect(tmp_path: Path, per_broker: bool) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life_of_settings(tmp_path, per_broker))


def test_what_the_broker_has_hides_what_the_cluster_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = OsDisk()
        broker = await begun(tmp_path, RunningClock(), disk)
        try:
            await change_all(broker, per_broker=False, given={"message.max.bytes": "500", "max.connections": "5"})
            await change_all(broker, per_broker=True, given={"message.max.bytes": "600"})
            assert (log_of(broker).config.max_message_bytes, broker._acceptor.limits.max_connections) == (600, 5)
            await change_all(broker, per_broker=True, given={})
            assert log_of(broker).config.max_message_bytes == 500
        finally:
            await broker.stop()
            await disk.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
