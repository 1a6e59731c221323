from __future__ import annotations

import random

import pytest

from storage.log.leader_epoch_file import LeaderEpochFile
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_offsets import LogOffsets
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from tests.async_tests import played_by
from tests.storage.logs import all_values
from tests.storage.machine import Machine, copy, on_a_machine


class Writer:
    """Records what is written: (content, durable)."""

    def __init__(self) -> None:
        self.written: list[tuple[list[tuple[int, int]], bool]] = []
        self.offsets = LogOffsets(0, 0, 0)

    def write_file(self, name: str, content: bytes, durable: bool) -> None:
        assert name == "leader-epoch-checkpoint"
        self.written.append((LeaderEpochs.from_checkpoint(content).entries, durable))


def file_of(*entries: tuple[int, int], is_durable: bool = True) -> tuple[LeaderEpochFile, Writer]:
    epochs, writer = LeaderEpochs(), Writer()
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return LeaderEpochFile(epochs, writer.offsets, writer.write_file, is_durable=is_durable), writer


def test_epochs_that_begin_are_written_when_somebody_asks_for_it() -> None:
    file, writer = file_of((0, 0), (3, 100))
    writer.offsets.log_end_offset = 200
    file.save()
    file.keep()
    assert not file.has_unsaved
    file.assign(3, 150)
    assert not file.has_unsaved
    file.assign(5, 200)
    assert not file.has_unsaved  # records of the new one are yet to come
    writer.offsets.log_end_offset = 201
    assert file.has_unsaved
    assert writer.written == []
    file.save()
    file.save()
    assert writer.written == [([(0, 0), (3, 100), (5, 200)], False)]


def test_what_was_only_saved_is_written_once_more_to_be_kept() -> None:
    file, writer = file_of()
    file.assign(5, 200)
    file.save()
    file.keep()
    file.keep()
    assert [durable for _, durable in writer.written] == [False, True]


def test_what_a_start_after_a_crash_has_found_may_not_be_on_the_disk() -> None:
    file, writer = file_of((1, 0), is_durable=False)
    file.save()
    assert writer.written == []
    file.keep()
    assert writer.written == [([(1, 0)], True)]


def test_an_entry_that_is_cut_leaves_the_file_at_once() -> None:
    file, writer = file_of((0, 0), (3, 100))
    file.truncate_from_end(200)
    assert writer.written == []
    file.truncate_from_end(100)
    assert writer.written == [([(0, 0)], True)]


def test_an_entry_that_is_cut_and_not_in_the_file_costs_nothing() -> None:
    file, writer = file_of((0, 0))
    file.assign(3, 100)
    file.truncate_from_end(100)
    assert writer.written == []
    assert file.known.entries == [(0, 0)]


def test_the_file_may_know_of_records_that_were_deleted() -> None:
    file, writer = file_of((0, 0), (3, 100))
    file.truncate_from_start(40)
    assert writer.written == []
    file.keep()
    assert writer.written == [([(0, 40), (3, 100)], True)]


def test_a_cut_leaves_the_epochs_before_it() -> None:
    file, writer = file_of((2, 10), (3, 40))
    file.truncate(50)
    assert writer.written == []
    file.truncate(40)
    file.clear()
    file.clear()
    assert writer.written == [([(2, 10)], True), ([], True)]
    assert file.known.entries == []


def test_a_file_that_the_disk_has_refused_is_written_again() -> None:
    file, writer = file_of((2, 10))
    file.mark_unsaved()
    file.truncate(50)
    file.keep()
    assert writer.written == [([(2, 10)], True)]


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("seed", range(30))
@played_by(on_a_machine, "seed")
async def test_every_record_that_is_left_after_a_crash_is_known_with_its_epoch(
    machine: Machine, seed: int, power: bool
) -> None:
    chosen = random.Random(seed)
    log, recovery_point, epoch = await machine.start(), 0, 0
    for _ in range(4):
        for _ in range(chosen.randrange(1, 25)):
            match chosen.randrange(8):
                case 0 | 1:
                    epoch += 1
                    log.epochs.assign(epoch, log.offsets.next_offset)
                case 2:
                    log.epochs.forget_unused()
                case 3:
                    await log.flush()
                    recovery_point = log.offsets.recovery_point
                case 4:
                    log.epochs.save()
                    await log.await_queued_files()
                case 5:
                    await truncate_to(log, chosen.randrange(max(log.log_end_offset - 5, 0), log.log_end_offset + 1))
                    recovery_point = min(recovery_point, log.offsets.recovery_point)
                case _:
                    await copy(log, *(f"{epoch:0100}" for _ in range(chosen.randrange(1, 6))), epoch=epoch)
        if power:
            machine.storage.crash_power()
        else:
            machine.storage.crash_process()
        log = await machine.start(min(recovery_point, chosen.choice([recovery_point, recovery_point // 2])))
        await assert_epochs_fit(log)
        recovery_point = log.offsets.recovery_point


async def assert_epochs_fit(log: PartitionLog) -> None:
    """Each value is the epoch of its record."""
    for offset, value in await all_values(log):
        assert log.epochs.epoch_of(offset) == int(value)
