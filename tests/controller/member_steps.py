"""Steps at one member, whether it is alone or one of several: what is asked of its controller, and what its store holds."""

from __future__ import annotations

from metadata.admin.topic_requests import NewTopic
from metadata.store import znodes
from metadata.store.znodes import PartitionState
from protocol.errors import ErrorCode
from tests.controller.harness import PATIENCE_MS, Member


async def create(member: Member, name: str, partitions: int = 1, replicas: int = 1) -> None:
    created = await member.topic_admin.create([NewTopic(name, partitions, replicas)], PATIENCE_MS)
    assert created[name].outcome.code is ErrorCode.NONE, created[name].outcome


async def state(member: Member, topic: str, partition: int = 0) -> PartitionState:
    data, stat = await member.store.get(znodes.state_path(topic, partition))
    return PartitionState.decode(data, stat.version)
