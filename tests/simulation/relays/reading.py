"""Reads the committed records of partitions to their ends, a bit further each time, for the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.topic_partition import TopicPartition
from tests.simulation.line import Unavailable
from tests.simulation.relays.facts import Stored
from tests.simulation.transactions.records import committed_records, read_records

if TYPE_CHECKING:
    from tests.simulation.relays.world import RelayWorld

_VERSION = 11
_READ_COMMITTED = 1
_MAX_BYTES = 1 << 24


class CommittedReader:
    """`found` grows with each `advance`."""

    def __init__(self, world: RelayWorld, name: str, keys: list[TopicPartition]) -> None:
        self.found: dict[TopicPartition, list[Stored]] = {key: [] for key in keys}
        self._world = world
        self._line = world.line(name)
        self._positions = dict.fromkeys(keys, 0)
        self._hidden: set[TopicPartition] = set()

    @property
    def has_open_transactions(self) -> bool:
        """Whether open transactions hid records when the partitions were last read."""
        return bool(self._hidden)

    async def advance(self) -> None:
        """Read all that is stable now."""
        for key in self._positions:
            while await self._fetch(key):
                pass

    async def _fetch(self, key: TopicPartition) -> bool:
        """Whether there is more."""
        row = FetchPartition(partition=key[1], fetch_offset=self._positions[key], partition_max_bytes=_MAX_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_MAX_BYTES,
            isolation_level=_READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=key[0], partitions=[row])],
        )
        try:
            response = await self._line.call(request, _VERSION, FetchResponse)
        except Unavailable:
            await self._line.pause()
            return True
        answer = response.responses[0].partitions[0]
        if answer.error_code != ErrorCode.NONE:
            await self._line.pause()
            return True
        raw, next_offset = read_records(bytes(answer.records or b""))
        for each in committed_records(raw, answer.aborted_transactions or ()):
            if each.offset >= self._positions[key]:
                assert each.record is not None
                self.found[key].append(Stored(*key, each.record))
        self._positions[key] = max(self._positions[key], next_offset)
        (self._hidden.add if answer.last_stable_offset < answer.high_watermark else self._hidden.discard)(key)
        return self._positions[key] < answer.last_stable_offset
