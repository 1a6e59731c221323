"""All fetchers of this broker: one for each source broker and fetcher id, made when a partition needs it.

    partition  --leader, hash % num.replica.fetchers-->  Fetcher  --its own connection-->  source broker

Rules: a partition is with one fetcher at a time: to move it, call `stop_following` first, which returns when no work on its log
is in progress, and then `follow`, or lead it. A control request ends with `finish_assignment`, which stops fetchers without
partitions, and fetches new partitions immediately.
Invariant: after `stop_following` only the partition's owner appends to its log.
Source: Kafka ReplicaFetcherManager, AbstractFetcherManager.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from client.event_loop.broker_client import BrokerClient
from client.event_loop.connector import Connector
from protocol.topic_partition import TopicPartition
from replication.followers.fetcher import Fetcher, FetcherDependencies
from replication.followers.leader_endpoint import FetchSettings
from runtime.network.transport import Address
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from replication.partition import Partition

logger = logging.getLogger(__name__)


class Fetchers:
    """Assigns followed partitions to fetchers. `address_of` returns a broker's current address on the inter-broker listener,
    None when unknown."""

    def __init__(
        self,
        settings: FetchSettings,
        connector: Connector,
        address_of: Callable[[int], Address | None],
        dependencies: FetcherDependencies,
        tasks: TaskScope,
    ) -> None:
        self._settings = settings
        self._connector = connector
        self._address_of = address_of
        self._dependencies = dependencies
        self._tasks = tasks
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._fetcher_of: dict[TopicPartition, Fetcher] = {}
        # The address of each source broker when its fetchers connected.
        self._addresses: dict[int, Address | None] = {}
        self._running: dict[asyncio.Task[None], None] = {}
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._fetchers)

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    # --- which partitions ---

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        """Copy `partition` from `leader_id` from now on."""
        if self._is_stopping:
            return
        key = (partition.topic, partition.partition)
        fetcher = self._fetcher(leader_id, self._fetcher_id(key))
        assert self._fetcher_of.get(key, fetcher) is fetcher, f"{key} has not left {self._fetcher_of[key]}"
        self._fetcher_of[key] = fetcher
        fetcher.follow(partition, leader_epoch)

    def follows(self, topic: str, partition: int) -> bool:
        """Whether the partition is copied from another broker."""
        return (topic, partition) in self._fetcher_of

    def refresh(self, partition: Partition) -> None:
        """Send the id that the partition's topic has got; its row in the session changes."""
        fetcher = self._fetcher_of.get((partition.topic, partition.partition))
        if fetcher is not None:
            fetcher.follow(partition, partition.assignment.leader_epoch)

    async def stop_following(self, topic: str, partition: int) -> None:
        """Stop copying the partition; return when no work on it is in progress. Two callers may wait for the same partition."""
        key = (topic, partition)
        fetcher = self._fetcher_of.get(key)
        if fetcher is not None:
            await fetcher.stop_following(key)
            if key not in fetcher and self._fetcher_of.get(key) is fetcher:
                del self._fetcher_of[key]

    def forget(self, topic: str, partition: int) -> None:
        """Stop copying a partition whose log has failed. Its log accepts nothing any more, so there is nothing to wait for."""
        fetcher = self._fetcher_of.pop((topic, partition), None)
        if fetcher is not None:
            fetcher.forget((topic, partition))

    def finish_assignment(self) -> None:
        """Stop fetchers without partitions and start fetching new partitions, after a control request."""
        for place, fetcher in list(self._fetchers.items()):
            if len(fetcher):
                fetcher.interrupt_wait()
            else:
                del self._fetchers[place]
                fetcher.close()

    def _fetcher_id(self, key: TopicPartition) -> int:
        return (31 * zlib.crc32(key[0].encode()) + key[1]) % self._settings.fetchers_count

    def _fetcher(self, source_id: int, fetcher_id: int) -> Fetcher:
        self._follow_address(source_id)
        fetcher = self._fetchers.get((source_id, fetcher_id))
        if fetcher is None:
            fetcher = Fetcher(
                source_id, partial(self._connect, source_id, fetcher_id), self._settings, self._dependencies
            )
            self._fetchers[source_id, fetcher_id] = fetcher
            task = self._tasks.spawn(fetcher.run(), name=f"replica fetcher {fetcher_id} from broker {source_id}")
            self._running[task] = None
            task.add_done_callback(lambda task: self._running.pop(task, None))
        return fetcher

    def _follow_address(self, source_id: int) -> None:
        """Reconnect when the source broker has a new address: requests to the old one would only end by timeout."""
        address = self._address_of(source_id)
        if self._addresses.get(source_id, address) != address:
            for (other_id, _), fetcher in self._fetchers.items():
                if other_id == source_id:
                    fetcher.reconnect()
        self._addresses[source_id] = address

    def _connect(self, source_id: int, fetcher_id: int) -> BrokerClient:
        return BrokerClient(
            self._connector,
            lambda: self._address_of(source_id),
            f"broker-{self._settings.broker_id}-fetcher-{fetcher_id}",
            timeout_ms=self._settings.socket_timeout_ms,
        )

    async def change_settings(self, settings: FetchSettings) -> None:
        """Apply dynamic settings (`num.replica.fetchers`): all fetchers are restarted with them."""
        if settings == self._settings:
            return
        followed = [
            (partition, fetcher.source_id) for fetcher in self._fetchers.values() for partition in fetcher.partitions()
        ]
        for partition, _ in followed:
            await self.stop_following(partition.topic, partition.partition)
        self.finish_assignment()
        self._settings = settings
        for partition, source_id in followed:
            has_place = (partition.topic, partition.partition) in self._fetcher_of
            # No control request in between has changed the assignment.
            if not has_place and partition.assignment.leader_id == source_id and not partition.is_leader:
                self.follow(partition, source_id, partition.assignment.leader_epoch)

    # --- the end ---

    def stop_accepting(self) -> None:
        """Ignore new partitions, because this broker is about to stop. A replica that joined the ISR now would only delay its
        leader."""
        self._is_stopping = True

    async def close(self) -> None:
        """Stop all fetchers; return when nothing is copied any more."""
        self._is_stopping = True
        self._fetcher_of.clear()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        if self._running:
            await asyncio.wait(list(self._running))

    # --- what is measured ---

    @property
    def failed_partitions_count(self) -> int:
        return sum(fetcher.failed_partitions_count for fetcher in self._fetchers.values())

    @property
    def max_lag(self) -> int:
        """The largest number of records that a partition is behind its leader's high watermark."""
        return max((lag for _, lag in self.lags()), default=0)

    def lags(self) -> Iterator[tuple[TopicPartition, int]]:
        for fetcher in self._fetchers.values():
            yield from fetcher.lags()

    def by_place(self) -> Iterator[tuple[int, Address | None, Fetcher]]:
        """Yield (fetcher id, address of the source broker, fetcher)."""
        for (source_id, fetcher_id), fetcher in self._fetchers.items():
            yield fetcher_id, self._addresses.get(source_id), fetcher

    def min_fetch_rate(self) -> float:
        """The requests a second of the slowest fetcher; 0 without any."""
        now_ms = self._dependencies.clock.monotonic_ms()
        return min((fetcher.requests_per_second(now_ms) for fetcher in self._fetchers.values()), default=0.0)
