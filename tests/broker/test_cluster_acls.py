"""Whole brokers with an authorizer over one simulated ensemble: who may replicate, and ACLs that come and go with brokers.

Nobody signs in here, so ACLs tell hosts apart: those of the brokers, of an administrator and of a client.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from client.event_loop.connection import OutgoingConnection
from metadata.store import acls as nodes
from metadata.store.acls import AclNode, AclRow
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.record import Record, encode_batch
from protocol.schema import Request
from security.access import CLUSTER_NAME, Operation
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, PORT, ClusterWorld, R
from tests.simulation.loop import SimLoop, simulate

AUTHORIZER = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}
NOBODY = "User:ANONYMOUS"
CLUSTER = AclNode("CLUSTER", CLUSTER_NAME, nodes.LITERAL)
TOPIC, ANY, LITERAL, ALLOW = 2, 1, 3, 3
SETTLED_S = 2
"""Until a change is in force on every broker that lives."""


class AclCluster(ClusterWorld):
    """The host "admin" may do everything; the brokers' hosts may act as the cluster; the host "client" nothing at first."""

    def __init__(self, loop: SimLoop, **settings: str) -> None:
        super().__init__(loop, **{**AUTHORIZER, **settings})

    async def prepare(self) -> None:
        """Write the first ACLs, as kafka-acls.sh does before the first broker starts."""
        store = self.ensemble.connect()
        await nodes.ensure_acl_paths(store)
        everything = AclRow(NOBODY, "Allow", "admin", "All")
        acting = [AclRow(NOBODY, "Allow", machine.name, "ClusterAction") for machine in self.machines.values()]
        await nodes.update(store, CLUSTER, lambda _: [everything, *acting])
        for resource_type in ("TOPIC", "GROUP"):
            await nodes.update(store, AclNode(resource_type, "*", nodes.LITERAL), lambda _: [everything])
        await store.close()

    async def client(self, broker_id: int) -> OutgoingConnection:
        """Of the administrator."""
        return await OutgoingConnection.open(self.network.node("admin"), f"host{broker_id}", PORT, "test")

    async def ask_from(self, host: str, broker_id: int, request: Request, version: int, response_type: type[R]) -> R:
        client = await OutgoingConnection.open(self.network.node(host), f"host{broker_id}", PORT, "test")
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await client.send(request, version, response_type)
        finally:
            client.close()

    async def produce_from(self, host: str, topic: str, broker_id: int) -> ErrorCode:
        """Return what a broker that leads `topic` answers to one record."""
        data = PartitionProduceData(index=0, records=encode_batch([Record(0, 0, None, b"value")]))
        rows = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=20_000, topic_data=rows)
        answer = await self.ask_from(host, broker_id, request, 9, ProduceResponse)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def allow(self, broker_id: int, topic: str, host: str = "client") -> None:
        creation = AclCreation(
            resource_type=TOPIC, resource_name=topic, resource_pattern_type=LITERAL, principal=NOBODY, host=host,
            operation=Operation.WRITE, permission_type=ALLOW,
        )  # fmt: skip
        answer = await self.ask(broker_id, CreateAclsRequest(creations=[creation]), 3, CreateAclsResponse)
        assert [result.error_code for result in answer.results] == [ErrorCode.NONE]

    async def disallow(self, broker_id: int, topic: str, host: str = "client") -> None:
        asked = DeleteAclsFilter(
            resource_type_filter=TOPIC, resource_name_filter=topic, pattern_type_filter=LITERAL, principal_filter=None,
            host_filter=host, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        answer = await self.ask(broker_id, DeleteAclsRequest(filters=[asked]), 3, DeleteAclsResponse)
        assert [result.error_code for result in answer.filter_results] == [ErrorCode.NONE]


@simulated(1)
async def test_brokers_replicate_with_the_right_to_act_as_the_cluster(loop: SimLoop) -> None:
    world = AclCluster(loop, replica_lag_time_max_ms="3000", replica_fetch_wait_max_ms="500")
    await world.prepare()
    await world.start()
    await world.create_topic("orders", assignment=(1, 2, 3))
    assert await world.produce("orders", b"one") == (ErrorCode.NONE, 0)
    assert world.isr_of("orders") == {1, 2, 3}
    store = world.ensemble.connect()
    taken = AclRow(NOBODY, "Allow", "host3", "ClusterAction")
    await nodes.update(store, CLUSTER, lambda rows: [row for row in rows if row != taken])
    await asyncio.sleep(SETTLED_S)
    assert await world.produce("orders", b"two") == (ErrorCode.NONE, 1)
    assert world.isr_of("orders") == {1, 2}
    await nodes.update(store, CLUSTER, lambda rows: [*rows, taken])
    await world.until(lambda: world.isr_of("orders") == {1, 2, 3})


@simulated(1)
async def test_a_host_without_rights_is_told_so_by_every_broker(loop: SimLoop) -> None:
    world = AclCluster(loop)
    await world.prepare()
    await world.start()
    await world.create_topic("orders", assignment=(2, 1, 3))
    for broker_id in world.machines:
        answer = await world.ask_from(
            "client", broker_id, DescribeClusterRequest(include_cluster_authorized_operations=True), 0,
            DescribeClusterResponse,
        )  # fmt: skip
        assert answer.cluster_authorized_operations == 0
    assert await world.produce_from("client", "orders", 2) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await world.produce_from("admin", "orders", 2) is ErrorCode.NONE


@pytest.mark.parametrize("seed", range(4))
def test_acls_that_come_and_go_with_brokers_are_enforced_by_all(seed: int) -> None:
    """Each broker leads a topic. ACLs are changed through any broker while others crash and come back."""

    async def program(loop: SimLoop) -> None:
        random = Random(seed)
        world = AclCluster(loop)
        await world.prepare()
        await world.start()
        leaders = {f"topic-{broker_id}": broker_id for broker_id in world.machines}
        for topic, broker_id in leaders.items():
            await world.create_topic(topic, assignment=(broker_id,))
        allowed = dict.fromkeys(leaders, False)
        for _ in range(12):
            down = random.choice([None, *world.machines])
            if down is not None:
                world.machines[down].crash()
                await asyncio.sleep(random.choice((0, 10)))
            for topic in random.sample(sorted(leaders), 2):
                through = random.choice([broker_id for broker_id in world.machines if broker_id != down])
                allowed[topic] = random.random() < 0.5
                await (world.allow if allowed[topic] else world.disallow)(through, topic)
                assert await _is_allowed(world, topic, through, leaders) in (None, allowed[topic]), (
                    "not where it was made"
                )
            if down is not None:
                await world.start(down)
            await asyncio.sleep(SETTLED_S)
            for topic, broker_id in leaders.items():
                await world.until(lambda topic=topic: world.leader_of(topic) >= 0)  # type: ignore[misc]
                assert await _is_allowed(world, topic, broker_id, leaders) is allowed[topic]

    simulate(seed, program)


async def _is_allowed(world: AclCluster, topic: str, broker_id: int, leaders: dict[str, int]) -> bool | None:
    """Whether the client may write, as a broker says; None if it does not lead the topic."""
    if leaders[topic] != broker_id:
        return None
    while True:
        error = await world.produce_from("client", topic, broker_id)
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            return error is ErrorCode.NONE
        await asyncio.sleep(0.1)  # it leads it again soon
