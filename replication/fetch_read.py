"""Reads one partition for a fetch: decides its error, its limit offset and its bytes.

Rules: synchronous; a read that would wait for the disk returns "cold" and leaves the wait to the caller. Records are never
decoded: the result is a byte range of the log, and at read_committed the aborted transactions that overlap it.
Invariants: a consumer sees nothing at or past the high watermark (read_committed: the last stable offset), on the leader or on
a follower, however long the read waits; an offset between that and the log end gives an empty result, never
OFFSET_OUT_OF_RANGE. A follower or debugging consumer, which reads further, reads in the leader epoch of its request, or
nothing, however long it waits.
Source: Kafka ReplicaManager.readFromLog, Partition.fetchRecords; KIP-207, KIP-320, KIP-392, KIP-595 (diverging epoch).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from replication.partition import NO_LEADER, Partition
from replication.waiting.delayed_queues import COMMITTED_END, LOG_END, STABLE_END

if TYPE_CHECKING:
    from protocol.messages.fetch import FetchRequest
    from replication.fetch_sessions import FetchItem
    from runtime.disk.filesystem import Buffer
    from runtime.network.file_range import FileRange
    from storage.log.partition_log import PartitionLog
    from storage.segments.txn_index import AbortedTxn

logger = logging.getLogger(__name__)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
EMPTY = b""
UNKNOWN_EPOCH = -1
NO_REPLICA = -1
CONSUMER_ID = -1
# The limit offset of a read that failed.
NOTHING = -(1 << 63)
NO_ERROR = ErrorCode.NONE  # the look-up in an enum's class is not free
# Errors found without reading a log: such partitions neither end nor prolong the wait for others.
UNREAD_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
# Since this version, consumers may read from followers (KIP-392).
FOLLOWER_READS_VERSION = 11


class FetchReader:
    """The sender of a fetch and how far it may read; immutable.

    A `replica_id` below -1 is a debugging consumer, which reads to the end of the log on any replica. `rack` is the consumer's
    rack, empty when its version of Fetch cannot be redirected to another replica.
    """

    __slots__ = (
        "broker_epoch",
        "interest",
        "is_replica",
        "needs_leader",
        "rack",
        "read_committed",
        "reads_to_log_end",
        "replica_id",
    )

    def __init__(
        self,
        replica_id: int = CONSUMER_ID,
        broker_epoch: int = -1,
        *,
        read_committed: bool = False,
        needs_leader: bool = True,
        rack: str = "",
    ) -> None:
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.read_committed = read_committed
        self.needs_leader = needs_leader
        self.rack = rack
        self.is_replica = replica_id >= 0
        self.reads_to_log_end = replica_id != CONSUMER_ID
        if self.reads_to_log_end:
            self.interest = LOG_END
        else:
            self.interest = STABLE_END if read_committed else COMMITTED_END


_CONSUMERS = {
    (read_committed, needs_leader): FetchReader(read_committed=read_committed, needs_leader=needs_leader)
    for read_committed in (False, True)
    for needs_leader in (False, True)
}


def reader_of(request: FetchRequest, version: int) -> FetchReader:
    """Return the sender of a fetch. Only leaders serve followers, and consumers from before KIP-392."""
    replica_id = request.replica_id
    if replica_id == CONSUMER_ID:
        replica_id = request.replica_state.replica_id  # its place since version 15
    read_committed = request.isolation_level == READ_COMMITTED
    needs_leader = version < FOLLOWER_READS_VERSION
    if replica_id != CONSUMER_ID:
        return FetchReader(replica_id, request.replica_state.replica_epoch, needs_leader=replica_id >= 0)
    if request.rack_id and not needs_leader:
        return FetchReader(read_committed=read_committed, needs_leader=False, rack=request.rack_id)
    return _CONSUMERS[read_committed, needs_leader]


class PartitionRead:
    """The result of a fetch for one partition. `records` is None until a cold read has brought them; `available_bytes` counts
    towards the fetch's minimum."""

    __slots__ = (
        "aborted",
        "available_bytes",
        "diverging",
        "ends_waiting",
        "error",
        "high_watermark",
        "item",
        "last_stable_offset",
        "leader_epoch",
        "limit_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
    )

    def __init__(self, item: FetchItem, partition: Partition | None, error: ErrorCode = NO_ERROR) -> None:
        self.item = item
        self.partition = partition
        self.error = error
        self.ends_waiting = error is not NO_ERROR  # the client needs the error immediately
        self.available_bytes = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.limit_offset = NOTHING
        # The leader epoch of a read of uncommitted records; UNKNOWN_EPOCH when only committed ones are read.
        self.leader_epoch = UNKNOWN_EPOCH
        # (epoch, its end offset) where the client's log diverges.
        self.diverging: tuple[int, int] | None = None
        self.preferred_read_replica = NO_REPLICA
        self.records: Buffer | FileRange | None = EMPTY
        # The aborted transactions among the records for a read_committed client; None for others.
        self.aborted: list[AbortedTxn] | None = None

    @property
    def is_unread(self) -> bool:
        return self.error in UNREAD_ERRORS

    @property
    def has_records(self) -> bool:
        """Whether there are records behind the client's offset, which `fill` would read."""
        return self.item.fetch_offset < self.limit_offset

    def overtaken(self) -> ErrorCode | None:
        """Return the error of a read that is outdated, else None: another epoch has begun, in which the log may have been
        truncated; or, for a client that reads committed records, the log was truncated below them and may have other records
        there."""
        partition = self.partition
        assert partition is not None
        if self.leader_epoch == UNKNOWN_EPOCH:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.limit_offset > partition.log.high_watermark else None
        return None if self.leader_epoch == partition.assignment.leader_epoch else ErrorCode.FENCED_LEADER_EPOCH

    def fail(self, error: ErrorCode) -> int:
        """Give the read an error and no bytes. Returns 0."""
        self.error, self.ends_waiting = error, True
        self.limit_offset, self.records = NOTHING, EMPTY
        return 0

    def redirect(self, replica_id: int) -> None:
        """Tell the client to read from `replica_id` instead."""
        self.preferred_read_replica, self.ends_waiting = replica_id, True
        self.limit_offset, self.aborted = NOTHING, None

    def has_more(self, reader: FetchReader) -> bool:
        """Whether the next fetch has to inspect the partition again, even if nothing changes until then."""
        return (
            self.has_records
            or self.ends_waiting
            or (reader.is_replica and not self.item.is_idle)
            or (bool(reader.rack) and self.partition is not None and self.partition.may_redirect)
        )


def inspect(item: FetchItem, partition: Partition, reader: FetchReader) -> PartitionRead:
    """Determine everything about the result but its records: the error, and where reading would end (`limit_offset`)."""
    read = PartitionRead(item, partition)
    if partition.leader is None or reader.is_replica or item.current_leader_epoch != UNKNOWN_EPOCH:
        try:
            _check_reader(item, partition, reader)
        except KafkaError as error:
            read.fail(error.code)
            return read
    offsets = partition.log.offsets
    fetch_offset = item.fetch_offset
    if item.last_fetched_epoch != UNKNOWN_EPOCH and _diverges(read, partition):
        return read
    if not offsets.log_start_offset <= fetch_offset <= offsets.log_end_offset:
        read.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
        return read
    read.high_watermark = offsets.high_watermark
    read.last_stable_offset = partition.last_stable_offset
    read.log_start_offset = offsets.log_start_offset
    if reader.reads_to_log_end:
        is_held_back = reader.is_replica and partition.is_throttled(reader.replica_id)
        read.limit_offset = fetch_offset if is_held_back else offsets.log_end_offset
        read.leader_epoch = partition.assignment.leader_epoch
    elif reader.read_committed:
        read.limit_offset, read.aborted = read.last_stable_offset, []
    else:
        read.limit_offset = read.high_watermark
    return read


def _check_reader(item: FetchItem, partition: Partition, reader: FetchReader) -> None:
    """Raise KafkaError when this reader must not read here."""
    if partition.leader is not None or reader.needs_leader:
        partition.check_leader(item.current_leader_epoch)
        if reader.is_replica:
            partition.check_replica(reader.replica_id, reader.broker_epoch, item.current_leader_epoch)
        return
    partition.check_online()
    assignment = partition.assignment
    assignment.check_epoch(item.current_leader_epoch, partition.topic, partition.partition)
    if assignment.leader_id == NO_LEADER:  # it follows no leader, so its records may stay outdated for long
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} has no leader.")


def record_follower(read: PartitionRead, reader: FetchReader, now_ms: int) -> None:
    """Note a follower's fetch, which may commit records. Called once a request, before anything is read for it."""
    if read.partition is not None and not read.ends_waiting:
        item, partition = read.item, read.partition
        partition.on_follower_fetch(
            reader.replica_id, reader.broker_epoch, item.fetch_offset, item.log_start_offset, now_ms
        )
        read.high_watermark, read.last_stable_offset = partition.high_watermark, partition.last_stable_offset
        item.replica = partition.mark_idle(reader.replica_id, item.session)


def watch(read: PartitionRead, reader: FetchReader) -> None:
    """Register the session with the partition, which touches it at every change from now on."""
    partition = read.partition
    assert partition is not None
    read.item.watch(partition.own_waiters().watchers_of(reader.interest))


def _diverges(read: PartitionRead, partition: Partition) -> bool:
    """Whether the client's last epoch ended earlier here than its fetch offset: it must truncate, or seek."""
    item, log = read.item, partition.log
    epoch, end_offset = log.epochs.end_offset_for(item.last_fetched_epoch)
    if end_offset < 0 or item.fetch_offset < log.log_start_offset:
        read.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
        return True
    if epoch < item.last_fetched_epoch or end_offset < item.fetch_offset:
        read.diverging, read.ends_waiting = (epoch, end_offset), True
        read.high_watermark = log.high_watermark
        read.last_stable_offset = partition.last_stable_offset
        read.log_start_offset = log.log_start_offset
        return True
    return False


def available_bytes(read: PartitionRead, *, exactly: bool) -> int:
    """Count the bytes that `fill` could return; unless `exactly`, 1 stands for "some". Damaged data, which `fill` will report,
    ends the wait."""
    if not read.has_records:
        return 0
    if not exactly:
        return 1
    item = read.item
    assert read.partition is not None
    try:
        size_bytes = read.partition.log.reading.bytes_between(item.fetch_offset, read.limit_offset)
    except KafkaError:
        read.ends_waiting = True
        return 0
    return min(size_bytes, max(item.max_bytes, 1))


def first_batch_bytes(read: PartitionRead) -> int | None:
    """Return the size of the first batch that `fill` would return, however large; None when it is cold. Raises KafkaError."""
    assert read.partition is not None
    found = read.partition.log.reading.read(
        read.item.fetch_offset, limit_offset=read.limit_offset, max_bytes=0, at_least_one=True
    )
    return None if found is None else len(found)


def fill(read: PartitionRead, max_bytes: int, *, at_least_one: bool, takes_ranges: bool = False) -> int:
    """Read the records into `read`, up to `max_bytes`; returns the number of bytes, or -1 when they are cold.

    `at_least_one`: the first batch is returned however large it is. `takes_ranges`: records may be a range of a file.
    """
    item, partition = read.item, read.partition
    if partition is None or not read.has_records:
        return 0
    limit_bytes = min(max_bytes, item.max_bytes)
    if limit_bytes <= 0 and not at_least_one:
        return 0
    if (overtaken := read.overtaken()) is not None:
        return read.fail(overtaken)
    reading = partition.log.reading
    read_log = reading.read_to_send if takes_ranges else reading.read
    try:
        read.records = read_log(
            item.fetch_offset, limit_offset=read.limit_offset, max_bytes=max(limit_bytes, 0), at_least_one=at_least_one
        )
        if read.records is None:
            return -1
        if read.aborted is not None and read.records:
            aborted = partition.log.reading.aborted_in(item.fetch_offset, len(read.records))
            if aborted is None:
                read.records = None
                return -1
            read.aborted = aborted
    except KafkaError as error:
        reading.log_unreadable(error, item.fetch_offset)
        return read.fail(error.code)
    return len(read.records)


async def fill_cold(read: PartitionRead, max_bytes: int, *, at_least_one: bool) -> int:
    """Like `fill`, for records that `fill` found cold: waits for the disk in a reader thread."""
    item, partition = read.item, read.partition
    assert partition is not None
    limit_bytes = max(min(max_bytes, item.max_bytes), 0)
    while True:
        log = partition.log  # the partition may get another log, in another directory, meanwhile
        try:
            await _read_cold(read, log, limit_bytes, at_least_one=at_least_one)
        except KafkaError as error:
            if log is not partition.log:
                continue  # the log was closed; the new one has the same records
            log.reading.log_unreadable(error, item.fetch_offset)
            return read.fail(error.code)
        except Exception:  # the other partitions of the fetch are served, and the client gets a response
            logger.exception("read failed: topic=%s partition=%d offset=%d", *log.key, item.fetch_offset)
            return read.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        break
    if (overtaken := read.overtaken()) is not None:
        return read.fail(overtaken)
    assert read.records is not None
    return len(read.records)


async def _read_cold(read: PartitionRead, log: PartitionLog, max_bytes: int, *, at_least_one: bool) -> None:
    """Read the records and their aborted transactions from one log. Raises KafkaError."""
    start_offset, limit_offset = read.item.fetch_offset, read.limit_offset
    if read.aborted is None:
        read.records = await log.reading.read_cold(
            start_offset, limit_offset=limit_offset, max_bytes=max_bytes, at_least_one=at_least_one
        )
    else:
        read.records, read.aborted = await log.reading.read_cold_with_aborted(
            start_offset, limit_offset=limit_offset, max_bytes=max_bytes, at_least_one=at_least_one
        )
