"""The partition's side of transactions: markers, the last stable offset, and the transaction index through everything that
happens to a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.control import ControlType
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_segments_before, raise_log_start_offset
from storage.segments.segment_files import TXN_INDEX_SUFFIX
from storage.segments.txn_index import AbortedTxn
from tests.storage.log.producers.transacting import Transactional, play, stored
from tests.storage.logs import Outcome, World, append, append_records, batch, config, open_log, read, world

SMALL = config(segment_bytes=1000, index_interval_bytes=100)


async def indexed(world: World, log: PartitionLog) -> list[AbortedTxn]:
    """What the log says of all aborted transactions, which is what its files say."""
    await log.await_appends()
    found = await log.reading.aborted_transactions(0, 1 << 40)
    assert found == stored(world, log)
    return found


def txn_files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "t-0").glob(f"*{TXN_INDEX_SUFFIX}*"))


async def aborted_at(log: PartitionLog, offset: int, max_bytes: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of what a consumer is told that reads `max_bytes` at `offset`."""
    content = await read(log, offset, max_bytes=max_bytes)
    found = log.reading.aborted_in(offset, len(content))
    again, cold = await log.reading.read_cold_with_aborted(
        offset, limit_offset=log.log_end_offset, max_bytes=max_bytes, at_least_one=True
    )
    assert again == content
    assert found is None or found == cold
    return [(each.producer_id, each.first_offset) for each in cold]


# --- markers ---


async def test_a_transaction_holds_the_stable_offset_until_its_marker_is_committed(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 1)
        await append(log, "before")
        await one.write("a", "b")
        assert (log.producers.states.first_unstable_offset, log.commit(3)) == (1, 1)
        await append_records(log, one.marker(ControlType.COMMIT), origin=AppendOrigin.COORDINATOR)
        assert log.commit(3) == 1, "the marker is not committed yet"
        assert log.commit(4) == 4
        assert log.producers.states.first_unstable_offset is None


async def test_what_lies_before_the_start_is_stable(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        await Transactional(log, 1).write("a", "b")
        await append(log, "c", "d")
        log.commit(4)
        raise_log_start_offset(log, 3)
        assert log.commit(4) == 3


async def test_who_was_overtaken_ends_no_transaction(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 1, epoch=3, coordinator_epoch=5)
        await one.write("a")
        await one.commit()
        end = log.offsets.next_offset
        for change, code in (
            ({"coordinator_epoch": 4}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            ({"epoch": 2}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ):
            old = Transactional(log, 1, **{"epoch": 3, "coordinator_epoch": 5, **change})
            with pytest.raises(KafkaError) as refused:
                await old.abort()
            assert refused.value.code is code
        assert log.offsets.next_offset == end and log.failure is None
        await one.abort()  # of nothing: a coordinator may repeat itself
        assert await indexed(here, log) == []


async def test_a_coordinators_records_are_checked_for_their_epoch(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        await Transactional(log, 1, epoch=1).write("a")
        offsets = {"producer_id": 1, "base_sequence": -1, "is_transactional": True}
        with pytest.raises(KafkaError) as refused:
            await append_records(log, batch("x", producer_epoch=0, **offsets), origin=AppendOrigin.COORDINATOR)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        await append_records(log, batch("x", producer_epoch=1, **offsets), origin=AppendOrigin.COORDINATOR)


# --- the index ---


async def test_aborted_transactions_are_indexed_and_told(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one, two = Transactional(log, 1), Transactional(log, 2)
        await one.write("a", "b")
        await two.write("c")
        await one.abort()
        await two.commit()
        await two.write("d")
        await two.abort()
        assert await indexed(here, log) == [AbortedTxn(1, 0, 3, 2), AbortedTxn(2, 5, 6, 7)]
        assert await aborted_at(log, 0, 1 << 20) == [(1, 0), (2, 5)]
        assert await aborted_at(log, 4, 1 << 20) == [(2, 5)]
        assert txn_files(tmp_path) == ["00000000000000000000.txnindex"]


async def test_without_aborted_transactions_there_is_no_file(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        one = Transactional(log, 1)
        for turn in range(20):
            await one.write(f"a{turn}" * 10)
            await one.commit()
        assert len(log.segments) > 2
        assert await aborted_at(log, 0, 1 << 20) == []
        await log.close()
        assert txn_files(tmp_path) == []


async def test_a_read_is_told_of_markers_in_later_segments(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        long, short = Transactional(log, 1), Transactional(log, 2)
        await long.write("long")
        for turn in range(12):
            await short.write(f"short {turn}" * 10)
            await (short.commit() if turn % 2 else short.abort())
        await long.abort()
        assert len(log.segments) >= 3
        told = await aborted_at(log, 0, 200)
        assert told[-1] == (1, 0) and len(told) < 7, "what begins behind the read and ends early is left out"
        everything = await indexed(here, log)
        assert [each.last_stable_offset for each in everything] == [0] * 6 + [log.log_end_offset]
        for offset in range(log.log_end_offset):
            expected = {(each.producer_id, each.first_offset) for each in everything if each.last_offset >= offset}
            assert set(await aborted_at(log, offset, 1 << 20)) <= expected
            assert (1, 0) in set(await aborted_at(log, offset, 1))


async def test_a_follower_indexes_what_it_copies(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path / "leader"), SMALL)
        await play(log, 12)
        copy = await open_log(here, str(tmp_path / "follower"), SMALL)
        while copy.log_end_offset < log.log_end_offset:
            content = await read(log, copy.log_end_offset, max_bytes=700)
            await append_records(copy, content, origin=AppendOrigin.REPLICA)
        assert await indexed(here, copy) == await indexed(here, log)
        assert copy.producers.states.to_snapshot() == log.producers.states.to_snapshot()
        assert copy.commit(copy.log_end_offset) == log.commit(log.log_end_offset)


async def test_a_marker_waits_with_what_is_before_it_for_a_closed_segment(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 1)
        await one.write("a")
        await log.close()
        log = await open_log(here, str(tmp_path), is_clean=True, recovery_point=1)
        one, outcomes = Transactional(log, 1, sequence=1), [Outcome(), Outcome()]
        for records, origin, done in (
            (
                batch("b", producer_id=1, producer_epoch=0, base_sequence=1, is_transactional=True),
                AppendOrigin.CLIENT,
                0,
            ),
            (one.marker(ControlType.ABORT), AppendOrigin.COORDINATOR, 1),
        ):
            log.append(records, leader_epoch=0, origin=origin, now_ms=0, done=outcomes[done])
        await log.await_appends()
        assert all(each.is_written for each in outcomes)
        assert await indexed(here, log) == [AbortedTxn(1, 0, 2, 3)]


async def test_an_index_is_read_when_it_is_needed(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        await play(log, 12)
        expected, end = await indexed(here, log), log.log_end_offset
        told = {offset: await aborted_at(log, offset, 300) for offset in range(end)}
        await log.close()
        log = await open_log(here, str(tmp_path), SMALL, is_clean=True, recovery_point=end)
        indexes = [segment.txn_index for segment in log.segments if segment.txn_index is not None]
        assert indexes and all(index.content is None for index in indexes)
        assert log.reading.aborted_in(0, 100) is None, "that takes the disk"
        assert {offset: await aborted_at(log, offset, 300) for offset in range(end)} == told
        assert log.reading.aborted_in(0, 100) is not None
        assert await indexed(here, log) == expected
        await play(log, 3, first_producer=7)
        assert (await indexed(here, log))[: len(expected)] == expected


# --- both ends ---


@pytest.mark.parametrize("offset", [0, 1, 7, 20, 33, 47, 59])
async def test_a_cut_takes_the_index_along(tmp_path: Path, offset: int) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        await play(log, 12)
        expected = [each for each in await indexed(here, log) if each.last_offset < offset]
        await truncate_to(log, offset)
        assert await indexed(here, log) == expected
        await play(log, 2, first_producer=20)
        assert (await indexed(here, log))[: len(expected)] == expected
        assert len(await indexed(here, log)) > len(expected)


async def test_nothing_is_left_of_a_log_that_begins_again(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        await play(log, 12)
        await truncate_fully_and_start_at(log, 100)
        assert await indexed(here, log) == [] and txn_files(tmp_path) == []
        one = Transactional(log, 1)
        await one.write("a")
        await one.abort()
        assert await indexed(here, log) == [AbortedTxn(1, 100, 101, 102)]


async def test_an_index_goes_with_its_segment(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        await play(log, 12)
        before = await indexed(here, log)
        assert await delete_segments_before(log, 30) > 0
        first = log.segments.first.base_offset
        assert await indexed(here, log) == [each for each in before if each.last_offset >= first]
        aside = [name for name in txn_files(tmp_path) if name.endswith(".deleted")]
        assert aside and {f"{tmp_path}/t-0/{name}" for name in aside} <= set(here.doomed)


# --- loading ---


@pytest.mark.parametrize("lost", ["nothing", "indexes", "snapshots", "both"])
async def test_recovery_makes_the_index_again(tmp_path: Path, lost: str) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        await play(log, 12)
        expected, producers = await indexed(here, log), log.producers.states.to_snapshot()
        await log.close(flush=False)
        for suffix in {"indexes": [".txnindex"], "snapshots": [".snapshot"], "both": [".txnindex", ".snapshot"]}.get(
            lost, []
        ):
            for path in (tmp_path / "t-0").glob(f"*{suffix}"):
                path.unlink()
        log = await open_log(here, str(tmp_path), SMALL)
        assert await indexed(here, log) == expected
        assert log.producers.states.to_snapshot() == producers


async def test_recovery_forgets_markers_that_are_torn_off(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 1)
        await one.write("a")
        await one.abort()
        await one.write("b")
        await one.abort()
        await log.close(flush=False)
        path = tmp_path / "t-0" / "00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:-5])
        log = await open_log(here, str(tmp_path))
        assert await indexed(here, log) == [AbortedTxn(1, 0, 1, 2)]
        assert log.commit(log.log_end_offset) == 2, "the second transaction is open again"


@pytest.mark.parametrize("damage", ["cut", "zeros", "of another segment", "of another version"])
async def test_an_index_that_cannot_be_right_is_made_again(tmp_path: Path, damage: str) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), SMALL)
        await play(log, 12)
        expected, end = await indexed(here, log), log.log_end_offset
        await log.close()
        first, *_, last = sorted((tmp_path / "t-0").glob("*.txnindex"))
        content = last.read_bytes()
        last.write_bytes(
            {
                "cut": content[:-1],
                "zeros": bytes(len(content)),
                "of another segment": first.read_bytes(),
                "of another version": b"\0\1" + content[2:],
            }[damage]
        )
        log = await open_log(here, str(tmp_path), SMALL, is_clean=True, recovery_point=end)
        assert await indexed(here, log) == expected
        assert last.read_bytes() == content


async def test_snapshots_of_earlier_ends_go_at_the_next_start(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        end = 0
        for turn in range(4):
            log = await open_log(here, str(tmp_path), SMALL, is_clean=turn > 0, recovery_point=end if turn else None)
            await play(log, 3, first_producer=1 + 2 * turn)
            end = log.log_end_offset
            await log.close()
        log = await open_log(here, str(tmp_path), SMALL, is_clean=True, recovery_point=end)
        snapshots = {int(path.stem) for path in (tmp_path / "t-0").glob("*.snapshot")}
        bases = {segment.base_offset for segment in log.segments} - {0}
        assert snapshots == bases | {end}


async def test_a_snapshot_of_records_that_are_lost_goes(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        await play(log, 2)
        end = log.log_end_offset
        await log.close()
        path = tmp_path / "t-0" / "00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:-5])
        log = await open_log(here, str(tmp_path))
        assert log.log_end_offset < end
        assert not list((tmp_path / "t-0").glob(f"*{end}.snapshot"))


async def test_a_broken_index_of_a_torn_segment_is_made_of_what_is_left(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 1)
        for _ in range(3):
            await one.write("a")
            await one.abort()
        expected = (await indexed(here, log))[:2]
        await log.close(flush=False)
        content = bytearray((tmp_path / "t-0" / "00000000000000000000.log").read_bytes())
        content[-8] ^= 0xFF  # in the last marker
        (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(content)
        (tmp_path / "t-0" / "00000000000000000000.txnindex").write_bytes(b"no index")
        log = await open_log(here, str(tmp_path))
        assert await indexed(here, log) == expected
        assert log.commit(log.log_end_offset) == 4


async def test_a_marker_that_nobody_can_read_keeps_no_log_from_opening(tmp_path: Path) -> None:
    """After a clean stop checksums are not looked at."""
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 1)
        await one.write("a")
        await one.abort()
        end, place = log.log_end_offset, len(one.marker(ControlType.ABORT))
        await log.close()
        path = tmp_path / "t-0" / "00000000000000000000.log"
        content = bytearray(path.read_bytes())
        content[len(content) - place + 61 :] = bytes(place - 61)  # the header stays
        path.write_bytes(content)
        (tmp_path / "t-0" / "00000000000000000000.txnindex").write_bytes(b"no index")
        log = await open_log(here, str(tmp_path), is_clean=True, recovery_point=end)
        assert log.log_end_offset == end
        assert await indexed(here, log) == []
