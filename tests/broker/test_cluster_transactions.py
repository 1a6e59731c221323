"""Transactional records on several real brokers on one simulated ensemble."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.storage.logs import batch


async def produce_in_transaction(
    world: ClusterWorld, topic: str, partition: int, producer_id: int, *, epoch: int = 0, sequence: int = 0,
    transactional_id: str = "tx", version: int = 9,
) -> ErrorCode:  # fmt: skip
    """One transactional record, from whoever leads; asked again, as a client does, of one that does not."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            records = batch(
                "value", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
            )
            data = PartitionProduceData(index=partition, records=bytes(records))
            request = ProduceRequest(
                transactional_id=transactional_id, acks=-1, timeout_ms=20_000,
                topic_data=[TopicProduceData(name=topic, partition_data=[data])],
            )  # fmt: skip
            answer = await world.ask(world.leader_of(topic, partition), request, version, ProduceResponse)
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return code
            await asyncio.sleep(0.1)


async def stable_end(world: ClusterWorld, topic: str, partition: int) -> int:
    """The last stable offset of the leader."""
    async with asyncio.timeout(PATIENCE_S):
        while (leader := world.live.get(world.leader_of(topic, partition))) is None:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.1)
    found = leader.services.partitions.find(topic, partition)
    assert found is not None
    return found.last_stable_offset
