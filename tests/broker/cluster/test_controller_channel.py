"""The way to the controller of now: whoever the image names, in process when it is this broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.controller_channel import ControllerChannel
from metadata.image import ClusterImage, MetadataCache
from metadata.store.znodes import ProducerIdBlock
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from protocol.topic_partition import TopicPartition
from runtime.clock import SystemClock
from tests.broker.cluster.test_controlled_shutdown import Client

OWN_ID = 1
ALLOCATE = AllocateProducerIdsRequest(broker_id=OWN_ID, broker_epoch=5)


def block(first: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, producer_id_start=first, producer_id_len=10
    )


class Site:
    """A broker's line; the image names `controller_id`, and `clients` are the lines to others."""

    def __init__(self, controller: object, clients: dict[int, Client]) -> None:
        self.metadata = MetadataCache()
        self.line = ControllerChannel(
            OWN_ID,
            controller,  # type: ignore[arg-type]
            self.metadata,
            lambda broker_id: clients[broker_id],  # type: ignore[arg-type,return-value]
            SystemClock(),
        )

    def elect(self, controller_id: int) -> None:
        self.metadata.publish(ClusterImage(controller_id=controller_id))

    async def allocate(self) -> int:
        answer = await self.line.send(ALLOCATE, 0, AllocateProducerIdsResponse)
        return answer.producer_id_start


async def test_it_goes_to_whom_the_image_names() -> None:
    clients = {2: Client(block(20)), 3: Client(block(30))}
    site = Site(None, clients)
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await site.allocate()
    site.elect(2)
    assert [await site.allocate(), await site.allocate()] == [20, 20]
    site.elect(3)
    assert await site.allocate() == 30
    assert (clients[2].is_closed, clients[3].is_closed) == (True, False)
    site.line.close()
    assert clients[3].is_closed


async def test_it_stays_in_process_where_this_broker_is_the_controller() -> None:
    asked: list[object] = []

    async def alter_partition(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        asked.append((request, version))
        return AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, topics=[])

    async def allocate_producer_ids(broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        asked.append((broker_id, broker_epoch))
        return ProducerIdBlock(broker_id, 40, 50)

    async def controlled_shutdown(broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        asked.append((broker_id, broker_epoch))
        return [("t", 3)]

    controller = SimpleNamespace(
        alter_partition=alter_partition,
        allocate_producer_ids=allocate_producer_ids,
        controlled_shutdown=controlled_shutdown,
    )
    site = Site(controller, {2: Client(block(20))})
    site.elect(OWN_ID)
    allocated = await site.line.send(ALLOCATE, 0, AllocateProducerIdsResponse)
    assert (allocated.producer_id_start, allocated.producer_id_len) == (40, 10)
    alter = AlterPartitionRequest(broker_id=OWN_ID, broker_epoch=5, topics=[])
    assert (await site.line.send(alter, 3, AlterPartitionResponse)).error_code == ErrorCode.NONE
    stop = ControlledShutdownRequest(broker_id=OWN_ID, broker_epoch=5)
    stopped = await site.line.send(stop, 3, ControlledShutdownResponse)
    assert [(row.topic_name, row.partition_index) for row in stopped.remaining_partitions] == [("t", 3)]
    assert asked == [(OWN_ID, 5), (alter, 3), (OWN_ID, 5)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
async def test_the_controllers_refusals_are_in_the_answer(code: ErrorCode) -> None:
    async def refuse(*_: Any) -> None:
        raise KafkaError(code)

    controller = SimpleNamespace(alter_partition=refuse, allocate_producer_ids=refuse, controlled_shutdown=refuse)
    site = Site(controller, {})
    site.elect(OWN_ID)
    alter = AlterPartitionRequest(broker_id=OWN_ID, broker_epoch=5, topics=[])
    stop = ControlledShutdownRequest(broker_id=OWN_ID, broker_epoch=5)
    codes = [
        (await site.line.send(ALLOCATE, 0, AllocateProducerIdsResponse)).error_code,
        (await site.line.send(alter, 3, AlterPartitionResponse)).error_code,
        (await site.line.send(stop, 3, ControlledShutdownResponse)).error_code,
    ]
    is_moved = code is ErrorCode.NOT_CONTROLLER
    assert codes == [code, code, ErrorCode.STALE_CONTROLLER_EPOCH if is_moved else code]


async def test_an_answer_is_asked_for_until_the_time_is_over() -> None:
    moved = AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NOT_CONTROLLER, producer_id_start=0, producer_id_len=0
    )
    site = Site(None, {2: Client(moved, OSError("lost"), block(20)), 3: Client(OSError("lost")), 4: Client(moved)})

    async def ask(timeout_ms: int) -> AllocateProducerIdsResponse:
        return await site.line.ask(ALLOCATE, 0, AllocateProducerIdsResponse, timeout_ms=timeout_ms)

    site.elect(2)
    assert (await ask(5_000)).producer_id_start == 20
    site.elect(3)
    with pytest.raises(OSError, match="lost"):
        await ask(0)
    for nobody in (4, -1):
        site.elect(nobody)
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await ask(0)


class Silent(Client):
    """A controller whose machine is gone: its answer never comes, and the line is not lost either."""

    def __init__(self) -> None:
        super().__init__()
        self._closed = asyncio.Event()

    async def send(self, request: Any, version: int, response_type: Any) -> Any:
        self.asked.append((request, version))
        await self._closed.wait()
        raise ConnectionError("the client was closed")

    def close(self) -> None:
        super().close()
        self._closed.set()


async def test_nobody_waits_for_a_controller_that_was_replaced() -> None:
    gone = Silent()
    site = Site(None, {2: gone, 3: Client(block(30))})
    site.elect(2)
    wish = asyncio.ensure_future(site.allocate())
    asking = asyncio.ensure_future(site.line.ask(ALLOCATE, 0, AllocateProducerIdsResponse, timeout_ms=60_000))
    while len(gone.asked) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    site.elect(2)  # whatever else an image tells
    assert not gone.is_closed
    site.elect(3)
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(wish, 60)
    assert (await asyncio.wait_for(asking, 60)).producer_id_start == 30
