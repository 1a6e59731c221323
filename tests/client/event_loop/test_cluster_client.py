"""The client on an event loop carries out what `client.admin` asks: it waits out what passes, and raises what does not."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from client.admin import brokers, groups, offsets, topics
from client.admin.steps import KeyKind
from client.errors import ClusterUnavailable, NotAuthenticated
from client.event_loop.cluster_client import AsyncClusterClient
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import LATEST, ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.records.record import Record, encode_batch
from runtime.network.transport import Address
from tests.async_tests import simulated
from tests.client.blocking.scripted_cluster import PORT, Cluster

A, B = ("orders", 0), ("orders", 1)
KNOWN = (
    ApiVersionsRequest, CreateTopicsRequest, DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest,
    ListOffsetsRequest, MetadataRequest,
)  # fmt: skip


class Connector:
    """Connections of the event loop to scripted brokers. Those in `slow` take some seconds for each answer, those in `hanging`
    give none, those in `refusing` refuse the login."""

    def __init__(self, cluster: Cluster, hanging: set[int], refusing: set[int]) -> None:
        self.cluster, self.hanging, self.refusing = cluster, hanging, refusing

    async def open(self, host: str, _port: int, _client_id: str, *, max_elements: int) -> Connection:
        del max_elements
        broker = int(host.rpartition("-")[2])
        if broker in self.cluster.down:
            raise ConnectionRefusedError(111, "Connection refused")
        if broker in self.refusing:
            raise NotAuthenticated("authentication failed: wrong")
        return Connection(self, broker)


class Connection:
    is_receiving = False

    def __init__(self, of: Connector, broker: int) -> None:
        self._of, self._broker, self._is_aborted = of, broker, False

    @property
    def is_open(self) -> bool:
        return not self._is_aborted and self._broker not in self._of.cluster.down

    async def send(self, request: Any, version: int, response_type: type) -> Any:
        assert self.is_open
        await asyncio.sleep(1e9 if self._broker in self._of.hanging else self._of.cluster.slow.get(self._broker, 0.0))
        if isinstance(request, ApiVersionsRequest):
            newest = {each: self._of.cluster.versions.get(each.__name__, each.max_version) for each in KNOWN}
            rows = [ApiVersion(api_key=each.api_key, min_version=0, max_version=newest[each]) for each in KNOWN]
            return ApiVersionsResponse(error_code=0, api_keys=rows)
        response = self._of.cluster.answer(self._broker, request)
        assert type(response) is response_type
        return response

    def abort(self) -> None:
        self._is_aborted = True


class World:
    def __init__(self) -> None:
        self.cluster = Cluster({A: 0, B: 2})
        self.cluster.logs[A] = encode_batch([Record(0, 50, None, b"a"), Record(1, 60, None, b"b")])
        self.hanging: set[int] = set()
        self.refusing: set[int] = set()

    def client(self, **limits: Any) -> AsyncClusterClient:
        servers = [Address("broker-0", PORT), Address("broker-1", PORT)]
        connector: Any = Connector(self.cluster, self.hanging, self.refusing)
        return AsyncClusterClient(connector, servers, "test", random.Random(7), **limits)


@pytest.fixture
def world() -> World:
    return World()


def now_s() -> float:
    return asyncio.get_running_loop().time()


@simulated(1)
async def test_a_refused_login_is_not_tried_again(world: World) -> None:
    world.refusing |= {0, 1}
    began_s = now_s()
    client = world.client()
    with pytest.raises(NotAuthenticated, match="authentication failed: wrong"):
        await client.topics()
    assert now_s() == began_s
    world.refusing.clear()
    await client.topics()
    world.refusing.add(1)
    found = await client.run(brokers.each_broker(MetadataRequest(topics=[]), [1]))
    assert isinstance(found[1], KafkaError)
    assert found[1].code is ErrorCode.SASL_AUTHENTICATION_FAILED
    await client.close()


@simulated(1)
async def test_topics_that_exist_are_found_and_others_are_not(world: World) -> None:
    client = world.client()
    assert set(await client.topics(["orders", "nothing"])) == set(await client.topics()) == {"orders"}
    world.cluster.errors = [("Metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(KafkaError, match="topic orders"):
        await client.topics(["orders"])
    await client.close()


@simulated(1)
async def test_partitions_of_a_topic_that_does_not_exist_are_asked_for_until_the_time_is_over(world: World) -> None:
    client = world.client(api_timeout_ms=5_000)
    assert await client.partition_count("orders") == 2
    began_s = now_s()
    with pytest.raises(KafkaError, match="topic nothing does not exist, after 5 s") as caught:
        await client.partition_count("nothing")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert now_s() - began_s == pytest.approx(5)
    waiting = asyncio.ensure_future(client.partition_count("late"))
    await asyncio.sleep(2)
    world.cluster.leaders["late", 0] = 1
    assert await waiting == 1
    world.cluster.down |= {0, 1, 2}
    with pytest.raises(ClusterUnavailable, match="no broker tells of topic nothing, after 5 s"):
        await client.partition_count("nothing")
    await client.close()


@simulated(1)
async def test_leaders_are_asked_side_by_side_and_found_again_when_they_move(world: World) -> None:
    world.cluster.slow |= {0: 1.0, 1: 1.0, 2: 1.0}
    client = world.client()
    began_s = now_s()
    assert await client.run(offsets.offsets({A: LATEST, B: LATEST})) == {A: 2, B: 0}
    assert now_s() - began_s < 5, "versions, metadata; then both leaders: versions, offsets"
    world.cluster.leaders[A] = 1
    assert (await client.run(offsets.offsets({A: LATEST})))[A] == 2
    await client.close()


@simulated(1)
async def test_the_controller_is_found_when_there_is_one_and_again_when_it_moves(world: World) -> None:
    cluster = world.cluster
    cluster.controller = -1
    asyncio.get_running_loop().call_later(0.05, setattr, cluster, "controller", 2)
    moved = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.NONE])

    def create(_broker: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        rows = [
            CreatableTopicResult(name=each.name, error_code=next(moved), error_message=None) for each in request.topics
        ]
        return CreateTopicsResponse(topics=rows)

    cluster.handlers["CreateTopics"] = create
    wanted = {"new": CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])}
    client = world.client()
    assert await client.run(topics.create(wanted, 1000, validate_only=False)) == {"new": None}
    assert [broker for broker, name in cluster.asked if name == "CreateTopics"] == [2, 2]
    await client.close()


@pytest.mark.parametrize(("version", "finds"), [(3, 2), (4, 1)])
@simulated(1)
async def test_coordinators_are_found_and_again_when_they_move(world: World, version: int, finds: int) -> None:
    cluster = world.cluster
    cluster.versions["FindCoordinatorRequest"] = version
    cluster.errors = [("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)] * finds
    codes = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.NONE])

    def describe(_broker: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        code = next(codes)
        rows = [
            DescribedGroup(
                error_code=code, group_id=each, group_state="", protocol_type="", protocol_data="", members=[]
            )
            for each in request.groups
        ]
        return DescribeGroupsResponse(groups=rows)

    cluster.handlers["DescribeGroups"] = describe
    client = world.client()
    found = await client.run(groups.describe(["g", "h"]))
    assert {name: each.coordinator for name, each in found.items() if not isinstance(each, KafkaError)} == {
        "g": 1,
        "h": 1,
    }
    assert Counter(name for _, name in cluster.asked) == {"FindCoordinator": 3 * finds, "DescribeGroups": 2}
    request = ListGroupsRequest()
    cluster.handlers["ListGroups"] = lambda broker, _: ListGroupsResponse(error_code=broker, groups=[])
    answer = await client.send_to_coordinator(KeyKind.GROUP, "g", request, ListGroupsResponse)
    assert answer.error_code == 1, "whose coordinator is known to both"
    await client.close()


@simulated(1)
async def test_who_hangs_costs_the_others_nothing(world: World) -> None:
    world.cluster.handlers["ListGroups"] = lambda _broker, _request: ListGroupsResponse(error_code=0, groups=[])
    client = world.client(request_timeout_ms=3_000)
    assert await client.topics()
    world.hanging.add(2)
    found = await client.run(brokers.each_broker(ListGroupsRequest(), [0, 1, 2, 9]), timeout_ms=3_000)
    assert [type(each) for each in found.values()] == [ListGroupsResponse, ListGroupsResponse, KafkaError, KafkaError]
    assert str(found[2]).startswith("NETWORK_EXCEPTION: broker-2:9092: ")
    assert str(found[9]) == "BROKER_NOT_AVAILABLE: broker 9 is not in the cluster"
    await client.close()


@simulated(1)
async def test_a_broker_that_hangs_is_left_for_another_one(world: World) -> None:
    world.hanging.add(0)
    client = world.client()
    began_s = now_s()
    assert await client.topics()
    assert now_s() - began_s == pytest.approx(2, abs=0.1)
    await client.close()


@simulated(1)
async def test_attempts_end_when_the_time_is_over(world: World) -> None:
    world.cluster.down.update(world.cluster.brokers)
    client = world.client(api_timeout_ms=5_000)
    began_s = now_s()
    with pytest.raises(ClusterUnavailable, match=r"Metadata: broker-0:9092: .*refused.*after 5 s of attempts"):
        await client.topics()
    assert 3 <= now_s() - began_s < 5
    world.cluster.down.clear()
    world.cluster.errors = [("ListOffsets", ErrorCode.OFFSET_NOT_AVAILABLE)] * 1000
    found = (await client.run(offsets.offsets({A: LATEST})))[A]
    assert isinstance(found, KafkaError) and found.code is ErrorCode.OFFSET_NOT_AVAILABLE
    await client.close()


@simulated(1)
async def test_a_closed_client_opens_no_connection(world: World) -> None:
    client = world.client()
    await client.topics()
    await client.close()
    with pytest.raises(OSError, match="the client was closed"):
        await client.send_to_any(ApiVersionsRequest(), ApiVersionsResponse)
    began_s = now_s()
    with pytest.raises(OSError, match="the client was closed"):
        await client.topics()
    assert now_s() == began_s
