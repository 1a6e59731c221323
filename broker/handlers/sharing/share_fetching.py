"""One ShareFetch from its plan to its response: acknowledgements are applied first, then records are acquired, after a wait if
there are none.

The fetch waits until records of `min_bytes` can be acquired in some partition of the session, until every partition has an
error, or until `max_wait_ms` have passed; the response waits besides until what was acknowledged is stored. Bytes are
divided evenly among the partitions that have records; the first batch of one is returned whatever its size.

Rules: partitions are read one after the other, until there are enough records. What is read is acquired in the same turn
of the loop, or, when the disk had to be waited for, while no other fetch reads there (`GroupPartition.is_reading`). A client
above its quota acquires nothing.
Invariants: it completes once. A member holds what the response says that it has acquired: a fetch whose client is gone acquires
nothing more, and the end of the session releases the rest.
Source: Kafka DelayedShareFetch, ShareFetchUtils.processFetchResponse, PartitionMaxBytesStrategy (KIP-932, KIP-1206).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.handlers.sharing.acknowledging import Acknowledging, located
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.share_fetch import AcquiredRecords, ShareFetchRequest
from protocol.share_states import ShareAcquireMode
from replication.sharing.sessions import PartitionKey
from replication.sharing.share_read import ShareRead

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext, Rights
    from replication.sharing.group_partition import GroupPartition
    from replication.sharing.share_partition import AcquiredRange
    from runtime.network.file_range import Piece
    from runtime.timer import TimerEntry

logger = logging.getLogger(__name__)

EMPTY = b""


@dataclass(slots=True)
class Fetched:
    """What the response has of one partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: Piece = EMPTY
    acquired: list[AcquiredRecords] = field(default_factory=list)


class ShareFetching:
    """Owned by the request. `answer` builds the response when everything is known: `fetched` and the acknowledgements."""

    def __init__(
        self,
        request: ShareFetchRequest,
        context: RequestContext,
        keys: Sequence[PartitionKey],
        acknowledging: Acknowledging,
        may_read: Rights,
        lock_duration_ms: int,
    ) -> None:
        self.fetched: dict[PartitionKey, Fetched] = {}
        self.throttle_time_ms = 0
        self._request = request
        self._context = context
        self._services = context.services
        self._group_id = request.group_id or ""
        self._member_id = request.member_id or ""
        self._keys = keys
        self._may_read = may_read
        self._acknowledging = acknowledging
        self._lock_duration_ms = lock_duration_ms
        self._max_bytes = min(request.max_bytes, self._services.settings.fetch_max_bytes)
        self._shared: dict[GroupPartition, None] = {}
        self._timer: TimerEntry | None = None
        self._is_reading = self._is_fetched = self._is_acknowledged = False
        self._is_abandoned = self._is_charged = False
        self._acquired_count = 0
        self._respond = Deferred[ShareFetching](abandoned=self._abandon, expedited=self._on_deadline)

    def begin(self) -> Deferred[ShareFetching]:
        """Begin to read. The result completes with this object when everything is known."""
        self._acknowledging.when_done(self._on_acknowledged)
        for key in self._keys:
            found = located(self._context, key, self._may_read)
            if isinstance(found, ErrorCode):
                self.fetched[key] = Fetched(found)
            else:
                self._shared[self._services.sharing.begin(self._group_id, found)] = None
        if not self._shared:
            self._finish()
        elif not self._proceed():
            if self._request.max_wait_ms <= 0:
                self._finish()
            else:
                self._park()
        return self._respond

    # --- waiting ---

    def _park(self) -> None:
        for shared in self._shared:
            shared.wait(self)
        self._timer = self._services.timer.schedule(self._request.max_wait_ms, self._on_deadline)

    def on_progress(self) -> None:
        """Implements `FetchWaiter`: there may be something to acquire, or a partition has ended."""
        if not self._is_fetched and not self._is_reading:
            self._proceed()

    def _on_deadline(self) -> None:
        if not self._is_fetched and not self._is_reading and not self._proceed(is_last=True):
            self._services.metrics.shares.fetch_expired()
            self._finish()

    def _abandon(self) -> None:
        self._is_abandoned = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        for shared in self._shared:
            shared.leave(self)
        if self._timer is not None:
            self._timer.cancel()

    def _finish(self) -> None:
        self._is_fetched = True
        if self._services.quotas.counts_fetches and not self._is_charged:
            self._charge(0)
        self._stop_waiting()
        self._complete()

    def _on_acknowledged(self) -> None:
        self._is_acknowledged = True
        self._complete()

    def _complete(self) -> None:
        if self._is_fetched and self._is_acknowledged:
            self._respond.complete(self)

    # --- reading ---

    def _proceed(self, *, is_last: bool = False) -> bool:
        """Read and acquire if that is possible. Returns whether the fetch is over, or is waiting for the disk. `is_last`: what
        there is is enough."""
        self._note_ended()
        if not self._shared:
            self._finish()
            return True
        ready = [(shared, offset) for shared in self._shared if (offset := shared.readable_offset()) is not None]
        if not ready or (self._request.min_bytes > 1 and not is_last and not self._has_enough(ready)):
            return False
        return self._take(ready)

    def _note_ended(self) -> None:
        """Take the errors of partitions that are not read any more."""
        for shared in [each for each in self._shared if each.error is not ErrorCode.NONE]:
            self._fail(shared, shared.error)

    def _fail(self, shared: GroupPartition, error: ErrorCode, message: str | None = None) -> None:
        shared.leave(self)
        del self._shared[shared]
        self.fetched[PartitionKey(shared.topic_id, shared.index)] = Fetched(error, message)

    def _has_enough(self, ready: Sequence[tuple[GroupPartition, int]]) -> bool:
        found_bytes, enough_bytes = 0, min(self._request.min_bytes, self._max_bytes)
        for shared, offset in ready:
            try:
                found_bytes += shared.partition.log.reading.bytes_between(offset, shared.limit_offset)
            except KafkaError:
                return True  # the read reports it
            if found_bytes >= enough_bytes:
                return True
        return False

    def _take(self, ready: Sequence[tuple[GroupPartition, int]]) -> bool:
        """Read and acquire, one partition after the other, until there are enough records. Returns as `_proceed`. While nothing
        is acquired, the first batch that is found is taken whatever its size, and waited for if it is cold."""
        room = self._services.response_memory.room()
        each_bytes, takes_ranges = (
            max(min(self._max_bytes, room) // len(ready), 1),
            self._context.connection.takes_ranges,
        )
        for shared, offset in ready:
            if self._acquired_count >= self._request.max_records or self.throttle_time_ms:
                break
            read = ShareRead(shared, offset)
            try:
                read.read(
                    self._wanted(read), each_bytes, takes_ranges=takes_ranges, at_least_one=not self._acquired_count
                )
            except (KafkaError, OSError) as error:
                self._unreadable(read, error)
                continue
            if not read.is_cold:
                self._acquire(read)
            elif not self._acquired_count:
                self._is_reading = shared.is_reading = True
                self._services.tasks.spawn(self._take_cold(read, each_bytes), name="cold share fetch")
                return True
        if self._acquired_count or self.throttle_time_ms or not self._shared:
            self._finish()
        return self._is_fetched

    def _wanted(self, read: ShareRead) -> int:
        """Return how many offsets are read."""
        assert read.shared.share is not None
        return read.shared.share.wanted_end(read.offset, self._request.max_records) - read.offset

    def _unreadable(self, read: ShareRead, error: KafkaError | OSError) -> None:
        """A partition could not be read. Its log start may have passed the offset: then it is read from there next time."""
        read.drop()
        shared = read.shared
        failure = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if failure.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            shared.partition.log.reading.log_unreadable(failure, read.offset)
            self._fail(shared, failure.code, failure.message)

    async def _take_cold(self, read: ShareRead, max_bytes: int) -> None:
        """Go on when the disk has brought what is cold."""
        shared, budget = read.shared, self._services.response_memory.budget
        budget.reserve_anyway(max_bytes)
        try:
            await read.read_cold(self._wanted(read), max_bytes)
        except (KafkaError, OSError) as error:
            self._unreadable(read, error)
        except Exception:  # the client gets a response
            logger.exception("read failed: topic=%s partition=%d offset=%d", *shared.partition.log.key, read.offset)
            self._fail(shared, ErrorCode.UNKNOWN_SERVER_ERROR)
        finally:
            budget.release(max_bytes)
            self._is_reading = shared.is_reading = False
            shared.wake()
        if self._is_abandoned:
            read.drop()
            return
        self._acquire(read)
        self._finish()

    # --- acquiring ---

    def _acquire(self, read: ShareRead) -> None:
        """Acquire what was read, unless the client is above its quota."""
        left = self._request.max_records - self._acquired_count
        if read.batches and self._services.quotas.counts_fetches:
            self._charge(read.bytes_of(left))
        if not self.throttle_time_ms:
            self._acquired_count += self._acquire_of(read, left)
        read.drop()

    def _charge(self, size_bytes: int) -> None:
        """Charge the client for what it gets, and learn for how long it must wait; then it gets nothing."""
        self._is_charged = True
        self.throttle_time_ms = self._services.quotas.throttle_fetch(self._context, size_bytes)

    def _acquire_of(self, read: ShareRead, records_max: int) -> int:
        """Acquire in one partition. Returns how many records that are."""
        shared, request = read.shared, self._request
        share = shared.share
        if share is None or shared.error is not ErrorCode.NONE or not read.batches:
            return 0
        acquired: Sequence[AcquiredRange] = share.acquire(
            self._member_id,
            read.batches,
            fetch_offset=read.offset,
            max_records=records_max,
            batch_size=request.batch_size,
            mode=ShareAcquireMode(request.share_acquire_mode),
            lock_until_ms=self._services.clock.monotonic_ms() + self._lock_duration_ms,
        )
        if not acquired:
            return 0
        aborted = read.aborted_ranges()
        if aborted:
            acquired = shared.archive(acquired, aborted)
        shared.on_acquired()
        if not acquired:
            return 0
        rows = [
            AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
            for each in acquired
        ]
        records = read.cut(acquired[0].first, acquired[-1].last)
        self.fetched[PartitionKey(shared.topic_id, shared.index)] = Fetched(records=records, acquired=rows)
        self._services.metrics.share_fetched(shared.partition.topic, len(records))
        return sum(each.last - each.first + 1 for each in acquired)
