"""Fetch with an authorizer: who may read what, in sessions and while a fetch waits; followers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from broker.handlers.records.fetch import fetch
from broker.observability.audit import AuditLog
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclEntry, PatternType, PermissionType, ResourcePattern
from security.principal import ANONYMOUS
from tests.async_tests import played_by
from tests.broker.handlers.records.session_world import FOLLOWER, PARTITIONS, VERSION, Several, several
from tests.replication.replica_world import ME

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC = (ResourceType.TOPIC, "t", Operation.READ)
CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION)


class Rights(AclAuthorizer):
    def give(self, *rights: tuple[ResourceType, str, Operation]) -> None:
        """These rights to nobody, and no others."""
        for resource_type, name, operation in (TOPIC, CLUSTER):
            entries = [AclEntry(ANONYMOUS, "*", operation, PermissionType.ALLOW)]
            is_given = (resource_type, name, operation) in rights
            self.replace(ResourcePattern(resource_type, name, PatternType.LITERAL), entries if is_given else [])


def on_several(
    folder: Path, scenario: Callable[[Several, Rights], Awaitable[None]], isr: tuple[int, ...] = (ME,)
) -> None:
    async def run() -> None:
        async with several(folder / "logs") as world:
            rights = Rights()
            services = cast(Any, world.broker.services)
            services.authorizer, services.audit = rights, AuditLog()
            for one in world.replicas:
                one.lead(isr=isr, replicas=isr)
            await scenario(world, rights)

    asyncio.run(run())


def asking(*named: int, session_id: int = 0, epoch: int = -1, wait_ms: int = 0, replica: int = -1) -> FetchRequest:
    rows = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for index in named
    ]
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=rows)] if rows else [],
    )


async def errors(world: Several, request: FetchRequest) -> dict[int, int]:
    response = await world.broker.start(fetch, request, VERSION).now()
    assert response is not None, "it does not wait"
    return {row.partition_index: row.error_code for topic in response.responses for row in topic.partitions}


@played_by(on_several, "tmp_path", gives=2)
async def test_a_refused_fetch_does_not_wait(world: Several, rights: Rights) -> None:
    assert await errors(world, asking(0, wait_ms=10_000)) == {0: DENIED}


@played_by(on_several, "tmp_path", gives=2)
async def test_a_session_learns_of_its_rights_although_nothing_else_has_changed(world: Several, rights: Rights) -> None:
    rights.give(TOPIC)
    everything = range(PARTITIONS)
    first = await world.broker.start(fetch, asking(*everything, epoch=0), VERSION).now()
    session: dict[str, int] = {"session_id": first.session_id}
    assert await errors(world, asking(epoch=1, **session)) == {}, "nothing new"
    rights.give()
    assert await errors(world, asking(epoch=2, **session)) == dict.fromkeys(everything, DENIED)
    assert await errors(world, asking(epoch=3, **session)) == dict.fromkeys(everything, DENIED), "again"
    rights.give(TOPIC)
    assert await errors(world, asking(epoch=4, **session)) == dict.fromkeys(everything, ErrorCode.NONE)
    assert await errors(world, asking(epoch=5, **session)) == {}


@played_by(on_several, "tmp_path", gives=2)
async def test_what_comes_while_a_fetch_waits_is_not_read_by_who_has_lost_the_right(
    world: Several, rights: Rights
) -> None:
    rights.give(TOPIC)
    parked = world.broker.start(fetch, asking(0, 1, wait_ms=500), VERSION)
    assert await parked.now() is None
    rights.give()
    await world.replicas[0].append("secret")
    world.broker.wait(500)
    response = await parked.now()
    rows = {row.partition_index: row for topic in response.responses for row in topic.partitions}
    assert rows[0].error_code == DENIED
    assert not rows[0].records


@played_by(on_several, "tmp_path", gives=2, isr=(ME, FOLLOWER))
async def test_a_follower_acts_as_the_cluster_and_is_not_counted_otherwise(world: Several, rights: Rights) -> None:
    leader = world.replicas[0].partition.leader
    assert leader is not None
    rights.give(TOPIC)
    before = leader.followers[FOLLOWER].leo
    assert await errors(world, asking(0, 77, replica=FOLLOWER)) == {0: DENIED, 77: DENIED}
    assert leader.followers[FOLLOWER].leo == before, "a refused fetch tells nothing of the follower"
    rights.give(CLUSTER)
    assert await errors(world, asking(0, replica=FOLLOWER)) == {0: ErrorCode.NONE}
    assert leader.followers[FOLLOWER].leo == 0
