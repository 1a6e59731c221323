from __future__ import annotations

import pytest

from protocol.records.record import Record, encode_batch
from tests.simulation.clock import SimClock
from tests.simulation.disk_survey import end_of, log_folders, partition_logs, sound_batches
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop

FOLDER = "/data/a/orders-3"


def batch(base_offset: int, count: int = 2) -> bytes:
    return encode_batch([Record(0, 1, None, b"value")] * count, base_offset=base_offset)


def storage_with(files: dict[str, bytes]) -> SimStorage:
    loop = SimLoop(1)
    storage = SimStorage(loop, SimClock(loop))
    system = storage.boot()
    system.make_directory(FOLDER)
    for name, content in files.items():
        system.write_bytes(f"{FOLDER}/{name}.log", content)
    loop.close()
    return storage


def end(files: dict[str, bytes]) -> int:
    return end_of(partition_logs(storage_with(files), durable=False)[("orders", 3)])


def test_a_log_ends_behind_its_last_sound_batch() -> None:
    assert end({"0" * 20: batch(0) + batch(2)}) == 4
    assert end({"0" * 20: batch(0) + batch(2)[:-1]}) == 2
    assert end({"0" * 20: b""}) == 0


def test_a_damaged_batch_ends_the_log() -> None:
    damaged = bytearray(batch(2))
    damaged[-1] ^= 1
    assert end({"0" * 20: batch(0) + bytes(damaged) + batch(4)}) == 2


def test_segments_follow_each_other_without_a_gap() -> None:
    first, second, later = "0" * 20, f"{4:020}", f"{5:020}"
    assert end({first: batch(0) + batch(2), second: batch(4)}) == 6
    assert end({first: batch(0) + batch(2), later: batch(5)}) == 4
    assert end({first: batch(0) + batch(2)[:-1], second: batch(4)}) == 2


def test_what_was_not_synced_is_not_durable() -> None:
    storage = storage_with({"0" * 20: batch(0)})
    assert partition_logs(storage, durable=True) == {}


def test_folders_that_are_set_aside_are_no_logs() -> None:
    loop = SimLoop(1)
    storage = SimStorage(loop, SimClock(loop))
    system = storage.boot()
    system.make_directory(f"{FOLDER}.{'0' * 32}-delete")
    system.write_bytes(f"{FOLDER}.{'0' * 32}-delete/{'0' * 20}.log", batch(0))
    loop.close()
    assert partition_logs(storage, durable=False) == {}


def test_half_a_batch_is_not_answered() -> None:
    assert [found.base_offset for found in sound_batches(batch(7) + batch(9)[:30])] == [7]


@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("is_marked", [False, True])
def test_a_copy_that_has_everything_is_the_log_where_there_is_none(has_log: bool, is_marked: bool) -> None:
    loop = SimLoop(1)
    storage = SimStorage(loop, SimClock(loop))
    system = storage.boot()
    folders = {f"/data/b/orders-3.{'0' * 32}-future": batch(0) + batch(2)} | ({FOLDER: batch(0)} if has_log else {})
    for folder, content in folders.items():
        system.make_directory(folder)
        system.write_bytes(f"{folder}/{'0' * 20}.log", content)
        if is_marked and folder != FOLDER:
            system.write_bytes(f"{folder}/moved", b"")
    loop.close()
    ends = {key: end_of(batches) for key, batches in partition_logs(storage, durable=False).items()}
    assert ends == ({("orders", 3): 2} if has_log else {("orders", 3): 4} if is_marked else {})


def test_of_two_folders_of_a_partition_the_log_is_the_one_that_goes_further() -> None:
    loop = SimLoop(1)
    storage = SimStorage(loop, SimClock(loop))
    system = storage.boot()
    for folder, content in ((FOLDER, batch(0) + batch(2)), ("/data/b/orders-3", batch(0))):
        system.make_directory(folder)
        system.write_bytes(f"{folder}/{'0' * 20}.log", content)
    loop.close()
    assert end_of(partition_logs(storage, durable=False)["orders", 3]) == 4
    ends = {folder: end_of(found) for folder, found in log_folders(storage, durable=False)["orders", 3].items()}
    assert ends == {FOLDER: 4, "/data/b/orders-3": 2}
