"""An administrator: makes the topics, deletes records, and lets a topic of its own come and go under one name."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batch import read_header
from protocol.records.record import Record, encode_batch, iter_records
from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import sound_batches
from tests.simulation.line import Unavailable
from tests.simulation.world import TopicPlan, World

PASSING = "passing"  # the topic that comes and goes


class Admin:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._topics_made = 0
        self._in_doubt: set[int] = set()

    # --- making topics ---

    async def make_topics(self) -> None:
        for plan in self._world.topics:
            self._world.topic_ids[plan.name] = await self.make(plan)

    async def make(self, plan: TopicPlan) -> bytes:
        """Until it is there; its id."""
        while True:
            try:
                await self._create(plan)
                known = await self._describe(plan.name)
                if known is not None and known.error_code == ErrorCode.NONE:
                    return known.topic_id
            except Unavailable:
                self._world.count("topics whose creation is in doubt")
            await self._wire.pause()

    async def _create(self, plan: TopicPlan) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=plan.name,
                    num_partitions=plan.partitions,
                    replication_factor=plan.replicas,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in plan.configs.items()],
                )
            ],
            timeout_ms=5_000,
        )
        answer = await self._wire.call(request, self._world.random.randint(2, 7), CreateTopicsResponse)
        self._expect(answer.topics[0].error_code, "CreateTopics", ErrorCode.TOPIC_ALREADY_EXISTS)

    async def _describe(self, topic: str) -> MetadataResponseTopic | None:
        answer = await self._wire.call(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False),
            12, MetadataResponse,
        )  # fmt: skip
        return answer.topics[0] if answer.topics else None

    def _expect(self, code: int, what: str, *others: ErrorCode) -> None:
        if code != ErrorCode.NONE and code not in self._world.not_now and code not in others:
            self._world.report(f"{self.name}: {what} was answered {ErrorCode(code)!r}")

    # --- all the time ---

    async def run(self) -> None:
        world = self._world
        while not world.is_quiet:
            await asyncio.sleep(world.random.expovariate(1 / 1.5) * min(world.pace, 2.0))
            try:
                if world.random.random() < 0.4:
                    key = world.random.choice(world.keys)
                    end = world.logs.view(key).committed_end
                    await self.delete_records(key, -1 if world.random.random() < 0.3 else world.random.randint(0, end))
                else:
                    await self._let_a_topic_pass()
            except Unavailable:
                await self._wire.pause()

    async def delete_records(self, key: TopicPartition, offset: int) -> None:
        """Those below `offset`; all that are committed by now, if it is -1. Raises Unavailable."""
        world = self._world
        view = world.logs.view(key)
        world.logs.deleting(key, offset)
        answer = await self._wire.call(
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=key[0], partitions=[DeleteRecordsPartition(partition_index=key[1], offset=offset)]
                    )
                ],
                timeout_ms=5_000,
            ),
            world.random.randint(0, 2),
            DeleteRecordsResponse,
        )
        row = answer.topics[0].partitions[0]
        world.loop.note(f"DeleteRecords {key} to {offset}: {row.error_code} {row.low_watermark}")
        is_cut = world.logs.partitions[key].cuts_count != view.cuts_count
        if row.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            world.logs.not_deleted(
                key, offset
            )  # with others the leader may have deleted, and something came behind that
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and (is_cut or world.watermark_may_lag):
            return
        self._expect(row.error_code, f"DeleteRecords of {key} to {offset}")
        if row.error_code != ErrorCode.NONE:
            return
        world.count("records deleted")
        if row.low_watermark < offset:
            world.report(f"DeleteRecords of {key} to {offset} was answered {row.low_watermark}")
        world.logs.deleted(key, offset, row.low_watermark, is_cut=is_cut)

    # --- the passing topic ---

    async def _let_a_topic_pass(self) -> None:
        """Create, write, read, delete: every topic of this name begins empty."""
        self._topics_made += 1
        plan = TopicPlan(PASSING, self._world.random.randint(1, 2), {"file.delete.delay.ms": "500"})
        topic_id = await self.make(plan)
        try:
            await self._use(topic_id)
        except Unavailable:
            self._in_doubt.add(self._topics_made)  # what was written may come late, to the next topic
        await self._delete()

    async def _use(self, topic_id: bytes) -> None:
        world, value, cuts = self._world, f"{PASSING} {self._topics_made}", self._world.power_cuts
        if not await self._write(value):
            return
        found = await self._read(topic_id)
        if found is None or cuts != world.power_cuts:
            return
        if value not in found:
            world.report(f"{PASSING}: {value!r} is not in {found}")
        numbers = {int(each.partition(" ")[2]) for each in found} - self._in_doubt
        if numbers > {self._topics_made}:
            world.report(f"{PASSING}: {found} holds what was written to an earlier topic")

    async def _write(self, value: str) -> bool:
        batch = encode_batch([Record(0, self._world.wall_ms(), None, value.encode())])
        answer = await self._wire.call(
            ProduceRequest(
                acks=-1,
                timeout_ms=5_000,
                topic_data=[
                    TopicProduceData(name=PASSING, partition_data=[PartitionProduceData(index=0, records=batch)])
                ],
            ),
            9,
            ProduceResponse,
        )
        row = answer.responses[0].partition_responses[0]
        self._expect(row.error_code, f"produce to {PASSING}")
        return row.error_code == ErrorCode.NONE

    async def _read(self, topic_id: bytes) -> list[str] | None:
        answer = await self._wire.call(
            FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic_id=topic_id,
                        partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
                    )
                ],
            ),
            13,
            FetchResponse,
        )
        row = answer.responses[0].partitions[0]
        self._expect(row.error_code, f"fetch of {PASSING}")
        if row.error_code != ErrorCode.NONE:
            return None
        return [
            (record.value or b"").decode()
            for batch in sound_batches(bytes(row.records or b""))
            for record in iter_records(batch.content, 0, read_header(batch.content, 0), 1 << 20)
        ]

    async def _delete(self) -> None:
        """Until it is gone."""
        while True:
            try:
                answer = await self._wire.call(
                    DeleteTopicsRequest(topic_names=[PASSING], timeout_ms=5_000), 5, DeleteTopicsResponse
                )
                self._expect(answer.responses[0].error_code, "DeleteTopics")
                known = await self._describe(PASSING)
                if known is None or known.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._world.count("topics deleted")
                    return
            except Unavailable:
                self._world.count("topics whose deletion is in doubt")
            await self._wire.pause()
