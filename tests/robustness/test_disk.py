"""Bad days of a disk: full, not writable, shared, damaged, or holding what does not belong there.

Each ends in a broker that serves what it can, or in one that says in one line why it does not start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceResponse
from tests.robustness.process import BrokerProcess, MiB, NotStarted
from tests.robustness.wire import (
    FETCH_V,
    PRODUCE_V,
    Wire,
    answers_within_ms,
    batch_of,
    create_topic,
    end_offset,
    fetch_of,
    produce,
    produce_of,
    topics_of,
)

TOPIC = "orders"
# An entry for every batch.
FINE_INDEXES: dict[str, object] = {"log.index.interval.bytes": 100}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "barnabas-test", str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def produce_one(wire: Wire, value: bytes) -> tuple[int, int]:
    """(error code, base offset)"""
    answer = wire.ask(produce_of(TOPIC, batch_of(value)), PRODUCE_V)
    assert isinstance(answer, ProduceResponse)
    row = answer.responses[0].partition_responses[0]
    return row.error_code, row.base_offset


def test_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """Writes are refused with KAFKA_STORAGE_ERROR; what was acknowledged is there, then and after a restart."""
    with BrokerProcess(tmp_path / "broker", data=small_disk / "data") as broker:
        create_topic(broker, TOPIC)
        acknowledged = 0
        with Wire(broker) as wire:
            while True:
                code, offset = produce_one(wire, os.urandom(900_000))
                if code:
                    break
                assert offset == acknowledged
                acknowledged += 1
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            assert acknowledged > 10
        # Once or twice: below the floor, and with no room at all, which is told alone where the disk filled up in one look.
        assert 1 <= broker.log.count("until there is space again") <= 2
        broker.kill()
        (tmp_path / "moved").mkdir()
        shutil.copytree(small_disk / "data", tmp_path / "moved" / "data")
        moved = BrokerProcess(tmp_path / "moved", data=tmp_path / "moved" / "data")
        with moved:
            assert end_offset(moved, TOPIC) == acknowledged
            assert produce(moved, TOPIC, b"goes on") == acknowledged
            with Wire(moved) as wire:
                answer = wire.ask(fetch_of(TOPIC), FETCH_V)
                assert answer.responses[0].partitions[0].records
            assert moved.stop() == 0


def test_a_start_on_a_full_disk_ends(tmp_path: Path, small_disk: Path) -> None:
    with BrokerProcess(tmp_path / "broker", data=small_disk / "data") as broker:
        create_topic(broker, TOPIC)
        produce(broker, TOPIC, b"x")
        broker.kill()
        with (small_disk / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(MiB // 4))
            except OSError:
                pass
        ended_or_serves(broker)
        (small_disk / "filler").unlink()
        if broker.process is None:
            broker.start()
        assert end_offset(broker, TOPIC) == 1


def ended_or_serves(broker: BrokerProcess) -> None:
    """Either is fine; hanging is not, nor ending without a word."""
    try:
        broker.start()
    except NotStarted as refusal:
        said = str(refusal)
    else:
        answers_within_ms(broker)
        return
    assert "barnabas:" in said or "broker stops, it cannot continue" in said, said
    assert "Traceback" not in said, said


def test_a_second_broker_on_the_same_directory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "first", data=tmp_path / "data") as first:
        second = BrokerProcess(tmp_path / "second", data=tmp_path / "data")
        code, said = second.refuses_to_start()
        assert code == 1
        assert str(tmp_path / "data") in said
        assert "Traceback" not in said
        answers_within_ms(first)


def test_a_taken_port(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "first") as first:
        second = BrokerProcess(tmp_path / "second")
        second.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{first.port}"
        code, said = second.refuses_to_start()
        assert code == 1
        assert str(first.port) in said
        assert "Traceback" not in said


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    code, said = BrokerProcess(tmp_path / "broker", data=tmp_path / "data").refuses_to_start()
    assert code == 1
    assert str(tmp_path / "data") in said
    assert "Traceback" not in said


def test_a_directory_that_is_not_writable(tmp_path: Path) -> None:
    code, said = BrokerProcess(tmp_path / "broker", data=Path("/proc/barnabas")).refuses_to_start()
    assert code == 1
    assert "/proc/barnabas" in said
    assert "Traceback" not in said


@dataclass(frozen=True)
class Left:
    """What a broker left behind: topic `orders` with fifty batches. Tests damage a copy."""

    data: Path
    topics: dict[str, bytes]

    def copied_to(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.data, folder / "data"))


def leave(folder: Path, *, is_clean: bool) -> Left:
    with BrokerProcess(folder, FINE_INDEXES) as broker:
        create_topic(broker, TOPIC)
        for number in range(50):
            produce(broker, TOPIC, b"%d" % number)
        left = Left(broker.data, topics_of(broker))
        if is_clean:
            assert broker.stop() == 0
    return left


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return leave(tmp_path_factory.mktemp("clean"), is_clean=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return leave(tmp_path_factory.mktemp("killed"), is_clean=False)


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def corrupt_meta(data: Path) -> None:
    (data / "meta.properties").write_bytes(os.urandom(64))


def empty_meta(data: Path) -> None:
    (data / "meta.properties").write_bytes(b"")


def missing_meta(data: Path) -> None:
    (data / "meta.properties").unlink()


def other_cluster(data: Path) -> None:
    path = data / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("cluster.id")]
    path.write_text("\n".join([*lines, "cluster.id=AAAAAAAAAAAAAAAAAAAAAA"]) + "\n")


def corrupt_store(data: Path) -> None:
    for path in data.glob("*.sqlite*"):
        path.write_bytes(os.urandom(max(path.stat().st_size, 4096)))


def cut_store(data: Path) -> None:
    for path in data.glob("*.sqlite"):
        os.truncate(path, path.stat().st_size // 2 + 100)
    for path in data.glob("*.sqlite-*"):
        path.unlink()


def foreign_folder(data: Path) -> None:
    (data / "1234567890").mkdir()


REFUSALS: dict[str, tuple[Callable[[Path], None], str]] = {
    "meta.properties is noise": (corrupt_meta, "meta.properties"),
    "meta.properties is empty": (empty_meta, "meta.properties is damaged"),
    "meta.properties of another cluster": (other_cluster, "cluster"),
    "store is noise": (corrupt_store, "store"),
    "store is cut": (cut_store, "store"),
    "a folder that is no partition": (foreign_folder, "1234567890"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_damage_that_is_refused(tmp_path: Path, clean: Left, name: str) -> None:
    damage, word = REFUSALS[name]
    broker = BrokerProcess(tmp_path, FINE_INDEXES, data=clean.copied_to(tmp_path))
    damage(broker.data)
    try:
        code, said = broker.refuses_to_start()
        assert code in (1, 2)
        assert "Traceback" not in said
        last = said.strip().splitlines()[-1]
        assert last.startswith("barnabas: ")
        assert word in last
    finally:
        broker.kill()


def empty_lock(data: Path) -> None:
    (data / ".lock").write_bytes(os.urandom(100))


def foreign_files(data: Path) -> None:
    (data / "README.txt").write_text("not ours")
    (data / f"{TOPIC}-0" / "stranger.tmp").write_bytes(os.urandom(10))


def cut_indexes(data: Path) -> None:
    for path in (data / f"{TOPIC}-0").glob("*index"):
        os.truncate(path, path.stat().st_size // 2 + 1)


def noise_in_indexes(data: Path) -> None:
    for path in (data / f"{TOPIC}-0").glob("*index"):
        path.write_bytes(os.urandom(97))


def missing_indexes(data: Path) -> None:
    for path in (data / f"{TOPIC}-0").glob("*index"):
        path.unlink()


def noise_in_checkpoints(data: Path) -> None:
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (data / name).write_bytes(os.urandom(40))
    (data / f"{TOPIC}-0" / "leader-epoch-checkpoint").write_bytes(b"")


def noise_in_snapshots(data: Path) -> None:
    for path in (data / f"{TOPIC}-0").glob("*.snapshot"):
        path.write_bytes(os.urandom(33))


def torn_tail(data: Path) -> None:
    with only(data / f"{TOPIC}-0", "*.log").open("ab") as log:
        log.write(batch_of(b"torn")[:40])


REPAIRS: dict[str, Callable[[Path], None]] = {
    "meta.properties is missing": missing_meta,
    "noise in .lock": empty_lock,
    "foreign files": foreign_files,
    "indexes are cut": cut_indexes,
    "indexes are noise": noise_in_indexes,
    "indexes are missing": missing_indexes,
    "checkpoints are noise": noise_in_checkpoints,
    "producer snapshots are noise": noise_in_snapshots,
    "the last batch is torn": torn_tail,
}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("name", REPAIRS)
def test_damage_that_is_repaired(tmp_path: Path, clean: Left, killed: Left, name: str, is_clean: bool) -> None:
    left = clean if is_clean else killed
    data = left.copied_to(tmp_path)
    if is_clean and name == "the last batch is torn":
        (data / ".kafka_cleanshutdown").unlink()  # a torn tail under a clean marker is somebody's doing
    REPAIRS[name](data)
    with BrokerProcess(tmp_path, FINE_INDEXES, data=data) as broker:
        assert topics_of(broker) == left.topics
        assert end_offset(broker, TOPIC) == 50
        assert produce(broker, TOPIC, b"on") == 50
        for offset in (0, 17, 49, 50):
            with Wire(broker) as wire:
                row = wire.ask(fetch_of(TOPIC, offset), FETCH_V).responses[0].partitions[0]
                assert row.error_code == 0
                assert row.records
        assert broker.stop() == 0
