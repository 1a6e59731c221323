"""Producers that write in transactions, and their coordinator, on a log."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from storage.log.append_result import AppendResult
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.segments.segment_files import TXN_INDEX_SUFFIX
from storage.segments.txn_index import AbortedTxn, decode_transactions
from tests.storage.logs import NOW_MS, World, append_records, batch


@dataclass
class Transactional:
    """One producer. It keeps its sequence, and commits everything that it has written at once."""

    log: PartitionLog
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    coordinator_epoch: int = 0

    async def write(self, *values: str, timestamp: int = NOW_MS) -> AppendResult:
        records = batch(
            *values, timestamp=timestamp, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=self.sequence, is_transactional=True,
        )  # fmt: skip
        self.sequence += len(values)
        result = await append_records(self.log, records)
        self.log.commit(self.log.log_end_offset)
        return result

    async def commit(self) -> AppendResult:
        return await self._end(ControlType.COMMIT)

    async def abort(self) -> AppendResult:
        return await self._end(ControlType.ABORT)

    def marker(self, kind: ControlType, timestamp: int = NOW_MS) -> bytearray:
        end = EndTxnMarker(kind, self.coordinator_epoch, timestamp)
        return bytearray(encode_marker(end, producer_id=self.producer_id, producer_epoch=self.epoch))

    async def _end(self, kind: ControlType) -> AppendResult:
        result = await append_records(self.log, self.marker(kind), origin=AppendOrigin.COORDINATOR)
        self.log.commit(self.log.log_end_offset)
        return result


async def play(log: PartitionLog, rounds: int, *, first_producer: int = 1) -> None:
    """Two producers whose transactions overlap; every third is aborted, at changing places."""
    one, two = (Transactional(log, first_producer + at) for at in range(2))
    one.sequence = two.sequence = 0
    for turn in range(rounds):
        await one.write(f"{turn} a")
        await two.write(f"{turn} b" * 10)
        await one.write(f"{turn} c")
        for at, producer in enumerate((one, two)):
            await (producer.abort() if (turn + at) % 3 == 0 else producer.commit())


def stored(world: World, log: PartitionLog) -> list[AbortedTxn]:
    """What the transaction indexes hold, segment by segment."""
    filesystem = world.environment.filesystem
    found: list[AbortedTxn] = []
    for segment in log.segments:
        path = segment.path(TXN_INDEX_SUFFIX)
        if filesystem.exists(path):
            found += decode_transactions(filesystem.read_bytes(path))
    return found
