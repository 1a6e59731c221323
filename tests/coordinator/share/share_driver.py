"""Drives a `ShareShard`, and asks it as leaders of partitions and the group coordinator do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from coordinator.runtime.contract import Command, Effect
from coordinator.share.batches import KeptBatch
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.settings import ShareStateSettings
from coordinator.share.shard import DeleteRedundant, ShareShard, StateWrite
from coordinator.share.state import ShareKey
from protocol.share_states import NO_DELIVERY_COMPLETE_COUNT, NO_START_OFFSET
from tests.coordinator.driver import Batch, ShardDriver

PARTITION = 3
ORDERS, PAYMENTS = bytes([1] * 16), bytes([2] * 16)
KEY = ShareKey("g", ORDERS, 0)
ACKNOWLEDGED = 2


def batch(first: int, last: int, delivery_count: int = 1, state: int = ACKNOWLEDGED) -> KeptBatch:
    return KeptBatch(first, last, delivery_count, state)


class ShareDriver(ShardDriver[ShareShard]):
    """`topics`: the partitions of each topic that is known. `deleted_to`: up to where the log was deleted."""

    def __init__(self, settings: ShareStateSettings | None = None, **options: Any) -> None:
        self.settings = settings or ShareStateSettings(updates_per_snapshot=3)
        self.topics = {ORDERS: 2, PAYMENTS: 1}
        self.deleted_to = 0
        self._waiters = count()
        self.last_waiter = -1
        super().__init__(**options)

    def new_shard(self) -> ShareShard:
        return ShareShard(PARTITION, self.settings, lambda topic_id: self.topics.get(topic_id, 0))

    def command(self, command: Command) -> None:
        assert isinstance(command, DeleteRedundant)
        assert command.offset >= self.deleted_to
        self.deleted_to = command.offset
        self.log = [each for each in self.log if not isinstance(each, Batch) or each.base_offset >= command.offset]

    # --- requests ---

    def ask(self, operation: Callable[[ShareShard, int, int], list[Effect]]) -> ShareOutcome | None:
        """Run an operation with a waiter and return its outcome; None while there is none."""
        waiter = self.last_waiter = next(self._waiters)
        self.carry_out(operation(self.shard, waiter, self.now_ms))
        return self.outcome_of(waiter)

    def outcome_of(self, waiter: int) -> ShareOutcome | None:
        found: list[Any] = [response for each, response in self.responses if each == waiter]
        assert len(found) <= 1, found
        return found[0] if found else None

    def initialize(self, key: ShareKey = KEY, state_epoch: int = 1, start_offset: int = 0) -> ShareOutcome | None:
        return self.ask(lambda shard, waiter, now: shard.initialize(key, state_epoch, start_offset, waiter, now))

    def read(self, key: ShareKey = KEY, leader_epoch: int = 5) -> ShareOutcome | None:
        return self.ask(lambda shard, waiter, now: shard.read(key, leader_epoch, waiter, now))

    def summary(self, key: ShareKey = KEY) -> ShareOutcome | None:
        return self.ask(lambda shard, waiter, _: shard.read_summary(key, waiter))

    def write(
        self,
        *batches: KeptBatch,
        key: ShareKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = 5,
        start_offset: int = NO_START_OFFSET,
        delivery_complete_count: int = NO_DELIVERY_COMPLETE_COUNT,
    ) -> ShareOutcome | None:
        change = StateWrite(state_epoch, leader_epoch, start_offset, delivery_complete_count, batches)
        return self.ask(lambda shard, waiter, now: shard.write(key, change, waiter, now))

    def delete(self, key: ShareKey = KEY) -> ShareOutcome | None:
        return self.ask(lambda shard, waiter, _: shard.delete(key, waiter))

    # --- periodic work ---

    def write_again(self) -> int:
        """Returns how many share partitions it was for."""
        chunks = list(self.shard.snapshots_due(self.now_ms))
        for keys in chunks:
            self.do(lambda shard, now_ms, keys=keys: shard.write_again(keys, now_ms))  # type: ignore[misc]
        return sum(map(len, chunks))

    def prune(self) -> int:
        self.do(lambda shard, _: shard.delete_redundant())
        return self.deleted_to

    def remove_unknown(self) -> None:
        for keys in self.shard.keys_of_unknown_topics():
            self.do(lambda shard, _, keys=keys: shard.remove(keys))  # type: ignore[misc]
