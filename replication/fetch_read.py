"""Reading one partition for a fetch: which errors, how far, which bytes.

Rules: synchronous; a read that would wait for the disk answers "cold" and leaves the wait to the caller. Records are
never looked into: the answer is a byte range of the log.
Invariants: a consumer sees nothing at or past the high watermark (read_committed: the last stable offset); an offset
between that and the log end is an empty answer, never OFFSET_OUT_OF_RANGE.
Source: Kafka ReplicaManager.readFromLog, Partition.fetchRecords; KIP-207, KIP-320, KIP-595 (diverging epoch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from replication.partition import Partition

if TYPE_CHECKING:
    from replication.fetch_sessions import FetchItem
    from runtime.filesystem import Buffer

EMPTY = b""
UNKNOWN_EPOCH = -1


class PartitionRead:
    """What a fetch answers for one partition. `records` is None while a cold read has yet to bring them."""

    __slots__ = (
        "diverging_end_offset",
        "diverging_epoch",
        "error",
        "high_watermark",
        "item",
        "last_stable_offset",
        "limit_offset",
        "log_start_offset",
        "partition",
        "records",
    )

    def __init__(self, item: FetchItem, partition: Partition | None, error: ErrorCode = ErrorCode.NONE) -> None:
        self.item = item
        self.partition = partition
        self.error = error
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.limit_offset = -1
        self.diverging_epoch = UNKNOWN_EPOCH
        self.diverging_end_offset = -1
        self.records: Buffer | None = EMPTY

    @property
    def ends_waiting(self) -> bool:
        """The client must hear of this at once."""
        return self.error != ErrorCode.NONE or self.diverging_epoch != UNKNOWN_EPOCH


def inspect(item: FetchItem, partition: Partition, *, read_committed: bool) -> PartitionRead:
    """Everything about the answer but its records: the errors, and where reading would end (`limit_offset`)."""
    read = PartitionRead(item, partition)
    try:
        partition.check_leader(item.current_leader_epoch)
    except KafkaError as error:
        read.error = error.code
        return read
    log = partition.log
    fetch_offset = item.fetch_offset
    if item.last_fetched_epoch != UNKNOWN_EPOCH and _diverges(read, partition):
        return read
    if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
        read.error = ErrorCode.OFFSET_OUT_OF_RANGE
        return read
    read.high_watermark = log.high_watermark
    read.last_stable_offset = partition.last_stable_offset
    read.log_start_offset = log.log_start_offset
    read.limit_offset = read.last_stable_offset if read_committed else read.high_watermark
    return read


def _diverges(read: PartitionRead, partition: Partition) -> bool:
    """Whether the client's last epoch ended earlier here than where it reads: it must truncate, or seek."""
    item, log = read.item, partition.log
    epoch, end_offset = log.end_offset_for_epoch(item.last_fetched_epoch)
    if end_offset < 0:
        read.error = ErrorCode.OFFSET_OUT_OF_RANGE
        return True
    if epoch < item.last_fetched_epoch or end_offset < item.fetch_offset:
        read.diverging_epoch, read.diverging_end_offset = epoch, end_offset
        read.high_watermark = log.high_watermark
        read.last_stable_offset = partition.last_stable_offset
        read.log_start_offset = log.log_start_offset
        return True
    return False


def available_bytes(read: PartitionRead, *, exactly: bool) -> int:
    """Bytes that `fill` could answer; unless `exactly`, 1 stands for "some"."""
    item = read.item
    if read.error != ErrorCode.NONE or item.fetch_offset >= read.limit_offset:
        return 0
    if not exactly:
        return 1
    assert read.partition is not None
    return min(read.partition.log.bytes_between(item.fetch_offset, read.limit_offset), max(item.max_bytes, 1))


def fill(read: PartitionRead, max_bytes: int, *, at_least_one: bool) -> int:
    """Read the records into `read`, up to `max_bytes`; returns how many bytes, or -1 when they are cold.

    `at_least_one`: the first batch is answered however large it is.
    """
    item, partition = read.item, read.partition
    if partition is None or read.error != ErrorCode.NONE or item.fetch_offset >= read.limit_offset:
        return 0
    limit_bytes = min(max_bytes, item.max_bytes)
    if limit_bytes <= 0 and not at_least_one:
        return 0
    try:
        read.records = partition.log.read(
            item.fetch_offset, limit_offset=read.limit_offset, max_bytes=max(limit_bytes, 0), at_least_one=at_least_one
        )
    except KafkaError as error:
        read.error = error.code
        return 0
    if read.records is None:
        return -1
    return len(read.records)


async def fill_cold(read: PartitionRead, max_bytes: int, *, at_least_one: bool) -> int:
    """Like `fill`, for records that `fill` found cold: waits for the disk in a reader thread."""
    item, partition = read.item, read.partition
    assert partition is not None
    try:
        read.records = await partition.log.read_cold(
            item.fetch_offset,
            limit_offset=read.limit_offset,
            max_bytes=max(min(max_bytes, item.max_bytes), 0),
            at_least_one=at_least_one,
        )
    except KafkaError as error:
        read.error, read.records = error.code, EMPTY
        return 0
    return len(read.records)
