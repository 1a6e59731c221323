"""Expires transactional ids that were not used for a long time: a tombstone each, some in one batch. Pure.

Rules: an id expires `transactional.id.expiration.ms` after its last change, and only without an open transaction. While its
tombstone is being written no other change of it may begin.
Source: Kafka TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from coordinator.runtime.contract import AppendRecords, Outbox, Result
from coordinator.transaction.change_writer import ChangeWriter
from coordinator.transaction.events import TransactionalIdsExpired
from coordinator.transaction.records import transaction_tombstone
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.transaction import TransactionalId
from protocol.errors import ErrorCode

# The number of ids that one operation checks: its tombstones are one batch.
IDS_AT_ONCE = 100


class IdExpiry:
    """Expires ids. The shard owns `ids`."""

    def __init__(
        self,
        partition: int,
        settings: TransactionSettings,
        ids: dict[str, TransactionalId],
        writer: ChangeWriter,
        outbox: Outbox,
    ) -> None:
        self._partition = partition
        self._settings = settings
        self._ids = ids
        self._writer = writer
        self._outbox = outbox

    def chunks(self) -> Iterator[list[str]]:
        """Yield all ids, in chunks."""
        names = list(self._ids)
        for start in range(0, len(names), IDS_AT_ONCE):
            yield names[start : start + IDS_AT_ONCE]

    def expire(self, names: Iterable[str], now_ms: int) -> None:
        """Write tombstones for those of `names` that have expired."""
        expired = [
            subject for name in names if (subject := self._ids.get(name)) is not None and self._is_over(subject, now_ms)
        ]
        if not expired:
            return
        change = _ExpiryChange(self, expired)
        for subject in expired:
            subject.pending = change
        tombstones = tuple(transaction_tombstone(subject.name) for subject in expired)
        self._outbox.put(AppendRecords(Result(tombstones, change)))

    def _is_over(self, subject: TransactionalId, now_ms: int) -> bool:
        stored = subject.stored
        if stored is None or subject.pending is not None or not stored.state.may_expire:
            return False
        return stored.update_timestamp_ms <= now_ms - self._settings.id_expiration_ms

    def removed(self, expired: list[TransactionalId]) -> None:
        self._end(expired)
        names = tuple(subject.name for subject in expired)
        self._outbox.put(TransactionalIdsExpired(self._partition, names))

    def kept(self, expired: list[TransactionalId], error: ErrorCode) -> None:
        """The log refused the tombstones: the ids expire in a later pass."""
        self._end(expired)
        for subject in expired:
            self._writer.not_stored(subject, "expiry", error)

    def _end(self, expired: list[TransactionalId]) -> None:
        for subject in expired:
            self._writer.ended(subject)


@dataclass(slots=True, eq=False)
class _ExpiryChange:
    """Implements the contract's `PendingChange`: no client waits for it."""

    expiry: IdExpiry
    expired: list[TransactionalId]

    def committed(self, now_ms: int) -> None:
        self.expiry.removed(self.expired)

    def failed(self, error: ErrorCode, now_ms: int) -> None:
        self.expiry.kept(self.expired, error)

    def timed_out(self, now_ms: int) -> None:
        pass
