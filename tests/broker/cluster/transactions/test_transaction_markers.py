"""Markers on their way: responses, lost connections, brokers that go, this broker's own partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from broker.cluster.transactions.transaction_markers import RETRY_MS, TransactionMarkerSender
from client.event_loop.broker_client import BrokerClient
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
from metadata.image import TRANSACTION_STATE_TOPIC, ClusterImage, MetadataCache
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.schema import Request
from protocol.transaction_version import EPOCH_BUMPS
from replication.marker_appender import MarkerErrors
from runtime.tasks import TaskScope
from runtime.timer import Timer
from tests.async_tests import simulated
from tests.broker.cluster.transactions.test_marker_queues import A, B, C, image_of, markers
from tests.broker.cluster_world import ClusterWorld
from tests.broker.test_cluster_transactions import produce_in_transaction, stable_end
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop

OWN_ID = 1
IMAGE = image_of({A: 1, B: 2, C: 2})


class Peer:
    """A broker that answers when it is told to; `error` is for every partition."""

    def __init__(self) -> None:
        self.asked: list[list[WritableTxnMarker]] = []
        self.versions: set[int] = set()
        self.newest_version = 1
        self.is_connected = False
        self.error = ErrorCode.NONE
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_closed = False
        self._is_lost = False
        self.code: int | None = None

    async def send(self, request: Request, version: int, _response_type: type) -> Any:
        if isinstance(request, ApiVersionsRequest):
            self.is_connected = True
            row = ApiVersion(api_key=WriteTxnMarkersRequest.api_key, min_version=0, max_version=self.newest_version)
            return ApiVersionsResponse(error_code=0, api_keys=[row])
        assert isinstance(request, WriteTxnMarkersRequest)
        self.asked.append(request.markers)
        self.versions.add(version)
        await self.may_answer.wait()
        if self._is_lost:
            self._is_lost = False
            raise ConnectionError("the connection is lost")
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self.error if self.code is None else self.code
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def lose(self) -> None:
        self._is_lost = True
        self.may_answer.set()

    def close(self) -> None:
        self.is_closed = True
        self.lose()


class Site:
    """A sender on broker 1, with peers that are made when they are connected to."""

    def __init__(self, loop: SimLoop, tasks: TaskScope, image: ClusterImage = IMAGE) -> None:
        self.metadata = MetadataCache()
        self.metadata.publish(image)
        self.peers: dict[int, list[Peer]] = {}
        self.local: list[list[WritableTxnMarker]] = []
        self.outcomes: list[tuple[str, MarkerOutcome]] = []
        self.prepared: dict[int, Peer] = {}
        self.sender = TransactionMarkerSender(
            OWN_ID,
            self.metadata,
            self._connect,
            self._append,
            version=1,
            timer=Timer(SimClock(loop), loop.call_later),
            tasks=tasks,
        )

    def _connect(self, broker_id: int) -> BrokerClient:
        peer = self.prepared.pop(broker_id, None) or Peer()
        self.peers.setdefault(broker_id, []).append(peer)
        return cast(BrokerClient, peer)

    async def _append(self, asked: Sequence[WritableTxnMarker]) -> MarkerErrors:
        self.local.append(list(asked))
        return {
            marker.producer_id: {
                (topic.name, index): ErrorCode.NONE for topic in marker.topics for index in topic.partition_indexes
            }
            for marker in asked
        }

    def write(self, asked: TransactionMarkers) -> None:
        self.sender.write(asked, lambda outcome: self.outcomes.append((asked.transactional_id, outcome)))


COMPLETE = [("tx", MarkerOutcome.COMPLETE)]


@simulated(7)
async def test_own_partitions_are_written_in_process_and_others_by_their_leaders(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        site.write(markers(A, B, C))
        await asyncio.sleep(0.01)
        assert site.outcomes == COMPLETE
        [peer] = site.peers[2]
        assert len(site.local) == len(peer.asked) == 1 and peer.versions == {1}
        assert [topic.name for topic in peer.asked[0][0].topics] == ["t", "u"]
        assert not len(tasks)


@simulated(7)
async def test_one_request_at_a_time_and_the_next_one_holds_all_that_came_meanwhile(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        peer = site.prepared[2] = Peer()
        peer.may_answer.clear()
        for number in range(3):
            site.write(markers(B, name=f"tx{number}", producer_id=number))
        await asyncio.sleep(1)
        assert [len(asked) for asked in peer.asked] == [1]
        peer.may_answer.set()
        await asyncio.sleep(0.01)
        assert [len(asked) for asked in peer.asked] == [1, 2]
        assert site.outcomes == [(f"tx{number}", MarkerOutcome.COMPLETE) for number in range(3)]


@simulated(7)
async def test_a_lost_request_and_a_refused_one_are_sent_again_after_a_pause(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        peer = site.prepared[2] = Peer()
        peer.lose()
        site.write(markers(B))
        await asyncio.sleep(0.01)
        peer.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(RETRY_MS / 1000)
        assert len(peer.asked) == 2 and site.outcomes == []
        peer.error = ErrorCode.NONE
        await asyncio.sleep(RETRY_MS / 1000)
        assert len(peer.asked) == 3 and site.outcomes == COMPLETE


@simulated(7)
async def test_a_code_that_nobody_knows_is_a_refusal(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        peer = site.prepared[2] = Peer()
        peer.code = 4711
        site.write(markers(B))
        await asyncio.sleep(0.01)
        peer.code = None
        await asyncio.sleep(RETRY_MS / 1000)
        assert site.outcomes == COMPLETE


@simulated(7)
async def test_the_connection_to_a_broker_that_is_gone_is_closed_and_the_next_leader_is_asked(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        peer = site.prepared[2] = Peer()
        peer.may_answer.clear()
        site.write(markers(B))
        await asyncio.sleep(1)
        site.metadata.publish(image_of({A: 1, B: 2, C: 2}, alive=(1, 3)))
        await asyncio.sleep(RETRY_MS / 1000 + 0.01)
        assert peer.is_closed and site.outcomes == [] and site.sender.unknown_destination_count == 1
        site.metadata.publish(image_of({A: 1, B: 3, C: 3}, alive=(1, 3)))
        await asyncio.sleep(0.01)
        assert site.outcomes == COMPLETE and len(site.peers[3][0].asked) == 1
        assert site.sender.unknown_destination_count == 0


@simulated(7)
async def test_what_is_cancelled_is_not_reported_and_what_is_fenced_is(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        peer = site.prepared[2] = Peer()
        peer.may_answer.clear()
        peer.error = ErrorCode.INVALID_PRODUCER_EPOCH
        site.write(markers(B))
        site.write(markers(C, name="other", producer_id=8, coordinator=1))
        site.sender.cancel(0)
        peer.may_answer.set()
        await asyncio.sleep(0.01)
        assert site.outcomes == [("other", MarkerOutcome.FENCED)]


@simulated(7)
async def test_the_next_transaction_may_begin_while_the_outcome_of_one_is_reported(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        site.sender.write(markers(A), lambda _: site.write(markers(A, B, name="next")))
        await asyncio.sleep(0.01)
        assert site.outcomes == [("next", MarkerOutcome.COMPLETE)]


@simulated(7)
async def test_nothing_is_sent_once_it_is_closed(loop: SimLoop) -> None:
    tasks = TaskScope("markers")
    site = Site(loop, tasks)
    peer = site.prepared[2] = Peer()
    peer.may_answer.clear()
    site.write(markers(B))
    await asyncio.sleep(0.01)
    site.sender.close()
    await tasks.close()
    site.metadata.publish(IMAGE)
    site.write(markers(C, name="late"))
    await asyncio.sleep(1)
    assert peer.is_closed and site.outcomes == [] and len(site.peers[2]) == 1


@simulated(7)
async def test_a_transaction_that_raises_the_epoch_says_so_to_brokers_that_know_it(loop: SimLoop) -> None:
    async with TaskScope("markers") as tasks:
        site = Site(loop, tasks)
        peer = site.prepared[2] = Peer()
        newer = replace(markers(B), transaction_version=EPOCH_BUMPS)
        for newest, used in ((1, {1}), (2, {2}), (2, {2})):  # the broker learns of the feature level
            peer.newest_version = newest
            peer.versions.clear()
            site.write(newer)
            await asyncio.sleep(0.01)
            assert peer.versions == used
        site.write(markers(B))
        await asyncio.sleep(0.01)
        assert peer.versions == {1, 2} and site.outcomes == COMPLETE * 4
        assert [marker.transaction_version for asked in peer.asked for marker in asked] == [2, 2, 2, 0]


# --- on a cluster ---

ANYBODY = {"transaction_partition_verification_enable": "false"}
PRODUCER = 4711


def of(*partitions: tuple[str, int], is_commit: bool = True) -> TransactionMarkers:
    return TransactionMarkers("tx", 0, 5, PRODUCER, 0, is_commit, partitions)


async def written(world: ClusterWorld, sender_id: int, asked: TransactionMarkers) -> asyncio.Future[MarkerOutcome]:
    done: asyncio.Future[MarkerOutcome] = asyncio.get_running_loop().create_future()
    world.live[sender_id].services.transaction_markers.write(asked, done.set_result)
    return done


@simulated(7)
async def test_markers_reach_the_leaders_of_a_cluster(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **ANYBODY)
    await world.start()
    await world.create_topic(TRANSACTION_STATE_TOPIC)  # without it nothing is known to be gone
    await world.create_topic("t", partitions=3)
    for index in range(3):
        assert await produce_in_transaction(world, "t", index, PRODUCER) is ErrorCode.NONE
        assert await stable_end(world, "t", index) == 0
    done = await written(world, 2, of(("t", 0), ("t", 1), ("t", 2), ("gone", 0)))
    assert await done is MarkerOutcome.COMPLETE
    assert [await stable_end(world, "t", index) for index in range(3)] == [2, 2, 2]


@simulated(7)
async def test_a_killed_leader_delays_markers_until_there_is_another(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **ANYBODY)
    await world.start()
    await world.create_topic("t", assignment=(1, 2))
    assert await produce_in_transaction(world, "t", 0, PRODUCER) is ErrorCode.NONE
    world.machines[1].crash()
    done = await written(world, 3, of(("t", 0), is_commit=False))
    assert await done is MarkerOutcome.COMPLETE
    assert world.leader_of("t") == 2 and await stable_end(world, "t", 0) == 2


@simulated(7)
async def test_a_newer_coordinator_fences_an_older_one(loop: SimLoop) -> None:
    world = ClusterWorld(loop, **ANYBODY)
    await world.start()
    await world.create_topic("t", assignment=(1, 2))
    assert await (await written(world, 2, of(("t", 0)))) is MarkerOutcome.COMPLETE
    older = TransactionMarkers("tx", 0, 4, PRODUCER, 0, True, (("t", 0),))
    assert await (await written(world, 3, older)) is MarkerOutcome.FENCED
