"""The transaction coordinator: elections, loads, producer ids, markers that come back late, what is done from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from coordinator.transaction.descriptions import TransactionFilter
from coordinator.transaction.markers import MarkerOutcome
from coordinator.transaction_coordinator import TransactionCoordinator, TransactionCoordinatorSettings
from protocol.errors import ErrorCode, KafkaError
from runtime.tasks import TaskScope
from runtime.timer import Timer
from tests.async_tests import played_by
from tests.coordinator.transaction.coordinator_world import PARTITIONS, TransactionWorld
from tests.coordinator.world import ManualCallLater, ManualClock, MemoryLog

ORDERS = ("orders", 0)
NONE = ErrorCode.NONE
ALL = TransactionFilter(frozenset(), frozenset())


@dataclass
class Bench:
    world: TransactionWorld
    call_later: ManualCallLater

    @property
    def coordinator(self) -> TransactionCoordinator:
        return self.world.coordinator

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def advance(self, duration_ms: int) -> None:
        self.call_later.advance(duration_ms)
        await self.settle()

    async def init(self, name: str = "t") -> tuple[ErrorCode, int, int]:
        response = await self.coordinator.init_producer_id(name, 60_000, None)
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch

    def partition(self, name: str = "t") -> int:
        partition = self.coordinator.partition_for(name)
        assert partition is not None
        return partition

    def state(self, name: str = "t") -> str:
        return self.coordinator.describe(name).transaction_state


def on_a_bench(scenario: Callable[[Bench], Awaitable[None]], *, lead: bool = True) -> None:
    async def run() -> None:
        clock = ManualClock()
        call_later = ManualCallLater(clock)
        tasks = TaskScope("test")
        bench = Bench(TransactionWorld(clock, Timer(clock, call_later), tasks), call_later)
        if lead:
            await bench.world.lead()
        try:
            await scenario(bench)
        finally:
            bench.coordinator.close()
            await tasks.close()

    asyncio.run(run())


@played_by(on_a_bench)
async def test_a_transaction_from_its_begin_to_its_end(bench: Bench) -> None:
    assert await bench.init() == (NONE, 1000, 0)
    assert (await bench.coordinator.add_partitions("t", 1000, 0, [ORDERS])).error_code is NONE
    assert bench.coordinator.verify_partitions("t", 1000, 0, [ORDERS]) == {ORDERS: NONE}
    assert (await bench.coordinator.end_transaction("t", 1000, 0, is_commit=True)).error_code is NONE
    assert bench.state() == "PrepareCommit"
    bench.world.markers.complete()
    assert bench.state() == "CompleteCommit"


@played_by(on_a_bench)
async def test_markers_that_are_written_immediately_complete_before_anything_else(bench: Bench) -> None:
    bench.world.markers.is_immediate = True
    await bench.init()
    await bench.coordinator.add_partitions("t", 1000, 0, [ORDERS])
    assert (await bench.coordinator.end_transaction("t", 1000, 0, is_commit=False)).error_code is NONE
    assert bench.state() == "CompleteAbort"


# --- who coordinates ---


async def errors(bench: Bench) -> set[ErrorCode]:
    return {
        (await bench.init())[0],
        (await bench.coordinator.add_partitions("t", 1000, 0, [ORDERS])).error_code,
        bench.coordinator.verify_partitions("t", 1000, 0, [ORDERS])[ORDERS],
        (await bench.coordinator.end_transaction("t", 1000, 0, is_commit=True)).error_code,
        ErrorCode(bench.coordinator.describe("t").error_code),
    }


@played_by(on_a_bench, lead=False)
async def test_before_the_start_and_after_the_end_it_is_not_available(bench: Bench) -> None:
    assert await errors(bench) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    await bench.world.lead()
    bench.coordinator.close()
    assert await errors(bench) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert bench.world.markers.cancelled == list(range(PARTITIONS))


@played_by(on_a_bench)
async def test_another_broker_coordinates_what_is_not_led_here(bench: Bench) -> None:
    bench.coordinator.on_resignation(bench.partition())
    assert await errors(bench) == {ErrorCode.NOT_COORDINATOR}


@played_by(on_a_bench)
async def test_while_the_partition_is_loaded_the_client_waits(bench: Bench) -> None:
    partition = bench.partition()
    bench.coordinator.on_resignation(partition)
    bench.world.log.gate = asyncio.Event()
    bench.coordinator.on_leadership(partition, 1)
    await bench.settle()
    assert await errors(bench) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert await bench.coordinator.list_transactions(ALL) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    bench.world.log.gate.set()
    await bench.settle()
    assert await bench.init() == (NONE, 1000, 0)


# --- producer ids ---


@played_by(on_a_bench)
async def test_without_a_producer_id_the_client_tries_again(bench: Bench) -> None:
    bench.world.producer_ids.failure = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (await bench.init())[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.world.producer_ids.failure = None
    assert await bench.init() == (NONE, 1000, 0)


@played_by(on_a_bench)
async def test_two_producers_that_begin_together_do_not_get_the_same_epoch(bench: Bench) -> None:
    first, second = await asyncio.gather(bench.init(), bench.init())
    assert first == (NONE, 1000, 0)
    assert second == (NONE, 1000, 1), "its producer id is not used"


@played_by(on_a_bench)
async def test_the_partition_may_move_while_a_producer_id_is_awaited(bench: Bench) -> None:
    partition = bench.partition()
    bench.world.producer_ids.on_ask = lambda: bench.coordinator.on_resignation(partition)
    assert (await bench.init())[0] is ErrorCode.NOT_COORDINATOR


# --- elections and markers ---


async def prepared(bench: Bench) -> None:
    await bench.init()
    await bench.coordinator.add_partitions("t", 1000, 0, [ORDERS])
    await bench.coordinator.end_transaction("t", 1000, 0, is_commit=True)


@played_by(on_a_bench)
async def test_a_resignation_forgets_the_markers_and_a_late_outcome_reaches_nobody(bench: Bench) -> None:
    await prepared(bench)
    [(_, done)] = list(bench.world.markers.asked)
    partition = bench.partition()
    bench.coordinator.on_resignation(partition)
    assert bench.world.markers.cancelled == [partition] and bench.world.markers.asked == []
    bench.coordinator.on_leadership(partition, 1)
    await bench.settle()
    [(again, _)] = bench.world.markers.asked
    assert again.coordinator_epoch == 1
    done(MarkerOutcome.COMPLETE)
    assert bench.state() == "PrepareCommit"


@played_by(on_a_bench)
async def test_the_next_coordinator_completes_what_it_loads(bench: Bench) -> None:
    await prepared(bench)
    partition = bench.partition()
    bench.coordinator.on_resignation(partition)
    bench.coordinator.on_leadership(partition, 1)
    await bench.settle()
    bench.world.markers.complete()
    assert bench.state() == "CompleteCommit"


@played_by(on_a_bench)
async def test_a_reelection_asks_again_under_the_new_epoch(bench: Bench) -> None:
    await prepared(bench)
    partition = bench.partition()
    bench.coordinator.on_leadership(partition, 5)
    assert bench.world.markers.cancelled == [partition]
    [(markers, _)] = bench.world.markers.asked
    assert markers.coordinator_epoch == 5
    bench.coordinator.on_resignation(partition, 4)
    assert bench.state() == "PrepareCommit", "an old resignation"
    assert bench.world.markers.cancelled == [partition]
    bench.world.markers.complete()
    assert bench.state() == "CompleteCommit"


@played_by(on_a_bench)
async def test_who_waits_for_a_commit_is_told_when_the_leadership_ends(bench: Bench) -> None:
    await bench.init()
    bench.world.log.is_holding = True
    adding = asyncio.create_task(bench.coordinator.add_partitions("t", 1000, 0, [ORDERS]))
    await bench.settle()
    assert (
        await bench.coordinator.add_partitions("t", 1000, 0, [ORDERS])
    ).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.coordinator.on_resignation(bench.partition())
    assert (await adding).error_code is ErrorCode.NOT_COORDINATOR


@played_by(on_a_bench)
async def test_a_commit_that_takes_longer_than_a_request_may_is_answered(bench: Bench) -> None:
    await bench.init()
    bench.world.log.is_holding = True
    adding = asyncio.create_task(bench.coordinator.add_partitions("t", 1000, 0, [ORDERS]))
    await bench.settle()
    await bench.advance(TransactionCoordinatorSettings().commit_timeout_ms)
    assert (await adding).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.world.log.commit_all()
    assert bench.state() == "Ongoing"


@played_by(on_a_bench)
async def test_an_append_that_is_refused_has_the_error_that_a_client_understands(bench: Bench) -> None:
    bench.world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await bench.init())[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- from time to time ---


@played_by(on_a_bench)
async def test_transactions_that_time_out_are_aborted_at_the_next_check(bench: Bench) -> None:
    await bench.init()
    await bench.coordinator.add_partitions("t", 1000, 0, [ORDERS])
    await bench.advance(60_000)
    assert bench.state() == "Ongoing"
    await bench.advance(10_000)
    assert bench.state() == "PrepareAbort"
    bench.world.markers.complete()
    assert (
        await bench.coordinator.end_transaction("t", 1000, 0, is_commit=True)
    ).error_code is ErrorCode.PRODUCER_FENCED
    assert await bench.init() == (NONE, 1000, 2)


def test_ids_that_nobody_uses_expire_at_the_next_check(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def scenario(bench: Bench) -> None:
        for number in range(10):
            await bench.init(f"t{number}")
        await bench.advance(8 * 24 * 3_600_000)
        assert await bench.coordinator.list_transactions(ALL) == (NONE, [])
        assert bench.world.log.batches_of

    on_a_bench(scenario)
    lines = [record.getMessage() for record in caplog.records if "expired" in record.getMessage()]
    assert sum(int(line.rpartition("=")[2]) for line in lines) == 10


def test_a_log_that_was_written_before_is_loaded() -> None:
    log = MemoryLog()

    async def run(check: Callable[[TransactionCoordinator], Awaitable[None]]) -> None:
        clock = ManualClock()
        call_later = ManualCallLater(clock)
        tasks = TaskScope("test")
        world = TransactionWorld(clock, Timer(clock, call_later), tasks, log=log)
        await world.lead()
        await check(world.coordinator)
        world.coordinator.close()
        await tasks.close()

    async def write(coordinator: TransactionCoordinator) -> None:
        await coordinator.init_producer_id("t", 60_000, None)
        await coordinator.add_partitions("t", 1000, 0, [ORDERS])

    async def read(coordinator: TransactionCoordinator) -> None:
        row = coordinator.describe("t")
        assert (row.transaction_state, row.producer_id) == ("Ongoing", 1000)

    asyncio.run(run(write))
    asyncio.run(run(read))
