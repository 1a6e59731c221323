"""One membership of a relay's group, for one set of rules: source partitions come and go, lanes bring their records.

A session ends when the rules have other sources, the process stops, or it is unknown what was committed; the next one begins
from the logs. Nothing is carried over in memory.

Rules: a source partition is read, and its transactions are done, between `assigned` and `revoked` alone; a revocation waits for
the transaction that is under way. The application's poll of the group is the reading loop: a process whose loop hangs leaves.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from client.admin.groups import commit_offsets, stable_offsets
from client.backoff import Backoff
from client.event_loop.group_member import GroupMember
from client.event_loop.place_reader import PlaceReader
from client.event_loop.reader import PartitionReader
from client.membership.contract import MemberSettings
from client.reading.positions import Positions, Reset
from protocol.errors import KafkaError
from protocol.records.invalid import InvalidBatch
from relay.relaying.cleanup import delete_unneeded
from relay.relaying.contents import Contents
from relay.relaying.lane import Lane, LaneParts
from relay.relaying.loading import load
from relay.relaying.reading_ahead import ReadingAhead
from relay.relaying.trouble import Trouble
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from client.event_loop.cluster_client import AsyncClusterClient
    from config.relay import RelaySettings
    from protocol.topic_partition import TopicPartition
    from relay.figures import RelayFigures
    from relay.names import RelayNames
    from relay.relaying.source import SourcePartition
    from relay.relaying.work import Terms
    from relay.rules.rule import Rule
    from relay.surroundings import RelaySurroundings
    from relay.waiting.delivered_ids import DeliveredIds

POLL_MS: Final = 500
FULL_POLL_MS: Final = 20
"""While a source is not read because too much of it is to be taken in."""
STOP_S: Final = 10.0
HEARTBEAT_MS: Final = 3_000
CLEANUP_S: Final = 60.0
RENEWAL_S: Final = 3_600.0
MAIN: Final = ""
BACKOFF: Final = Backoff(100, 5_000)

logger = logging.getLogger(__name__)


class RelaySession:
    """`open_cluster` opens a client with its own connections, which the session closes. `instance` is a name that no other
    process has. `ids` are those of what was delivered lately."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        terms: Terms,
        settings: RelaySettings,
        names: RelayNames,
        surroundings: RelaySurroundings,
        open_cluster: Callable[[str], AsyncClusterClient],
        figures: RelayFigures,
        ids: DeliveredIds,
        instance: str,
    ) -> None:
        self.rules = dict(rules)
        self.reason: str | None = None
        """Why the session has ended by itself."""
        self._terms = terms
        self._settings = settings
        self._names = names
        self._surroundings = surroundings
        self._open_cluster = open_cluster
        self._figures = figures
        self._ids = ids
        self._instance = instance
        self._has_ended = asyncio.Event()
        self._clusters: list[AsyncClusterClient] = []
        self._tasks = TaskScope(f"relay {names.name}", on_failure=lambda name, error: self.end(f"{name}: {error!r}"))
        self._contents = Contents()
        self._sources: dict[TopicPartition, SourcePartition] = {}
        self._lanes: dict[str, Lane] = {}
        self._open_lanes: list[Lane] = []  # with those from which sources are being moved
        self._lane_tasks: dict[str, asyncio.Task[None]] = {}
        self._loads: dict[TopicPartition, asyncio.Task[None]] = {}
        self._unread: dict[TopicPartition, None] = {}  # sources that are full
        self._reader = PartitionReader(
            self._cluster("reader"), surroundings.randomness, Positions(Reset.EARLIEST), max_wait_ms=POLL_MS
        )
        self._places = PlaceReader(self._cluster("places"), surroundings.randomness)
        self._ahead = ReadingAhead(self._places, self._contents, names, surroundings.clock, self._wake)
        self._group_cluster = self._cluster("group")
        self._parts = LaneParts(
            names=names,
            terms=terms,
            contents=self._contents,
            figures=figures,
            surroundings=surroundings,
            membership=lambda: self._member.membership,
            starved=self._ahead.starved,
            troubled=self._on_troubled,
            recovered=self._on_recovered,
            on_lost=self.end,
            transaction_timeout_ms=settings.barnabas_relay_transaction_timeout_ms,
        )
        self._open_lane(MAIN, None)
        self._member = GroupMember(
            self._group_cluster,
            names.name,
            sorted(self.rules),
            self,
            surroundings.randomness,
            MemberSettings(
                session_timeout_ms=settings.barnabas_relay_session_timeout_ms,
                heartbeat_interval_ms=min(HEARTBEAT_MS, settings.barnabas_relay_session_timeout_ms // 3),
            ),
        )

    @property
    def is_member(self) -> bool:
        """Whether the process is a member of the group."""
        return self._member.membership.generation_id >= 0

    @property
    def waiting_count(self) -> int:
        """How many records wait in the source partitions of this process."""
        return sum(each.index.count for each in self._sources.values())

    @property
    def sources(self) -> Collection[TopicPartition]:
        """The source partitions of this process."""
        return self._sources.keys()

    @property
    def troubled_count(self) -> int:
        """How many source topics have targets that do not take records."""
        return len(self._lanes) - 1

    @property
    def next_due_ms(self) -> int | None:
        """When the next record of these partitions is due, or was; None without any."""
        each_due_ms = (each.index.next_due_ms() for each in self._sources.values())
        return min((due_ms for due_ms in each_due_ms if due_ms is not None), default=None)

    def end(self, reason: str) -> None:
        """Let the session end: what was committed is to be read from the logs."""
        if self.reason is None:
            self.reason = reason
        self._has_ended.set()

    async def run(self) -> None:
        """Return when the session has ended by itself."""
        self._tasks.spawn(self._read(), name="reading")
        self._tasks.spawn(self._ahead.run(self._sources.values), name="reading ahead")
        self._tasks.spawn(self._clean_up(), name="cleanup")
        await self._has_ended.wait()

    async def close(self) -> None:
        """Leave the group when the transactions that are under way have ended."""
        keys = list(self._sources)
        try:
            async with asyncio.timeout(STOP_S):
                await self._release(keys)
        except TimeoutError:
            logger.warning("a transaction does not end, and is left to its timeout: group=%s", self._names.name)
        await self._tasks.close()
        await self._member.close()
        await self._reader.close()
        await self._places.close()
        for lane in self._open_lanes:
            await lane.close()
        for cluster in self._clusters:
            await cluster.close()

    async def change(self, rules: Mapping[str, Rule]) -> bool:
        """Go on with other rules for the same sources, and return whether that is possible: not with other sources, nor where
        the target of a rule that changes is in trouble."""
        changed = {source for source, rule in rules.items() if self.rules.get(source) != rule}
        if rules.keys() != self.rules.keys() or changed & self._lanes.keys():
            return False
        self.rules.update(rules)
        lane = self._lanes[MAIN]
        for source in await lane.release([key for key in self._sources if key[0] in changed]):
            source.change_rule(self.rules[source.key[0]])
            if source.key in self._sources:
                lane.add(source)
        # One whose target has got into trouble meanwhile is in no lane, or in another one.
        return all(source.rule == self.rules[source.key[0]] for source in self._sources.values())

    # --- the group's listener ---

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        for topic in {topic for topic, _ in partitions}:
            keys = [key for key in partitions if key[0] == topic]
            task = self._tasks.spawn(self._load(keys), name=f"loading {topic}")
            self._loads |= dict.fromkeys(keys, task)

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        for key in partitions:
            task = self._loads.pop(key, None)
            if task is not None and not task.done():
                task.cancel()
        self._reader.drop(partitions)
        await self._release(partitions)
        if is_lost:
            logger.warning("source partitions were lost: partitions=%d", len(partitions))
        else:
            logger.info("source partitions were given up: partitions=%d", len(partitions))

    async def _release(self, partitions: list[TopicPartition]) -> None:
        for lane in list(self._lanes.values()):
            await lane.release(partitions)
        self._ahead.drop(partitions)
        for key in partitions:
            self._unread.pop(key, None)
            self._contents.drop_source(key)
            self._sources.pop(key, None)

    async def _load(self, keys: list[TopicPartition]) -> None:
        """Take source partitions over; again while the cluster does not answer."""
        failures = 0
        while True:
            try:
                loaded = await load(
                    self._group_cluster,
                    self._member,
                    self._names,
                    self.rules,
                    keys,
                    self._ids,
                    self._surroundings.randomness,
                )
                break
            except (OSError, KafkaError, ValueError, InvalidBatch) as error:
                failures += 1
                logger.warning("source partitions cannot be taken over yet: topic=%s reason=%s", keys[0][0], error)
                await asyncio.sleep(BACKOFF.pause_ms(failures, self._surroundings.randomness) / 1000)
        for source in loaded:
            self._sources[source.key] = source
            self._lane_of(source).add(source)
        self._reader.assign({source.key: source.position for source in loaded})
        waiting = sum(source.index.count for source in loaded)
        logger.info(
            "source partitions were taken over: topic=%s partitions=%d waiting_records=%d",
            keys[0][0],
            len(keys),
            waiting,
        )

    # --- reading ---

    async def _read(self) -> None:
        """Read the sources, and tell the group that this process is alive."""
        failures = 0
        while True:
            try:
                self._member.polled()
            except KafkaError as error:
                self.end(f"the group: {error.message}")
                return
            self._read_again()
            try:
                fetched = await self._reader.poll_batches(FULL_POLL_MS if self._unread else POLL_MS)
            except (KafkaError, InvalidBatch) as error:
                failures += 1
                logger.warning("sources cannot be read: reason=%s", error)
                if failures > 1:
                    self.end(f"sources cannot be read: {error}")
                    return
                continue
            failures = 0 if fetched else failures
            for each in fetched:
                key = each.topic, each.partition
                source = self._sources.get(key)
                if source is None:
                    continue
                lost = source.fetched(each)
                if lost:
                    logger.warning(
                        "records were deleted before they were taken in: topic=%s partition=%d records=%d", *key, lost
                    )
                if source.is_full:
                    self._unread[key] = None
                    self._reader.drop([key])
                self._lane_of(source).wake()

    def _read_again(self) -> None:
        """Go on reading the sources that are not full any more."""
        for key in [key for key in self._unread if not self._sources[key].is_full]:
            del self._unread[key]
            self._reader.assign({key: self._sources[key].read_position})

    def _wake(self) -> None:
        for lane in self._lanes.values():
            lane.wake()

    # --- lanes ---

    def _lane_of(self, source: SourcePartition) -> Lane:
        return self._lanes.get(source.key[0], self._lanes[MAIN])

    def _open_lane(self, topic: str, trouble: Trouble | None) -> Lane:
        """Open the lane of a source topic whose target is in trouble, or the main one."""
        suffix = f"-{topic}" if topic else ""
        name = f"{self._names.name}-{self._instance}{suffix}"
        lane = Lane(name, self._cluster(f"producer{suffix}"), self._parts, trouble)
        self._lanes[topic] = lane
        self._open_lanes.append(lane)
        self._lane_tasks[topic] = self._tasks.spawn(lane.run(), name=f"lane {topic or 'main'}")
        return lane

    def _on_troubled(self, topic: str, error: KafkaError) -> None:
        if topic in self._lanes or not any(source[0] == topic for source in self._sources):
            return
        now_ms = self._surroundings.clock.monotonic_ms()
        trouble = Trouble(now_ms, self._settings.barnabas_relay_target_timeout_ms)
        trouble.failed(error, now_ms)
        logger.warning("target does not take records: topic=%s reason=%s", topic, error.message)
        lane = self._open_lane(topic, trouble)
        self._tasks.spawn(self._move(topic, self._lanes[MAIN], lane), name=f"moving {topic}")

    def _on_recovered(self, topic: str) -> None:
        self._tasks.spawn(self._recover(topic), name=f"recovery of {topic}")

    async def _recover(self, topic: str) -> None:
        """Bring the sources of a topic back into the main lane."""
        lane = self._lanes.pop(topic, None)
        if lane is None:
            return
        await self._move(topic, lane, self._lanes[MAIN])
        self._lane_tasks.pop(topic).cancel()
        await lane.close()
        self._open_lanes.remove(lane)
        logger.info("target takes records again: topic=%s", topic)

    async def _move(self, topic: str, before: Lane, after: Lane) -> None:
        for source in await before.release([key for key in self._sources if key[0] == topic]):
            if source.key in self._sources:
                after.add(source)

    # --- the rest ---

    async def _clean_up(self) -> None:
        """Delete what nobody needs of the buckets that this process's sources have copies in."""
        renewed_s = asyncio.get_running_loop().time()
        bounds: dict[TopicPartition, int] = {}
        while True:
            await asyncio.sleep(CLEANUP_S)
            partitions = {source.log_partition for source in self._sources.values()}
            try:
                count = await self._group_cluster.partition_count(self._names.log)
                known = self._terms.partitions
                sources = [(topic, each) for topic in self.rules for each in range(known.get(topic, 0))]
                work = delete_unneeded(self._names, partitions, count, sources, bounds)
                bounds = await self._group_cluster.run(work)
                if asyncio.get_running_loop().time() - renewed_s >= RENEWAL_S:
                    await self._renew_offsets()
                    renewed_s = asyncio.get_running_loop().time()
            except (OSError, KafkaError, ValueError) as error:
                logger.info("buckets were not cleaned up, and will be later: reason=%s", error)

    async def _renew_offsets(self) -> None:
        """Commit the offsets of sources again whose rules do not hold: brokers forget those of topics that no member reads.
        Raises KafkaError, OSError."""
        committed = await self._group_cluster.run(stable_offsets(self._names.name))
        idle = {key: each for key, each in committed.items() if key[0] not in self.rules}
        if idle:
            await self._group_cluster.run(commit_offsets(self._names.name, idle, self._member.membership))

    def _cluster(self, purpose: str) -> AsyncClusterClient:
        cluster = self._open_cluster(f"{self._names.name}-{purpose}")
        self._clusters.append(cluster)
        return cluster
