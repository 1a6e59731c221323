"""A disk that is full: refused in time, read all the while, written again by itself, nothing lost by any number of kills."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.produce import ProduceResponse
from protocol.records.batch import iter_headers
from protocol.records.record import iter_records
from tests.robustness.process import BrokerProcess, MiB, NotStarted, eventually
from tests.robustness.wire import FETCH_V, PRODUCE_V, Wire, batch_of, create_topic, end_offset, fetch_of, produce_of

TOPIC = "orders"
DISK_BYTES = 32 * MiB
FLOOR_BYTES = 8 * MiB
ALMOST_FULL = "disk is almost full"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "barnabas-test", str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def on(disk: Path, folder: Path, **settings: object) -> BrokerProcess:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerProcess(folder / "broker", {"barnabas.disk.free.min.bytes": FLOOR_BYTES, **dotted}, data=disk / "data")


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def fill(disk: Path, leave_bytes: int) -> None:
    """Somebody else's file takes all but so many bytes."""
    with (disk / "filler").open("ab", buffering=0) as filler:
        while (rest := free_bytes(disk) - leave_bytes) > 0:
            try:
                filler.write(bytes(min(rest, MiB)))
            except OSError:
                return


def try_to_produce(wire: Wire, value: bytes) -> int:
    """The error code."""
    answer = wire.ask(produce_of(TOPIC, batch_of(value)), PRODUCE_V)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def stored(broker: BrokerProcess) -> list[bytes]:
    """The values of the topic, from its start."""
    found: list[bytes] = []
    with Wire(broker) as wire:
        offset = 0
        while True:
            row = wire.ask(fetch_of(TOPIC, offset, max_bytes=4 * MiB), FETCH_V).responses[0].partitions[0]
            assert row.error_code == 0, row.error_code
            if not row.records:
                return found
            for position, header in iter_headers(row.records):
                for record in iter_records(row.records, position, header, 1 << 24):
                    found.append(record.value or b"")
                    offset = record.offset + 1


def commit_offset(broker: BrokerProcess, offset: int) -> int:
    """The error code."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="readers",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
    )
    with Wire(broker) as wire:
        wire.ask(FindCoordinatorRequest(key="readers"), 2)
        code: int = wire.ask(request, 7).topics[0].partitions[0].error_code
        return code


def delete_records(broker: BrokerProcess, offset: int) -> int:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=5000)
    with Wire(broker) as wire:
        code: int = wire.ask(request, 1).topics[0].partitions[0].error_code
        return code


def test_a_full_disk_is_survived(tmp_path: Path, small_disk: Path) -> None:
    with on(small_disk, tmp_path) as broker:
        create_topic(broker, TOPIC)
        eventually(lambda: commit_offset(broker, 0) == 0)
        with Wire(broker) as wire:
            values: list[bytes] = []
            while True:
                value = b"%06d" % len(values) + os.urandom(50_000)
                if try_to_produce(wire, value):
                    break
                values.append(value)
            assert free_bytes(small_disk) > FLOOR_BYTES // 4
            for _ in range(20):
                assert try_to_produce(wire, b"x") == ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.log.count(ALMOST_FULL) == 1, "one line, however many are refused"
            assert stored(broker) == values, "reads go on"
            assert commit_offset(broker, 7) == 0, "offsets are committed in the reserve"
            fill(small_disk, 0)
            eventually(lambda: "disk is full" in broker.log)
            assert commit_offset(broker, 8) != 0
            assert stored(broker) == values
            assert delete_records(broker, 3) == 0, "deletions go on"
            assert broker.process is not None
            assert broker.process.poll() is None, "the process does not end"
            (small_disk / "filler").unlink()
            subprocess.run(["mount", "-o", f"remount,size={2 * DISK_BYTES}", str(small_disk)], check=True)
            eventually(lambda: try_to_produce(wire, b"on") == 0)
            assert commit_offset(broker, 9) == 0
        broker.kill()
        broker.start()
        assert stored(broker)[-1] == b"on"
        assert end_offset(broker, TOPIC) == len(values) + 1
        assert broker.stop() == 0


def test_writes_that_the_disk_refuses_after_all(tmp_path: Path, small_disk: Path) -> None:
    """Without a floor: ENOSPC in the middle of a write, again and again, and the process does not end."""
    with on(small_disk, tmp_path, barnabas_disk_free_min_bytes=0, log_segment_bytes=1_000_000) as broker:
        create_topic(broker, TOPIC)
        values: list[bytes] = []
        with Wire(broker) as wire:
            for _ in range(5):
                fill(small_disk, 700_000)
                refused = 0
                while not refused:
                    value = b"%06d" % len(values) + os.urandom(60_000)
                    refused = try_to_produce(wire, value)
                    if not refused:
                        values.append(value)
                assert refused == ErrorCode.KAFKA_STORAGE_ERROR
                assert broker.process is not None
                assert broker.process.poll() is None
                assert stored(broker) == values
                (small_disk / "filler").unlink()
                value = b"%06d" % len(values)
                eventually(lambda value=value: try_to_produce(wire, value) == 0)  # type: ignore[misc]
                values.append(value)
        assert stored(broker) == values
        broker.kill()
        broker.start()
        assert stored(broker) == values
        assert broker.stop() == 0


@pytest.mark.slow
def test_killed_again_and_again_while_full(tmp_path: Path, small_disk: Path) -> None:
    """What Apache Kafka 3.9.1 loses records in: a start that fails half way, and the next one believes its leftovers."""
    randomness = random.Random(7)
    acknowledged: list[bytes] = []
    attempts = 0
    with on(small_disk, tmp_path, log_segment_bytes=1_000_000, barnabas_disk_free_min_bytes=MiB) as broker:
        create_topic(broker, TOPIC)
        for turn in range(25):
            with Wire(broker) as wire:
                for _ in range(randomness.randrange(30)):
                    value = b"%06d" % attempts + randomness.randbytes(20_000)
                    attempts += 1
                    if try_to_produce(wire, value) == 0:
                        acknowledged.append(value)
            fill(small_disk, randomness.choice([0, 0, 1000, 10_000, 300_000, 2 * MiB]))
            with Wire(broker) as wire:
                for _ in range(3):
                    value = b"%06d" % attempts + randomness.randbytes(20_000)
                    attempts += 1
                    if try_to_produce(wire, value) == 0:
                        acknowledged.append(value)
            if turn % 3:
                broker.kill()
            else:
                broker.stop()
            for _ in range(2):  # full as it is
                try:
                    broker.start()
                except NotStarted:
                    continue
                broker.kill()
            assert "Traceback" not in broker.log
            (small_disk / "filler").unlink(missing_ok=True)
            broker.start()
            found = stored(broker)
            assert set(acknowledged) <= set(found), f"lost in turn {turn}"
            assert found == sorted(found), "nothing torn, nothing twice"
            if free_bytes(small_disk) < 8 * MiB:
                delete_records(broker, end_offset(broker, TOPIC))
                return
