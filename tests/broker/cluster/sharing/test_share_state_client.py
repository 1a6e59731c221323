"""What this broker asks share coordinators: here and on another broker, again when that may help, in order, and once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.sharing.share_state_client import ShareStateClient
from broker.handlers.sharing.delete_share_group_state import delete_share_group_state
from broker.handlers.sharing.initialize_share_group_state import initialize_share_group_state
from broker.handlers.sharing.read_share_group_state import read_share_group_state
from broker.handlers.sharing.read_share_group_state_summary import read_share_group_state_summary
from broker.handlers.sharing.write_share_group_state import write_share_group_state
from metadata.image import SHARE_GROUP_STATE_TOPIC, ClusterImage, MetadataCache
from protocol.errors import ErrorCode, KafkaError
from protocol.schema import Request
from protocol.share_states import DeliveryState, StateBatch
from replication.sharing.share_partition import StoredShare
from runtime.slices import SerialQueue
from tests.coordinator.share.share_world import KEY, ORDERS, PARTITIONS, ShareWorld, image_of

HANDLERS: dict[type[Request], Any] = {
    handler.request_type: handler
    for handler in (
        initialize_share_group_state, read_share_group_state, write_share_group_state, delete_share_group_state,
        read_share_group_state_summary,
    )
}  # fmt: skip
LIMIT_MS = 10_000
ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
HERE, ELSEWHERE = image_of(*[0] * PARTITIONS, brokers=(0, 1)), image_of(*[1] * PARTITIONS, brokers=(0, 1))
BOTH = pytest.mark.parametrize("image", [HERE, ELSEWHERE], ids=["here", "elsewhere"])


class OtherBroker:
    """A `BrokerClient` of a broker whose requests pass the handlers. `failure` is raised instead; `gate` holds requests."""

    def __init__(self, world: ShareWorld) -> None:
        services = SimpleNamespace(
            share_coordinator=world.coordinator,
            serial_queue=SerialQueue(world.clock, asyncio.get_running_loop().call_soon),
        )
        self._context = SimpleNamespace(services=services)
        self.asked: list[Any] = []
        self.failure: Exception | None = None
        self.fails_once = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_closed = False

    async def send(self, request: Any, version: int, response_type: Any) -> Any:
        self.asked.append(request)
        await self.gate.wait()
        failure = self.failure
        if self.fails_once:
            self.failure = None
        if failure is not None:
            raise failure
        received = type(request).decode(b"".join(type(request).encoder(version)(request, b"")), version)
        response = await HANDLERS[type(request)].function(received, self._context)
        return response_type.decode(b"".join(response_type.encoder(version)(response, b"")), version)

    def close(self) -> None:
        self.is_closed = True


class States:
    """The client of broker 0, whose cluster has broker 1, and both coordinators."""

    def __init__(self, local: ShareWorld, other: ShareWorld, image: ClusterImage) -> None:
        self.local, self.other_world = local, other
        self.metadata = MetadataCache()
        self.other = OtherBroker(other)
        self.ensured: list[str] = []
        self.client = ShareStateClient(
            0, self.metadata, local.coordinator, lambda _broker_id: self.other, self.ensured.append,  # type: ignore[arg-type, return-value]
            clock=local.clock, timer=local.timer, tasks=local.tasks, limit_ms=LIMIT_MS,
        )  # fmt: skip
        self.change(image)

    def change(self, image: ClusterImage) -> None:
        self.local.change(image)
        self.other_world.change(image)
        self.metadata.publish(image)

    def write(self, *offsets: int, start_offset: int = -1, done: Callable[[ErrorCode], None]) -> None:
        batches = [StateBatch(offset, offset, ACKNOWLEDGED, 1) for offset in offsets]
        self.client.write(
            *KEY, state_epoch=1, leader_epoch=5, start_offset=start_offset, delivery_complete_count=0, batches=batches,
            done=done,
        )  # fmt: skip

    async def begin(self) -> None:
        assert await self.client.initialize("g", [(ORDERS, 0, 1, 0)]) == {(ORDERS, 0): ErrorCode.NONE}

    async def wait(self, duration_ms: int) -> None:
        await self.local.advance(duration_ms)


@asynccontextmanager
async def states(image: ClusterImage) -> AsyncIterator[States]:
    async with ShareWorld(broker_id=0) as local, ShareWorld(broker_id=1) as other:
        await local.lead()
        await other.lead()
        made = States(local, other, image)
        yield made
        made.client.close()


@BOTH
async def test_all_operations(image: ClusterImage) -> None:
    async with states(image) as world:
        client, errors = world.client, list[ErrorCode]()
        rows = [(ORDERS, 0, 1, 10), (ORDERS, 1, 1, -1), (ORDERS, -1, 1, 0)]
        assert await client.initialize("g", rows) == {
            (ORDERS, 0): ErrorCode.NONE, (ORDERS, 1): ErrorCode.NONE, (ORDERS, -1): ErrorCode.INVALID_REQUEST
        }  # fmt: skip
        assert await client.read("g", ORDERS, 0, 5) == StoredShare(1, 10, 0, [])
        world.write(12, 13, start_offset=11, done=errors.append)
        await world.local.settle()
        assert errors == [ErrorCode.NONE]
        assert await client.read("g", ORDERS, 0, 5) == StoredShare(1, 11, 2, [StateBatch(12, 13, ACKNOWLEDGED, 1)])
        summaries = await client.read_summary("g", [(ORDERS, 0, -1), (ORDERS, 1, -1), (bytes(16), 0, -1)])
        assert summaries == {
            (ORDERS, 0): (1, 5, 11, 0), (ORDERS, 1): (1, 0, -1, -1),
            (bytes(16), 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }  # fmt: skip
        with pytest.raises(KafkaError) as raised:
            await client.read("g", ORDERS, 0, 4)
        assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
        assert await client.delete("g", [(ORDERS, 0), (ORDERS, 1)]) == dict.fromkeys([(ORDERS, 0), (ORDERS, 1)], 0)
        assert await client.read_summary("g", [(ORDERS, 0, -1)]) == {(ORDERS, 0): (0, 0, -1, -1)}
        assert await client.initialize("g", []) == {}


@BOTH
async def test_changes_are_stored_in_order(image: ClusterImage) -> None:
    """One at a time; what comes meanwhile goes together."""
    async with states(image) as world:
        await world.begin()
        log = (world.local if image is HERE else world.other_world).log
        log.is_holding = True
        errors: list[ErrorCode] = []
        for offset in range(5):
            world.write(offset * 2, start_offset=offset, done=errors.append)
        await world.local.settle()
        assert len(log.waiting) == 1
        for _ in range(2):
            log.commit_all()
            await world.local.settle()
        [batches] = log.batches_of.values()
        assert len(batches) == 3  # the first state, the first change, the others
        assert errors == [ErrorCode.NONE] * 5
        log.is_holding = False
        found = await world.client.read("g", ORDERS, 0, 0)
        assert (found.start_offset, [each.first_offset for each in found.batches]) == (4, [4, 6, 8])


@BOTH
async def test_a_change_that_fails_fails_those_that_build_on_it(image: ClusterImage) -> None:
    async with states(image) as world:
        await world.begin()
        log = (world.local if image is HERE else world.other_world).log
        log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        errors: list[ErrorCode] = []
        for offset in range(3):
            world.write(offset, done=errors.append)
        await world.wait(LIMIT_MS - 1)
        assert errors == []
        for _ in range(3):
            await world.wait(500)
        assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        log.refuse_with = None
        world.write(7, done=errors.append)
        await world.local.settle()
        assert errors[3:] == [ErrorCode.NONE]


async def test_a_coordinator_that_moves_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    async with states(ELSEWHERE) as world:
        await world.begin()
        world.other.failure = ConnectionError("gone")
        errors: list[ErrorCode] = []
        world.write(1, done=errors.append)
        await world.local.settle()
        assert errors == []
        world.change(image_of(*[-1] * PARTITIONS, brokers=(0,)))  # it is gone, and nobody leads
        assert world.other.is_closed
        await world.wait(500)
        async with ShareWorld(log=world.other_world.log) as successor:
            await successor.lead(1)
            world.client._local = successor.coordinator
            successor.change(HERE)
            world.change(HERE)
            for _ in range(3):
                await world.wait(500)
            assert errors == [ErrorCode.NONE]
            assert not caplog.records


async def test_the_topic_is_created_when_it_is_needed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "broker.cluster.sharing")
    async with states(image_of(brokers=(0,))) as world:
        asked = asyncio.ensure_future(world.client.initialize("g", [(ORDERS, 0, 1, 0)]))
        await world.local.settle()
        assert world.ensured == [SHARE_GROUP_STATE_TOPIC]
        world.change(HERE)
        await world.wait(500)
        assert asked.done()
        assert await asked == {(ORDERS, 0): ErrorCode.NONE}
        world.change(image_of(brokers=(0,)))
        late = asyncio.ensure_future(world.client.delete("g", [(ORDERS, 0), (ORDERS, 1)]))
        for _ in range(LIMIT_MS // 500 + 2):
            await world.wait(500)
        assert set((await late).values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert len(caplog.records) == 1


async def test_what_waits_for_one_broker_goes_in_one_request_of_a_group() -> None:
    async with states(ELSEWHERE) as world:
        world.other.gate.clear()
        rows = [(ORDERS, index % 2, 1, 0) for index in range(2)]
        asked = [asyncio.ensure_future(world.client.initialize(group, rows)) for group in ("g", "h", "g", "h")]
        await world.local.settle()
        world.other.gate.set()
        await asyncio.gather(*asked)
        rows_sent = [
            (request.group_id, sum(len(topic.partitions) for topic in request.topics)) for request in world.other.asked
        ]
        assert rows_sent == [("g", 2), ("h", 2), ("g", 2), ("h", 2)]  # none names a share partition twice


async def test_a_topic_that_the_other_broker_does_not_know_yet() -> None:
    async with states(ELSEWHERE) as world:
        world.other_world.without_orders()
        asked = asyncio.ensure_future(world.client.initialize("g", [(ORDERS, 0, 1, 0), (bytes(16), 0, 1, 0)]))
        await world.wait(100)
        assert not asked.done()
        world.other_world.change(ELSEWHERE)
        await world.wait(500)
        assert await asked == {(ORDERS, 0): ErrorCode.NONE, (bytes(16), 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_bug_fails_what_it_interrupts_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with states(ELSEWHERE) as world:
        await world.begin()
        world.other.gate.clear()
        world.other.failure, world.other.fails_once = ValueError("a bug"), True
        interrupted = asyncio.ensure_future(world.client.delete("g", [(ORDERS, 1)]))
        await world.local.settle()
        waiting = asyncio.ensure_future(world.client.read_summary("g", [(ORDERS, 0, -1)]))
        await world.local.settle()
        world.other.gate.set()
        assert await interrupted == {(ORDERS, 1): ErrorCode.UNKNOWN_SERVER_ERROR}
        assert await waiting == {(ORDERS, 0): (1, 0, 0, 0)}
        assert "a bug" in caplog.text


async def test_a_client_that_closes_answers_everything() -> None:
    async with states(ELSEWHERE) as world:
        await world.begin()
        errors: list[ErrorCode] = []
        world.other.gate.clear()
        world.write(1, done=errors.append)  # in flight
        world.write(2, done=errors.append)
        waiting = asyncio.ensure_future(world.client.delete("g", [(ORDERS, 1)]))
        await world.local.settle()
        world.client.close()
        world.other.failure = ConnectionError("closed")
        world.other.gate.set()
        assert await waiting == {(ORDERS, 1): ErrorCode.COORDINATOR_NOT_AVAILABLE}
        await world.local.settle()
        assert len(errors) == 2
        assert set(errors) <= {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
        world.write(3, done=errors.append)
        assert errors[2:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@BOTH
async def test_a_state_of_records_that_is_not_known(image: ClusterImage) -> None:
    async with states(image) as world:
        await world.begin()
        batches: Any = [StateBatch(1, 2, 9, 1)]  # type: ignore[arg-type]
        errors: list[ErrorCode] = []
        world.client.write(
            *KEY, state_epoch=1, leader_epoch=5, start_offset=-1, delivery_complete_count=0, batches=batches,
            done=errors.append,
        )  # fmt: skip
        await world.local.settle()
        assert errors == [ErrorCode.NONE]
        with pytest.raises(KafkaError, match="9 is not a valid DeliveryState"):
            await world.client.read("g", ORDERS, 0, 5)
