"""Reads single records by their places, many at a time: the shell of `client.reading.places`.

    found = await reader.read({("topic", 0): [3, 4, 5, 90_000]}, 8 << 20)
    record = found["topic", 0, 3]         None: the partition has no such record any more; not there: not read now
    reader.troubles                       why partitions could not be read when they were last asked
    await reader.close()

Rules: one `read` at a time. Leaders are asked side by side, each by one fetch at a time that names all its partitions. What
could not be read is missing in the result, and asked again by a later `read`, behind a pause that grows. A leader
that does not answer in the time of a `read` delays no other: its answer is waited for, and comes with a later result. Bounded:
records of `max_bytes` for each `read`, and one response of `RESPONSE_BYTES` for each leader.
A partition has no such record any more when its leader says so: below its first offset, behind its end, or compacted.
Errors: none but of the program; `troubles` has OSError, and KafkaError, InvalidBatch among them.
Source: Kafka Fetcher.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from client.admin.offsets import offsets_request
from client.backoff import Backoff
from client.producing.core import size_of
from client.reading.places import PartitionSizes, WantedOffsets
from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.list_offsets import EARLIEST, ListOffsetsResponse
from protocol.records.record import MAX_INT64
from runtime.slices import Slices
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from client.event_loop.cluster_client import AsyncClusterClient
    from client.reading.places import FoundRecords
    from protocol.records.record import Record
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

BACKOFF: Final = Backoff(50, 1_000)
TIMEOUT_MS: Final = 1_000
RESPONSE_BYTES: Final = 4 << 20
RECORD_OVERHEAD_BYTES: Final = 200
"""What a record takes in memory beside its key, value and headers."""

Place = tuple[str, int, int]
"""Topic, partition, offset."""
Trouble = OSError | KafkaError


class PlaceReader:
    """`cluster` stays the caller's, who closes it."""

    def __init__(self, cluster: AsyncClusterClient, randomness: Randomness) -> None:
        self.troubles: dict[TopicPartition, Trouble] = {}
        self._cluster = cluster
        self._randomness = randomness
        self._sizes: dict[TopicPartition, PartitionSizes] = {}
        self._pauses: dict[TopicPartition, tuple[int, float]] = {}  # failures in a row, and until when
        self._tasks = TaskScope("place reader")
        self._readings: dict[int, _Reading] = {}  # by leader

    async def close(self) -> None:
        await self._tasks.close()

    async def read(
        self, places: Mapping[TopicPartition, Sequence[int]], max_bytes: int, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[Place, Record | None]:
        """Return the records at places, whose offsets are sorted, as far as they were read within the time."""
        until_s = self._now_s() + timeout_ms / 1000
        for key in self.troubles.keys() - places.keys():
            self._succeeded(key)
        begun = self._begin(places, max_bytes)
        await self._wait(begun or list(self._readings.values()), until_s)
        found: dict[Place, Record | None] = {}
        for leader, reading in list(self._readings.items()):
            taken, reading.found = reading.found, {}
            if reading not in begun:  # of an earlier call: perhaps nobody wants them any more
                wanted = {(*key, offset) for key, offsets in places.items() for offset in offsets}
                taken = {place: record for place, record in taken.items() if place in wanted}
            found.update(taken)
            if reading.task.done():
                del self._readings[leader]
                reading.task.result()
        return found

    def _begin(self, places: Mapping[TopicPartition, Sequence[int]], max_bytes: int) -> list[_Reading]:
        """Begin to read from the leaders that are not being asked."""
        by_leader: dict[int, list[WantedOffsets]] = {}
        now_s = self._now_s()
        for key, offsets in places.items():
            if not offsets or now_s < self._pauses.get(key, (0, now_s))[1]:
                continue
            leader = self._cluster.leader_of(key)
            if leader is None:
                self._failed(key, self._why_no_leader(key))
            elif leader not in self._readings:
                sizes = self._sizes.setdefault(key, PartitionSizes())
                by_leader.setdefault(leader, []).append(WantedOffsets(key, offsets, sizes))
        begun = []
        budget = _Budget(max_bytes)
        for leader, wanted in by_leader.items():
            reading = _Reading(budget)
            reading.task = self._tasks.spawn(self._read_from(leader, wanted, reading), name=f"fetch {leader}")
            self._readings[leader] = reading
            begun.append(reading)
        return begun

    async def _wait(self, readings: Sequence[_Reading], until_s: float) -> None:
        """Return when these have ended, or the time is over; without any, when a pause is over."""
        now_s = self._now_s()
        if readings:
            await asyncio.wait([each.task for each in readings], timeout=max(until_s - now_s, 0.0))
        elif self._pauses:
            await asyncio.sleep(max(min(until_s, *(pause_s for _, pause_s in self._pauses.values())) - now_s, 0.0))

    # --- one leader ---

    async def _read_from(self, leader: int, wanted: list[WantedOffsets], reading: _Reading) -> None:
        slices = Slices(lambda: int(self._now_s() * 1000))
        while wanted and reading.budget.left_bytes > 0:
            epochs = {each.key: self._cluster.leader_epoch(each.key) for each in wanted}
            try:
                response = await self._cluster.send(leader, _request(wanted, epochs), FetchResponse)
                if response.error_code:
                    raise KafkaError(ErrorCode.of(response.error_code))
            except (OSError, KafkaError) as error:
                for each in wanted:
                    self._failed(each.key, error)
                return
            rows = {(topic.topic, row.partition_index): row for topic in response.responses for row in topic.partitions}
            unread: list[WantedOffsets] = []
            read: list[WantedOffsets] = []
            for each in wanted:
                before = each.left_count
                try:
                    await self._take(
                        leader, epochs, each, rows.get(each.key), reading, slices, is_first=each is wanted[0]
                    )
                except (OSError, KafkaError) as error:
                    self._failed(each.key, error)
                    continue
                (unread if each.left_count == before else read).append(each)
            for each in read:
                self._succeeded(each.key)
            # The first partition of a request gets a whole batch, so what got nothing goes first.
            wanted = unread + [each for each in read if each.left_count]

    async def _take(
        self,
        leader: int,
        epochs: Mapping[TopicPartition, int],
        wanted: WantedOffsets,
        row: PartitionData | None,
        reading: _Reading,
        slices: Slices,
        *,
        is_first: bool,
    ) -> None:
        """Take the answer about one partition; None where the broker did not give one. Raises OSError, KafkaError."""
        if row is None:
            return
        key = wanted.key
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self._start(leader, key, epochs[key])
            reading.add(key, wanted.gone_before(start if wanted.next_offset < start else MAX_INT64))
            return
        if row.error_code:
            code = ErrorCode.of(row.error_code)
            if remedy_of(code) is Remedy.REFRESH_METADATA or code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                self._cluster.forget_topics([key[0]])
            raise KafkaError(code, f"{key[0]}-{key[1]}: {code.message}")
        for found in wanted.fetched(row):
            reading.add(key, found)
            await slices.yield_if_due()
        if row.records:
            return
        if row.high_watermark <= wanted.next_offset:
            reason = f"{key[0]}-{key[1]} cannot be read yet at {wanted.next_offset}"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, reason)
        if is_first:  # otherwise those before it took all the bytes
            reading.add(key, wanted.gone_before(row.high_watermark))

    async def _start(self, leader: int, key: TopicPartition, epoch: int) -> int:
        """Return the first offset of a partition, as its leader says. Raises OSError, KafkaError."""
        request = offsets_request({key: EARLIEST})
        request.topics[0].partitions[0].current_leader_epoch = epoch
        response = await self._cluster.send(leader, request, ListOffsetsResponse, max_version=7)
        row = response.topics[0].partitions[0]
        if row.error_code:
            self._cluster.forget_topics([key[0]])
            raise KafkaError(ErrorCode.of(row.error_code))
        return row.offset

    # --- troubles ---

    def _why_no_leader(self, key: TopicPartition) -> KafkaError:
        view = self._cluster.view
        if view.was_told_of(key[0]):
            try:
                view.leader(key)
            except KafkaError as error:
                return error
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody has said yet who leads {key[0]}-{key[1]}")

    def _failed(self, key: TopicPartition, error: Trouble) -> None:
        failures = self._pauses.get(key, (0, 0.0))[0] + 1
        self._pauses[key] = failures, self._now_s() + BACKOFF.pause_ms(failures, self._randomness) / 1000
        self.troubles[key] = error

    def _succeeded(self, key: TopicPartition) -> None:
        self._pauses.pop(key, None)
        self.troubles.pop(key, None)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


@dataclass(eq=False, slots=True)
class _Budget:
    """How many bytes of records may still be read, from all leaders."""

    left_bytes: int


class _Reading:
    """What is being read from one leader, and what came since it was last looked at."""

    def __init__(self, budget: _Budget) -> None:
        self.budget = budget
        self.found: dict[Place, Record | None] = {}
        self.task: asyncio.Task[None]

    def add(self, key: TopicPartition, found: FoundRecords) -> None:
        for offset, record in found.items():
            self.found[*key, offset] = record
            self.budget.left_bytes -= RECORD_OVERHEAD_BYTES + (0 if record is None else size_of(record))


def _request(wanted: Sequence[WantedOffsets], epochs: Mapping[TopicPartition, int]) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for each in wanted:
        topics.setdefault(each.key[0], []).append(each.fetch(epochs[each.key]))
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=RESPONSE_BYTES,
        topics=[FetchTopic(topic=name, partitions=rows) for name, rows in topics.items()],
    )
