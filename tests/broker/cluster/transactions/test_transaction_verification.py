"""Questions to transaction coordinators: on this broker, on others, and on those that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

import pytest

from broker.cluster.transactions.transaction_verification import ADD_PAUSES_MS, CoordinatorVerification
from client.event_loop.broker_client import BrokerClient
from coordinator.runtime.partitioner import partition_for
from metadata.image import TRANSACTION_STATE_TOPIC, ClusterImage, MetadataCache
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.schema import Request
from protocol.topic_partition import TopicPartition
from runtime.tasks import TaskScope
from tests.async_tests import simulated
from tests.broker.cluster.transactions.test_marker_queues import image_of
from tests.broker.cluster.transactions.test_verification_queues import A, B, response
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop

OWN_ID = 1
# Two partitions, the second one led by broker 2.
IMAGE = image_of({(TRANSACTION_STATE_TOPIC, 0): 1, (TRANSACTION_STATE_TOPIC, 1): 2})
HERE = next(name for name in "abcdefgh" if partition_for(name, 2) == 0)
THERE, OTHER = [name for name in "abcdefgh" if partition_for(name, 2) == 1][:2]


class Peer:
    """A coordinator's broker; `errors` are what it says of partitions."""

    def __init__(self, newest_version: int = 5) -> None:
        self.newest_version = newest_version
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.asked: list[tuple[list[str], int]] = []
        self.verify_only: list[bool] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_connected = False
        self.is_closed = False
        self.negotiations = 0

    async def send(self, request: Request, version: int, _response_type: type) -> Any:
        self.is_connected = True
        if isinstance(request, ApiVersionsRequest):
            self.negotiations += 1
            row = ApiVersion(api_key=24, min_version=0, max_version=self.newest_version)
            return ApiVersionsResponse(error_code=0, api_keys=[row])
        assert isinstance(request, AddPartitionsToTxnRequest)
        self.asked.append(([each.transactional_id for each in request.transactions], version))
        self.verify_only += [each.verify_only for each in request.transactions]
        await self.may_answer.wait()
        if self.is_closed:
            raise ConnectionError("the connection is lost")
        rows = {
            each.transactional_id: {
                (topic.name, index): self.errors.get((topic.name, index), ErrorCode.NONE)
                for topic in each.topics
                for index in topic.partitions
            }
            for each in request.transactions
        }
        return response(cast(dict[str, dict[TopicPartition, int]], rows), version=version)

    def close(self) -> None:
        self.is_closed = True
        self.may_answer.set()


class Site:
    def __init__(self, loop: SimLoop, tasks: TaskScope, image: ClusterImage = IMAGE) -> None:
        self.metadata = MetadataCache()
        self.metadata.publish(image)
        self.peer = Peer()
        self.local: list[tuple[str, int, int]] = []
        self.local_error = ErrorCode.NONE
        self.add_errors: list[ErrorCode] = []  # of the next additions on this broker
        self.failed = self.verified_count = self.verified_ms = 0
        self.verification = CoordinatorVerification(
            OWN_ID,
            self.metadata,
            lambda _: cast(BrokerClient, self.peer),
            self._locally,
            self._add_locally,
            clock=SimClock(loop),
            tasks=tasks,
            metrics=self,
        )

    def _locally(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self.local.append((transactional_id, producer_id, producer_epoch))
        return dict.fromkeys(partitions, self.local_error)

    async def _add_locally(self, *producer_and_partitions: Any) -> ErrorCode:
        *producer, _ = producer_and_partitions
        self.local.append(tuple(producer))
        return self.add_errors.pop(0) if self.add_errors else ErrorCode.NONE

    def verification_failed(self, partitions_count: int) -> None:
        self.failed += partitions_count

    def verified(self, time_ms: int) -> None:
        self.verified_count += 1
        self.verified_ms += time_ms

    async def verify(self, name: str, *partitions: TopicPartition, epoch: int = 0) -> dict[TopicPartition, ErrorCode]:
        return await self.verification.verify(name, 7, epoch, partitions)

    def start(self, name: str, *, epoch: int = 0) -> asyncio.Task[dict[TopicPartition, ErrorCode]]:
        return asyncio.ensure_future(self.verify(name, A, epoch=epoch))


@pytest.mark.parametrize(
    ("answered", "means"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
@simulated(1)
async def test_the_coordinator_on_this_broker_is_asked_in_process(
    loop: SimLoop, answered: ErrorCode, means: ErrorCode
) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        site.local_error = answered
        assert site.verification.verify_here(HERE, 7, 3, [A, B]) == {A: means, B: means}
        assert await site.verify(HERE, A) == {A: means}
        assert site.local == [(HERE, 7, 3), (HERE, 7, 0)] and site.peer.asked == []
        assert site.failed == (0 if means is ErrorCode.NONE else 3) and site.verified_count == 2


@simulated(1)
async def test_another_broker_s_coordinator_is_asked_by_request(loop: SimLoop) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        site.peer.errors[B] = ErrorCode.TRANSACTION_ABORTABLE
        assert site.verification.verify_here(THERE, 7, 0, [A]) is None
        assert await site.verify(THERE, A, B) == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
        assert await site.verify(THERE, A) == {A: ErrorCode.NONE}
        assert site.peer.asked == [([THERE], 5)] * 2 and site.peer.negotiations == 1
        assert (site.failed, site.verified_count, site.local) == (1, 2, [])


@simulated(1)
async def test_what_comes_while_a_request_is_in_flight_goes_together(loop: SimLoop) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        site.peer.may_answer.clear()
        waiting = [site.start(THERE)]
        await asyncio.sleep(0.5)
        waiting += [site.start(OTHER), site.start(THERE)]
        await asyncio.sleep(0.5)
        assert len(site.peer.asked) == 1
        site.peer.may_answer.set()
        assert await asyncio.gather(*waiting) == [{A: ErrorCode.NONE}] * 3
        assert [names for names, _ in site.peer.asked] == [[THERE], [OTHER, THERE]]
        assert site.verified_ms == 1000 + 2 * 500


@simulated(1)
async def test_a_question_that_is_displaced_is_answered_immediately(loop: SimLoop) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        site.peer.may_answer.clear()
        site.start(OTHER)
        await asyncio.sleep(0)
        first, second = site.start(THERE, epoch=1), site.start(THERE, epoch=1)
        assert await first == {A: ErrorCode.NETWORK_EXCEPTION}
        third, fourth = site.start(THERE, epoch=2), site.start(THERE, epoch=1)
        assert await second == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await fourth == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
        site.peer.may_answer.set()
        assert await third == {A: ErrorCode.NONE}


@pytest.mark.parametrize(
    "image",
    [
        ClusterImage(brokers=IMAGE.brokers),
        image_of({(TRANSACTION_STATE_TOPIC, 0): 1, (TRANSACTION_STATE_TOPIC, 1): -1}),
        image_of({(TRANSACTION_STATE_TOPIC, 0): 1, (TRANSACTION_STATE_TOPIC, 1): 2}, alive=(1, 3)),
    ],
)
@simulated(1)
async def test_without_a_coordinator_nobody_is_asked(loop: SimLoop, image: ClusterImage) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks, image)
        assert await site.verify(THERE, A) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert site.peer.asked == []


@simulated(1)
async def test_a_broker_that_cannot_verify_confirms(loop: SimLoop) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        site.peer.newest_version = 3
        assert await site.verify(THERE, A) == {A: ErrorCode.NONE}
        site.peer.is_connected, site.peer.newest_version = False, 4  # it was upgraded
        assert await site.verify(THERE, A) == {A: ErrorCode.NONE}
        assert site.peer.asked == [([THERE], 4)]


@pytest.mark.parametrize(
    ("answered", "means", "asked"),
    [
        ([], ErrorCode.NONE, 1),
        ([ErrorCode.CONCURRENT_TRANSACTIONS] * 3, ErrorCode.NONE, 4),
        ([ErrorCode.CONCURRENT_TRANSACTIONS] * 50, ErrorCode.CONCURRENT_TRANSACTIONS, len(ADD_PAUSES_MS) + 1),
        ([ErrorCode.PRODUCER_FENCED], ErrorCode.INVALID_PRODUCER_EPOCH, 1),
        ([ErrorCode.NOT_COORDINATOR], ErrorCode.NOT_COORDINATOR, 1),
    ],
)
@simulated(1)
async def test_the_coordinator_on_this_broker_adds_once_the_markers_before_are_written(
    loop: SimLoop, answered: list[ErrorCode], means: ErrorCode, asked: int
) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        site.add_errors = list(answered)
        assert await site.verification.add(HERE, 7, 3, [A, B]) == {A: means, B: means}
        assert site.local == [(HERE, 7, 3)] * asked and site.peer.asked == []
        assert loop.time() * 1000 == pytest.approx(sum(ADD_PAUSES_MS[: asked - 1]), abs=1)


@simulated(1)
async def test_another_broker_s_coordinator_adds_by_request(loop: SimLoop) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        assert await site.verification.add(THERE, 7, 0, [A, B]) == {A: ErrorCode.NONE, B: ErrorCode.NONE}
        assert await site.verify(THERE, A) == {A: ErrorCode.NONE}
        assert site.peer.verify_only == [False, True]
        site.peer.is_connected, site.peer.newest_version = False, 3  # a broker that cannot add
        assert await site.verification.add(THERE, 7, 0, [A]) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}


@simulated(1)
async def test_a_lost_connection_fails_who_waits_and_the_next_ones_are_sent(loop: SimLoop) -> None:
    async with TaskScope("verify") as tasks:
        site = Site(loop, tasks)
        peer = site.peer
        peer.may_answer.clear()
        first = site.start(THERE)
        await asyncio.sleep(0.1)
        second = site.start(OTHER)
        await asyncio.sleep(0)
        site.peer = Peer()
        site.metadata.publish(image_of({(TRANSACTION_STATE_TOPIC, 0): 1, (TRANSACTION_STATE_TOPIC, 1): -1}, alive=(1,)))
        assert await first == {A: ErrorCode.NETWORK_EXCEPTION}
        assert peer.is_closed and await second == {A: ErrorCode.NONE}
        assert site.failed == 1


@simulated(1)
async def test_whoever_gave_up_is_not_answered_and_a_stopping_broker_asks_nobody(loop: SimLoop) -> None:
    tasks = TaskScope("verify")
    site = Site(loop, tasks)
    site.peer.may_answer.clear()
    gone, waiting = site.start(THERE), site.start(OTHER)
    await asyncio.sleep(0.1)
    gone.cancel()
    queued = site.start(THERE)
    await asyncio.sleep(0)
    site.verification.close()
    assert await waiting == await queued == {A: ErrorCode.NETWORK_EXCEPTION}
    await tasks.close()
    assert await site.verify(THERE, A) == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(site.peer.asked) == 1
