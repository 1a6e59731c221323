"""A broker with several log directories: logs are spread over them, one that breaks goes alone, and logs move."""

from __future__ import annotations

import os
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.robustness.process import BrokerProcess, eventually
from tests.robustness.wire import (
    FETCH_V,
    PRODUCE_V,
    Wire,
    batch_of,
    create_topic,
    end_offset,
    fetch_of,
    produce,
    produce_of,
)

TOPIC = "orders"
BROKER_RESOURCE = 4
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def broker_over(folder: Path, *names: str, **settings: object) -> BrokerProcess:
    paths = ",".join(str(folder / name) for name in names)
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerProcess(folder / "broker", {"log.dirs": paths, "broker.id": 1, **dotted})


def described(broker: BrokerProcess, version: int = 4) -> DescribeLogDirsResponse:
    with Wire(broker) as wire:
        answer = wire.ask(DescribeLogDirsRequest(topics=None), version)
        assert isinstance(answer, DescribeLogDirsResponse)
        return answer


def places(broker: BrokerProcess, topic: str = TOPIC) -> dict[str, list[DescribeLogDirsPartition]]:
    """The topic's replicas by the name of their directory."""
    return {
        Path(result.log_dir).name: rows
        for result in described(broker).results
        if (rows := [row for each in result.topics if each.name == topic for row in each.partitions])
    }


def move(broker: BrokerProcess, path: Path | str, *partitions: int, topic: str = TOPIC, version: int = 2) -> list[int]:
    with Wire(broker) as wire:
        directory = AlterReplicaLogDir(
            path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))]
        )
        answer = wire.ask(AlterReplicaLogDirsRequest(dirs=[directory]), version)
        assert isinstance(answer, AlterReplicaLogDirsResponse)
        return [row.error_code for result in answer.results for row in result.partitions]


def throttle(broker: BrokerProcess, rate: int) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name="1",
        configs=[AlterableConfig(name=RATE, config_operation=0, value=str(rate))],
    )
    with Wire(broker) as wire:
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code == 0, answer


def home_of(broker: BrokerProcess) -> str:
    """The directory of the topic's only partition."""
    (home,) = (name for name, rows in places(broker).items() if not rows[0].is_future_key)
    return home


def test_logs_are_spread_and_move(tmp_path: Path) -> None:
    with broker_over(tmp_path, "a", "b", "c") as broker:
        create_topic(broker, TOPIC, partitions=6)
        assert {name: len(rows) for name, rows in places(broker).items()} == {"a": 2, "b": 2, "c": 2}
        for number in range(20):
            produce(broker, TOPIC, b"%d" % number)
        for version in (0, 1, 2):
            for name in "abc":
                assert move(broker, tmp_path / name, 0, version=version) == [0]
                eventually(lambda name=name: [r.partition_index for r in places(broker)[name]].count(0) == 1)  # type: ignore[misc]
                eventually(lambda: not any(row.is_future_key for rows in places(broker).values() for row in rows))
                assert (tmp_path / name / f"{TOPIC}-0").is_dir()
        assert end_offset(broker, TOPIC) == 20
        assert produce(broker, TOPIC, b"on") == 20
        assert move(broker, "/nowhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert move(broker, tmp_path / "a", 99) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for version in range(5):
            for result in described(broker, version).results:
                assert result.error_code == 0
                assert (result.total_bytes > result.usable_bytes > 0) is (version == 4)
        assert broker.stop() == 0


def test_a_throttled_move_survives_a_kill_and_is_ended_by_moving_back(tmp_path: Path) -> None:
    with broker_over(tmp_path, "a", "b") as broker:
        create_topic(broker, TOPIC)
        for _ in range(40):
            produce(broker, TOPIC, os.urandom(100_000))
        home = home_of(broker)
        target = "b" if home == "a" else "a"
        throttle(broker, 1)  # a piece of the copy every window
        assert move(broker, tmp_path / target, 0) == [0]
        eventually(lambda: target in places(broker) and places(broker)[target][0].partition_size > 0)
        (copy,) = places(broker)[target]
        assert copy.is_future_key
        assert 0 < copy.offset_lag < 40
        assert [each.name.endswith("-future") for each in (tmp_path / target).glob(f"{TOPIC}-0*")] == [True]
        broker.kill()
        broker.start()
        eventually(lambda: target in places(broker) and places(broker)[target][0].is_future_key)
        assert end_offset(broker, TOPIC) == 40
        assert move(broker, tmp_path / home, 0) == [0]
        eventually(lambda: target not in places(broker))
        assert move(broker, tmp_path / target, 0) == [0]
        throttle(broker, 1 << 40)
        eventually(lambda: home not in places(broker))
        assert end_offset(broker, TOPIC) == 40
        assert produce(broker, TOPIC, b"on") == 40
        broker.kill()
        broker.start()
        assert end_offset(broker, TOPIC) == 41
        assert broker.stop() == 0


def leader_and_offline(broker: BrokerProcess, index: int) -> tuple[int, list[int]]:
    with Wire(broker) as wire:
        answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)
        assert isinstance(answer, MetadataResponse)
        row = next(row for row in answer.topics[0].partitions if row.partition_index == index)
        return row.leader_id, row.offline_replicas


def test_an_io_error_takes_one_directory_and_not_the_broker(tmp_path: Path) -> None:
    """Its active segment is a directory now: whoever writes there gets EISDIR, as good an error as EIO."""
    with broker_over(tmp_path, "a", "b", log_segment_bytes=10_000) as broker:
        create_topic(broker, TOPIC, partitions=2)
        broken = next(name for name, rows in places(broker).items() if rows[0].partition_index == 1)
        whole = "b" if broken == "a" else "a"
        with Wire(broker) as wire:

            def produce_to(index: int) -> int:
                answer = wire.ask(produce_of(TOPIC, batch_of(b"x" * 5000), partition=index), PRODUCE_V)
                code: int = answer.responses[0].partition_responses[0].error_code
                return code

            assert produce_to(0) == produce_to(1) == 0
            for at in range(2, 9):  # where the next segments would be
                (tmp_path / broken / f"{TOPIC}-1" / f"{at:020d}.log").mkdir()
            eventually(lambda: produce_to(1) != 0)
            assert produce_to(0) == 0
        assert broker.process is not None
        assert broker.process.poll() is None
        eventually(lambda: leader_and_offline(broker, 1) == (-1, [1]))
        assert leader_and_offline(broker, 0) == (1, [])
        results = {Path(result.log_dir).name: result for result in described(broker).results}
        assert results[broken].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert results[broken].topics == []
        assert results[whole].error_code == 0
        assert move(broker, tmp_path / broken, 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
        with Wire(broker) as wire:
            assert wire.ask(fetch_of(TOPIC), FETCH_V).responses[0].partitions[0].error_code == 0
        for at in range(2, 9):
            path = tmp_path / broken / f"{TOPIC}-1" / f"{at:020d}.log"
            if path.is_dir():
                path.rmdir()
        broker.kill()
        broker.start()
        eventually(lambda: leader_and_offline(broker, 1) == (1, []))
        assert broker.stop() == 0
