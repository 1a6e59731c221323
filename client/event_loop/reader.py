"""Reads records of given partitions on an event loop: the shell of `client.reading`.

    reader.assign({("topic", 0): offset_or_none})      such as `GroupMember.committed` gives them
    for each in await reader.poll(1_000): ...          records
    for each in await reader.poll_batches(1_000): ...  the batches that hold them, for who needs few of many
    reader.drop(partitions)                            when they are revoked
    await reader.close()

Rules: one fetch at a time to each leader, which goes on between polls; what it brings waits for the next poll, and no other
fetch follows before. So a reader keeps at most `max_bytes` for each leader. A position is behind what `poll` has returned.
Errors: KafkaError for what does not pass.
Source: Kafka Fetcher, OffsetFetcher.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from client.backoff import Backoff
from client.error_codes import error_codes
from client.event_loop.cluster_client import WAITING_LANE
from client.reading.positions import MAX_DECOMPRESSED_BYTES, FetchedBatches, Positions, ReadRecord
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsResponse
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from client.committing import OffsetAndMetadata
    from client.event_loop.cluster_client import AsyncClusterClient
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

BACKOFF: Final = Backoff(100, 1_000)
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 16 << 20

_Answer = tuple[dict["TopicPartition", int], FetchResponse | None]


class PartitionReader:
    """`cluster` stays the caller's, who closes it."""

    def __init__(
        self,
        cluster: AsyncClusterClient,
        randomness: Randomness,
        positions: Positions,
        *,
        max_wait_ms: int = MAX_WAIT_MS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.positions = positions
        self._cluster = cluster
        self._randomness = randomness
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._tasks = TaskScope("reader")
        self._fetches: dict[int, asyncio.Task[_Answer]] = {}  # by leader
        self._failures = 0

    async def close(self) -> None:
        await self._tasks.close()

    def assign(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Read these, too; one without an offset where the reset says. Raises KafkaError."""
        self.positions.assign(offsets)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions.drop(partitions)

    async def poll(self, timeout_ms: int) -> list[ReadRecord]:
        """Return records, or none when the time is over. Raises KafkaError, InvalidBatch."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            fetched = await self.poll_batches(max(round((deadline_s - loop.time()) * 1000), 0))
            records = [record for each in fetched for record in each.records(MAX_DECOMPRESSED_BYTES)]
            if records or not fetched:
                return records

    async def poll_batches(self, timeout_ms: int) -> list[FetchedBatches]:
        """Return what was fetched, without a record where there was none to read; nothing when the time is over. Raises
        KafkaError, InvalidBatch."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            await self._look_up()
            self._fetch()
            left_s = max(deadline_s - loop.time(), 0.0)
            if not self._fetches:
                pause_s = self._pause_s()
                await asyncio.sleep(min(left_s, pause_s))
                if left_s <= pause_s:
                    return []
                continue
            done, _ = await asyncio.wait(self._fetches.values(), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            fetched = self._taken(done)
            if fetched or not done:
                return fetched

    # --- fetching ---

    def _fetch(self) -> None:
        """Have a fetch under way to each leader."""
        for leader, keys in self._by_leader(self.positions.partitions).items():
            if leader in self._fetches:
                continue
            epochs = {key: self._cluster.leader_epoch(key) for key in keys}
            request, asked = self.positions.fetch_request(keys, epochs, self._max_wait_ms, self._max_bytes)
            if asked:
                self._fetches[leader] = self._tasks.spawn(self._ask(leader, request, asked), name=f"fetch {leader}")

    async def _ask(self, leader: int, request: FetchRequest, asked: dict[TopicPartition, int]) -> _Answer:
        try:
            response = await self._cluster.send(leader, request, FetchResponse, lane=WAITING_LANE)
        except OSError:
            self._failures += 1
            await asyncio.sleep(self._pause_s())
            return asked, None
        if any(error_codes(response)):
            self._failures += 1
            await asyncio.sleep(self._pause_s())
        else:
            self._failures = 0
        return asked, response

    def _taken(self, done: Iterable[asyncio.Task[_Answer]]) -> list[FetchedBatches]:
        taken: list[FetchedBatches] = []
        for leader in [leader for leader, task in self._fetches.items() if task in done]:
            asked, response = self._fetches.pop(leader).result()
            if response is None:
                continue
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code))
            for topic in response.responses:
                for row in topic.partitions:
                    key = (topic.topic, row.partition_index)
                    if key not in asked:
                        continue
                    found, must_find_leader = self.positions.fetched(key, asked[key], row)
                    if found is not None:
                        taken.append(found)
                    if must_find_leader:
                        self._cluster.forget_topics([topic.topic])
        return taken

    async def _look_up(self) -> None:
        """Look up the positions that are not known, once."""
        for leader, keys in self._by_leader(self.positions.unknown()).items():
            epochs = {key: self._cluster.leader_epoch(key) for key in keys}
            try:
                response = await self._cluster.send(
                    leader, self.positions.lookup_request(keys, epochs), ListOffsetsResponse, max_version=7
                )
            except OSError:
                self._failures += 1
                continue
            for topic in response.topics:
                for row in topic.partitions:
                    if self.positions.looked_up((topic.name, row.partition_index), row):
                        self._cluster.forget_topics([topic.name])

    def _by_leader(self, keys: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return partitions by their leaders, without those whose leader is not known."""
        found: dict[int, list[TopicPartition]] = {}
        for key in keys:
            leader = self._cluster.leader_of(key)
            if leader is not None:
                found.setdefault(leader, []).append(key)
        return found

    def _pause_s(self) -> float:
        return BACKOFF.pause_ms(max(self._failures, 1), self._randomness) / 1000
