"""Whom a broker names as leader when it does not lead: clients go there without asking for metadata (KIP-951)."""

from __future__ import annotations

from pathlib import Path

from broker.handlers.records.fetch import fetch
from broker.handlers.records.produce import produce
from metadata.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import batch

FETCH_VERSION = 16
PRODUCE_VERSION = 10


def start_fetch(broker: ReplicaBroker) -> Answer:
    partition = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=broker.one.partition.topic_id, partitions=[partition])
    return broker.start(fetch, FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic]), FETCH_VERSION)


def start_produce(broker: ReplicaBroker) -> Answer:
    data = PartitionProduceData(index=0, records=bytes(batch("v")))
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=500, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    return broker.start(produce, request, PRODUCE_VERSION)


async def test_an_election_is_told_before_the_image_shows_it(tmp_path: Path) -> None:
    async with replica_broker(tmp_path) as broker:
        broker.one.lead(isr=(1, 2), epoch=0)
        fetching, producing = start_fetch(broker), start_produce(broker)
        assert await fetching.now() is None
        assert await producing.now() is None
        broker.one.follow(leader=3, epoch=1, partition_epoch=1)
        fetched = await fetching.now()
        row = fetched.responses[0].partitions[0]
        assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (3, 1)
        assert [(each.node_id, each.port) for each in fetched.node_endpoints] == [(3, 9003)]
        produced = await producing.now()
        row = produced.responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (3, 1)
        assert [(each.node_id, each.port) for each in produced.node_endpoints] == [(3, 9003)]


async def test_a_partition_without_a_leader_of_its_own_is_told_as_the_image_has_it(tmp_path: Path) -> None:
    async with replica_broker(tmp_path) as broker:
        row = (await start_produce(broker).now()).responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)
        broker.services.metadata.publish(ClusterImage())
        row = (await start_produce(broker).now()).responses[0].partition_responses[0]
        assert row.current_leader.leader_id == -1
