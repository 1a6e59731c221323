"""Consumers without a group: full fetches and incremental sessions, by name and by topic id, polling long or not at all.

A consumer reads its partitions from some offset to the end and on; it believes nothing it has not checked. It goes back
only when the broker says that its position is gone.
"""

from __future__ import annotations

import asyncio
import struct

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.records.batch import read_header
from protocol.records.record import iter_records
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import View
from tests.simulation.disk_survey import sound_batches
from tests.simulation.line import Unavailable
from tests.simulation.world import World

EARLIEST, LATEST = -2, -1
_MAX_DECOMPRESSED_BYTES = 1 << 24
_LENGTH_AT = 8
_OVERHEAD_BYTES = 12
LOST_SESSION = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


class Consumer:
    """`in_cluster`: the partition may have another leader any time. So the versions are those that say in which epoch
    they believe, and a fetch session ends with the first error."""

    def __init__(
        self, world: World, name: str, *, keys: list[TopicPartition] | None = None, in_cluster: bool = False
    ) -> None:
        rng = world.random
        self._in_cluster = in_cluster
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._uses_session = rng.random() < 0.5
        self._version = rng.choice((7, 10, 11, 12, 13, 15, 17) if self._uses_session else (4, 5, 6, 11, 12, 13, 16, 17))
        if in_cluster:
            self._version = max(self._version, 10)
        self._isolation_level = rng.randint(0, 1)
        self._max_wait_ms = rng.choice((0, 300, 2_000, 5_000))
        self._idle_s = 0.2 * world.pace
        self._max_bytes = rng.choice((200, 5_000, 1 << 20))
        self._partition_max_bytes = rng.choice((1, 500, 4_000, 1 << 20))
        # More than one answer can hold would never be there: each would take the whole wait.
        self._min_bytes = min(rng.choice((0, 1, 1, 1, 500, 5_000)), self._max_bytes, self._partition_max_bytes)
        self.keys = keys if keys is not None else rng.sample(world.keys, rng.randint(1, min(4, len(world.keys))))
        self.positions: dict[TopicPartition, int] = dict.fromkeys(self.keys, -1)
        self._start_at = {key: rng.choice((EARLIEST, EARLIEST, LATEST)) for key in self.keys}
        self._session_id, self._session_epoch = 0, 0
        self._in_session: dict[TopicPartition, int] = {}  # what the broker knows of our positions
        self.read_to_end = False

    async def run(self) -> None:
        while True:
            if self._world.producers_are_done and not self.backlog():
                return
            try:
                if -1 in self.positions.values():
                    await self._look_up_positions()
                else:
                    await self._poll()
            except Unavailable:
                self._session_id, self._session_epoch = 0, 0
                await self._wire.pause()

    def backlog(self) -> dict[TopicPartition, tuple[int, int]]:
        """(position, where the log is known to reach) of the partitions that are not read to their end."""
        ends = {key: self._world.logs.partitions[key].known_end for key in self.keys}
        return {key: (self.positions[key], ends[key]) for key in self.keys if self.positions[key] < ends[key]}

    # --- positions ---

    async def _look_up_positions(self) -> None:
        for key in self.keys:
            if self.positions[key] < 0:
                found = await self.list_offset(key, self._start_at[key])
                if found is None:
                    await self._wire.pause()
                else:
                    self.positions[key] = found

    async def list_offset(self, key: TopicPartition, timestamp: int) -> int | None:
        """None when the broker does not say. Raises Unavailable."""
        logs, view = self._world.logs, self._world.logs.view(key)
        answer = await self._wire.call(
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=key[0], partitions=[ListOffsetsPartition(partition_index=key[1], timestamp=timestamp)]
                    )
                ],
            ),
            self._world.random.randint(4 if self._in_cluster else 1, 7),
            ListOffsetsResponse,
        )
        [of_topic] = answer.topics
        [row] = of_topic.partitions
        if row.error_code != ErrorCode.NONE:
            self._expect(row.error_code, f"ListOffsets of {key}")
            return None
        if timestamp == LATEST:
            logs.watermark(key, view, row.offset, row.offset)
        else:
            logs.starts_at(key, view, row.offset)
        return row.offset

    def _expect(self, code: int, what: str) -> None:
        if code not in self._world.not_now:
            self._world.report(f"{self.name}: {what} was answered {ErrorCode(code)!r}")

    # --- fetching ---

    async def read_all(self, key: TopicPartition, start: int, end: int) -> list[tuple[int, str]]:
        """The records in [start, end), once nobody writes any more. Raises Unavailable."""
        records: list[tuple[int, str]] = []
        position = start
        while position < end:
            answer = await self._wire.call(
                FetchRequest(
                    max_wait_ms=100,
                    min_bytes=1,
                    topics=[
                        FetchTopic(
                            topic=key[0],
                            partitions=[
                                FetchPartition(partition=key[1], fetch_offset=position, partition_max_bytes=100_000)
                            ],
                        )
                    ],
                ),
                12,
                FetchResponse,
            )
            row = answer.responses[0].partitions[0]
            new = [each for each in self._decode(key, bytes(row.records or b"")) if each[0] >= position]
            if not new:
                self._world.report(f"reading {key} at {position} of {end} gave nothing, error {row.error_code}")
                break
            records += new
            position = new[-1][0] + 1
        return records

    async def _poll(self) -> None:
        world = self._world
        asked = dict(self.positions)
        views = {key: world.logs.view(key) for key in self.keys}
        sent_s = world.loop.time()
        request = self._request()
        answer = await self._wire.call(request, self._version, FetchResponse)
        world.count("fetches")
        if answer.error_code in LOST_SESSION and self._uses_session:
            self._session_id, self._session_epoch = 0, 0
            return
        if answer.error_code != ErrorCode.NONE:
            world.report(f"{self.name}: fetch was answered {ErrorCode(answer.error_code)!r}")
            return
        self._note_session(answer, request)
        problems = got = 0
        for of_topic in answer.responses:
            topic = of_topic.topic or world.name_of(of_topic.topic_id)
            for row in of_topic.partitions:
                key = (topic, row.partition_index)
                if key not in asked:
                    world.report(f"{self.name}: fetch was answered for {key}, which was not asked for")
                    continue
                if row.error_code != ErrorCode.NONE:
                    problems += 1
                    self._on_error(key, views[key], asked[key], row)
                else:
                    got += self._on_records(key, views[key], asked[key], row)
        self._check_wait(asked, got, problems, sent_s, request)
        if problems:
            if self._in_cluster:
                self._session_id, self._session_epoch = 0, 0
            await self._wire.pause()
        elif not got:
            await asyncio.sleep(self._idle_s if self._max_wait_ms < 1_000 else 0.02)

    def _request(self) -> FetchRequest:
        rows: dict[str, list[FetchPartition]] = {}
        is_incremental = self._uses_session and self._session_epoch > 0
        for key in self.keys:
            is_known = is_incremental and self._in_session.get(key) == self.positions[key]
            if is_known and not self._in_cluster:  # there it also says whom the fetch is for
                continue
            rows.setdefault(key[0], []).append(
                FetchPartition(
                    partition=key[1], fetch_offset=self.positions[key], partition_max_bytes=self._partition_max_bytes
                )
            )
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            session_id=self._session_id if self._uses_session else 0,
            session_epoch=self._session_epoch if self._uses_session else -1,
            topics=[
                FetchTopic(topic=topic, topic_id=self._world.topic_ids[topic], partitions=partitions)
                for topic, partitions in rows.items()
            ],
        )

    def _note_session(self, answer: FetchResponse, request: FetchRequest) -> None:
        if not self._uses_session:
            return
        if request.session_epoch > 0:
            self._world.count("incremental fetches")
            if answer.session_id != self._session_id:
                self._world.report(f"{self.name}: session {self._session_id} was answered as {answer.session_id}")
        self._session_id = answer.session_id
        self._session_epoch = self._session_epoch + 1 if answer.session_id else 0
        self._in_session = dict(self.positions) if answer.session_id else {}

    def _on_error(self, key: TopicPartition, view: View, position: int, row: PartitionData) -> None:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._world.count("positions out of range")
            self._world.logs.out_of_range(key, view, position)
            self.positions[key] = -1
            self._start_at[key] = EARLIEST
        else:
            self._expect(row.error_code, f"fetch of {key}")

    def _on_records(self, key: TopicPartition, view: View, position: int, row: PartitionData) -> int:
        """How many records were new."""
        world = self._world
        world.logs.watermark(key, view, row.high_watermark, row.last_stable_offset)
        if self._version >= 5:
            world.logs.starts_at(key, view, row.log_start_offset)
        records = self._decode(key, bytes(row.records or b""))
        world.logs.fetched(key, view, position, records, row.high_watermark)
        new = [offset for offset, _ in records if offset >= position]
        if row.records and not new:
            world.report(f"{self.name}: fetch of {key} at {position} gave {len(row.records)} bytes and no record")
        if new:
            self.positions[key] = new[-1] + 1
            world.count("records fetched", len(new))
        elif not self._uses_session and len(self.keys) == 1 and row.high_watermark > position:
            world.report(f"{self.name}: fetch of {key} at {position} gave nothing below {row.high_watermark}")
        return len(new)

    def _decode(self, key: TopicPartition, content: bytes) -> list[tuple[int, str]]:
        batches = list(sound_batches(content))
        end = sum(len(batch.content) for batch in batches)
        if len(content) - end >= _OVERHEAD_BYTES:
            (length,) = struct.unpack_from(">i", content, end + _LENGTH_AT)
            if len(content) - end >= length + _OVERHEAD_BYTES:
                self._world.report(f"{self.name}: fetch of {key} gave a damaged batch at byte {end} of {len(content)}")
        records: list[tuple[int, str]] = []
        for batch in batches:
            header = read_header(batch.content, 0)
            records += [
                (record.offset, (record.value or b"").decode())
                for record in iter_records(batch.content, 0, header, _MAX_DECOMPRESSED_BYTES)
            ]
        return records

    def _check_wait(
        self, asked: dict[TopicPartition, int], got: int, problems: int, sent_s: float, request: FetchRequest
    ) -> None:
        """A fetch that waits for one byte comes back soon after there is one."""
        world, now_s = self._world, self._world.loop.time()
        if got and not problems and now_s - sent_s > 0.1 and request.max_wait_ms:
            world.count("long polls woken")
        if request.min_bytes > 1 or problems:
            return
        for key, position in asked.items():
            for end_offset, acknowledged_s in reversed(world.acknowledged_s[key]):
                if acknowledged_s < sent_s:
                    break
                if end_offset > position:
                    world.liveness.woken(self.name, acknowledged_s)
