"""Producers: acks 0, 1 and all, plain ones that never repeat themselves, and idempotent ones that retry until they know.

One connection carries all partitions; each has a lane of its own, in which up to three batches are under way. A lane of
an idempotent producer sends what was not acknowledged again, in order and with the same sequences, over reconnects and
restarts. A plain producer gives a batch up; its records may or may not be there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition
from tests.simulation.line import Unavailable
from tests.simulation.world import World

IN_FLIGHT_MAX = 3
LONGEST_PAUSE_S = 15.0  # everybody is to get through in what is left behind the last fault
_PADDINGS = (0, 10, 300, 2_500)
_BATCH_PADDING_BYTES = 3_200  # the smallest segment must hold a batch


@dataclass(slots=True)
class Batch:
    values: list[str]
    content: bytes
    life: int  # of the broker when it was made
    attempts: int = 0
    is_overtaken: bool = False
    """A later one of the lane was acknowledged."""


class Producer:
    def __init__(self, world: World, name: str, *, acks: int, is_idempotent: bool) -> None:
        rng = world.random
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._version = rng.choice((3, 5, 7, 8, 9, 10, 11))
        self._compression = rng.choice((Compression.NONE, Compression.NONE, *Compression))
        if self._compression is Compression.ZSTD:
            self._version = max(self._version, 7)
        self._pause_s = world.pace * rng.choice((0.1, 0.4, 1.0))
        keys = world.keys
        self._keys = rng.sample(keys, rng.randint(1, min(3, len(keys))))
        self._producer_id, self._producer_epoch = -1, -1
        self._power_cuts = 0
        self._generation = 0
        self.doubts = 0  # batches that a plain producer gave up: they may still come, behind later ones
        self._asking = asyncio.Lock()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for key in self._keys:
                group.create_task(_Lane(self, key).run())

    # --- for the lanes ---

    @property
    def writer(self) -> str:
        """Within one of these the broker keeps the order."""
        return f"{self.name}.{self._generation if self._is_idempotent else self._wire.connections_count + self.doubts}"

    async def producer_id(self) -> tuple[int, int, int]:
        """(id, epoch, generation), asked for when there is none yet."""
        async with self._asking:
            while self._producer_id < 0:
                try:
                    answer = await self._wire.call(
                        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                        self._world.random.randint(0, 4), InitProducerIdResponse,
                    )  # fmt: skip
                except Unavailable:
                    await self._wire.pause()
                    continue
                if answer.error_code != ErrorCode.NONE:
                    if answer.error_code not in self._world.not_now:
                        self._world.report(f"{self.name}: InitProducerId answered {answer.error_code}")
                    await self._wire.pause()
                    continue
                pair = (answer.producer_id, answer.producer_epoch)
                if pair in self._world.producer_ids:
                    self._world.report(f"producer id {pair} was given out twice")
                self._world.producer_ids.add(pair)
                self._producer_id, self._producer_epoch = pair
                self._power_cuts = self._world.power_cuts
                self._generation += 1
            return self._producer_id, self._producer_epoch, self._generation

    def lost_its_place(self, generation: int, key: TopicPartition, *, is_excused: bool) -> None:
        """The broker misses records of ours: a loss of power is a reason."""
        if generation != self._generation:
            return
        if self._world.power_cuts == self._power_cuts and not is_excused:
            self._world.report(f"{self.name}: {key} answered OUT_OF_ORDER_SEQUENCE_NUMBER without a reason")
        self._world.count("producers that lost their place")
        self._producer_id = -1


class _Lane:
    """One producer's way to one partition."""

    def __init__(self, producer: Producer, key: TopicPartition) -> None:
        self._producer = producer
        self._world = producer._world
        self._key = key
        self._counter = 0
        self._generation = -1
        self._sequence = 0
        self._pending: list[Batch] = []

    async def run(self) -> None:
        while not self._world.is_quiet:
            pause_s = self._world.random.expovariate(1 / self._producer._pause_s)
            await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))
            await self._produce()
        await self._produce()  # when nothing is wrong any more it must work

    async def _produce(self) -> None:
        producer_id, producer_epoch = -1, -1
        if self._producer._is_idempotent:
            producer_id, producer_epoch, generation = await self._producer.producer_id()
            if generation != self._generation:
                self._generation, self._sequence = generation, 0
        rng = self._world.random
        self._pending = [
            self._batch(producer_id, producer_epoch)
            for _ in range(rng.randint(1, IN_FLIGHT_MAX) if self._producer._is_idempotent else 1)
        ]
        while self._pending:
            codes = await asyncio.gather(*(self._send(batch) for batch in self._pending))
            self._settle(codes)
            if self._pending:
                await self._producer._wire.pause()

    def _batch(self, producer_id: int, producer_epoch: int) -> Batch:
        rng = self._world.random
        writer, values, room = self._producer.writer, [], _BATCH_PADDING_BYTES
        for _ in range(rng.randint(1, 6)):
            padding = min(rng.choice(_PADDINGS), room)
            room -= padding
            values.append(f"{writer}#{self._counter} " + "x" * padding)
            self._counter += 1
        now_ms = self._world.wall_ms()
        times_ms = [now_ms - rng.randint(0, 50) for _ in values]
        content = encode_batch(
            [Record(0, at_ms, None, value.encode()) for at_ms, value in zip(times_ms, values, strict=True)],
            compression=self._producer._compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._sequence if producer_id >= 0 else -1,
        )
        self._sequence += len(values)
        self._world.logs.sending(self._key, values, max(times_ms))
        return Batch(values, content, self._world.life)

    def _settle(self, codes: list[ErrorCode | None]) -> None:
        """`codes`: what each pending batch was answered, None for not at all."""
        producer = self._producer
        rest: list[Batch] = []
        for batch, code in zip(self._pending, codes, strict=True):
            if code is ErrorCode.NONE:
                for earlier in rest:
                    earlier.is_overtaken = True
                continue
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and producer._is_idempotent:
                if not rest:
                    # A producer snapshot holds the last batch alone, as Kafka's: of several that were appended before
                    # a restart, the earlier ones are not known again.
                    has_restarted = batch.life != self._world.life
                    is_excused = has_restarted and (batch is not self._pending[-1] or batch.is_overtaken)
                    producer.lost_its_place(self._generation, self._key, is_excused=is_excused)
                    self._pending = []
                    return
            elif code is not None and code not in self._world.not_now:
                self._world.report(f"{producer.name}: produce to {self._key} was answered {code!r}")
            rest.append(batch)
        producer.doubts += bool(rest)
        self._pending = rest if producer._is_idempotent else []

    async def _send(self, batch: Batch) -> ErrorCode | None:
        producer, world, (topic, partition) = self._producer, self._world, self._key
        view = world.logs.view(self._key)
        acks = -1 if producer._is_idempotent else producer._acks
        batch.attempts += 1
        request = ProduceRequest(
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=partition, records=batch.content)]
                )
            ],
        )
        try:
            if acks == 0:
                await producer._wire.call_unanswered(request, producer._version)
                return ErrorCode.NONE
            answer = await producer._wire.call(request, producer._version, ProduceResponse)
        except Unavailable:
            return None
        [of_topic] = answer.responses
        [row] = of_topic.partition_responses
        code = ErrorCode(row.error_code)
        first, last = (value.partition(" ")[0] for value in (batch.values[0], batch.values[-1]))
        world.loop.note(f"{producer.name} {self._key} {first}..{last} {code.name} at {row.base_offset}")
        if (of_topic.name, row.index) != self._key:
            world.report(f"{producer.name}: produce to {self._key} was answered for {of_topic.name} {row.index}")
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not producer._wire.is_up_to_date:
            return None  # a leader that was does not know what the next one has acknowledged
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return ErrorCode.NONE
        if code is ErrorCode.NONE:
            is_of_this_life = batch.life == world.life
            world.logs.acknowledged(
                self._key, row.base_offset, batch.values, acks, view=view, is_of_this_life=is_of_this_life
            )
            world.acknowledged_s[self._key].append((row.base_offset + len(batch.values), world.loop.time()))
            world.count("batches acknowledged")
            if batch.attempts > 1:
                world.count("retries acknowledged")
        return code
