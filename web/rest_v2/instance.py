"""One consumer instance: a consumer of Kafka that lives in this process and is used by HTTP, one request at a time.

    await instance.subscribe(["topic"])       a member of its group, or
    await instance.assign(partitions)         partitions that the caller chooses
    await instance.read(timeout_ms, max_bytes)
    await instance.commit(None)
    await instance.close()

Rules: a record counts as read, and is committed, once it is in an answer. A subscription joins the group at once; a read
tells the group that the consumer is alive. At most one fetch of each leader waits here. With automatic commits what was read is
committed at reads every 5 s, when partitions are revoked and at the end.
Errors: HttpProblem for what does not fit the state of the consumer, KafkaError and OSError of the cluster.
Source: Kafka KafkaConsumer; Confluent KafkaConsumerState, KafkaConsumerReadTask.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from client.admin import groups, offsets
from client.admin.brokers import checked
from client.backoff import Backoff
from client.committing import OffsetAndMetadata
from client.errors import LoginRefused
from client.event_loop.group_member import GroupMember
from client.event_loop.member_offsets import MemberOffsets
from client.event_loop.reader import PartitionReader
from client.membership.classic import ClassicMember
from client.membership.contract import MemberSettings
from client.reading.positions import Positions, ReadRecord
from protocol.errors import KafkaError
from runtime.slices import Slices
from web.errors import HttpProblem
from web.rest_v2.errors import KAFKA, illegal_state
from web.rest_v2.record_queue import RecordQueue
from web.schemas.contract import DecodeError, RegistryUnavailable

if TYPE_CHECKING:
    from client.event_loop.cluster_client import AsyncClusterClient
    from protocol.topic_partition import TopicPartition
    from runtime.clock import Clock
    from runtime.randomness import Randomness
    from web.cluster.user_cluster import UserCluster
    from web.rest_v2.instance_settings import InstanceSettings

FETCH_BYTES: Final = 1 << 20
AUTO_COMMIT_MS: Final = 5_000
AUTO_COMMIT_S: Final = 5.0
"""How long a commit that nobody has asked for may take."""
LEAVE_S: Final = 3.0
"""How long a coordinator may take to hear that a member leaves: without it the session ends by itself."""
PATTERN_MS: Final = 300_000
"""How often the topics that a pattern matches are looked up, at a read."""
EXCLUSIVE: Final = "Subscription to topics, partitions and pattern are mutually exclusive"
_BACKOFF: Final = Backoff(100, 1_000)
_MEMBER: Final = MemberSettings()
logger = logging.getLogger(__name__)

Render = Callable[[ReadRecord], Awaitable[bytes]]
Matches = Callable[[str], bool]


class ConsumerInstance:
    """`render` makes of a record its JSON. Its connections are its own, with the login of `cluster`."""

    def __init__(
        self, settings: InstanceSettings, cluster: UserCluster, clock: Clock, randomness: Randomness, render: Render
    ) -> None:
        self.settings = settings
        self.used_ms = clock.monotonic_ms()
        self._clock = clock
        self._randomness = randomness
        self._render = render
        self._timeout_s = cluster.settings.api_timeout_ms / 1000
        self._connect(cluster)
        self._queue = RecordQueue()
        self._turn = asyncio.Lock()
        self._member: GroupMember | None = None
        self._topics: list[str] = []
        self._matches: Matches | None = None
        self._matched_ms = 0
        self._partitions: dict[TopicPartition, None] = {}
        self._starting: dict[TopicPartition, None] = {}  # those of them whose first position is to be looked up
        self._committed_ms = self.used_ms

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._turn.locked()

    @property
    def topics(self) -> list[str]:
        """What is subscribed to."""
        return self._topics

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self._partitions)

    async def close(self) -> None:
        """Leave the group."""
        async with self._turn:
            try:
                await self._let_go()
            finally:  # also when whoever closes it is in a hurry
                await self._disconnect()

    async def use(self, cluster: UserCluster) -> None:
        """Go on with the login that the user has now, such as a bearer token in place of one that ends. A member joins its
        group anew."""
        if cluster.settings.login == self._login:
            return
        async with self._turn:
            topics, matches, is_member = self._topics, self._matches, self._member is not None
            partitions, positions = list(self._partitions), self._positions(self._partitions)
            await self._let_go()
            await self._disconnect()
            self._connect(cluster)
            if is_member or matches is not None:
                await self._join(topics, matches)
            else:
                await self.assigned(partitions)
                self._seek({key: each.offset for key, each in positions.items()})

    def _connect(self, cluster: UserCluster) -> None:
        self._login = cluster.settings.login
        self._coordination = cluster.new_client()
        self._records = cluster.new_client()
        positions = Positions(self.settings.reset, is_committed=False)
        self._reader = PartitionReader(self._records, self._randomness, positions, max_bytes=FETCH_BYTES)

    async def _disconnect(self) -> None:
        await self._reader.close()
        await self._records.close()
        await self._coordination.close()

    # --- what is read ---

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics as a member of the group. Raises HttpProblem."""
        async with self._turn:
            self._require_no_choice()
            await self._join(topics, None)

    async def subscribe_to_matching(self, matches: Matches) -> None:
        """Read the topics that match, also later ones. Raises HttpProblem, KafkaError, OSError."""
        async with self._turn:
            self._require_no_choice()
            await self._join(await self._matching(matches), matches)

    async def unsubscribe(self) -> None:
        async with self._turn:
            await self._let_go()

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, in place of those before, without being a member. Raises HttpProblem, KafkaError, OSError."""
        async with self._turn:
            if self._member is not None:
                raise illegal_state(EXCLUSIVE)
            await self._let_go()
            await self.assigned(list(partitions))

    def _require_no_choice(self) -> None:
        if self._member is None and self._partitions:
            raise illegal_state(EXCLUSIVE)

    async def _join(self, topics: Sequence[str], matches: Matches | None) -> None:
        await self._let_go()
        self._topics, self._matches, self._matched_ms = sorted(set(topics)), matches, self._clock.monotonic_ms()
        if self._topics:
            self._member = GroupMember(
                self._coordination, self.settings.group, self._topics, self, self._randomness, _MEMBER
            )

    async def _let_go(self) -> None:
        """Read nothing any more, and be no member."""
        try:
            await self._commit_by_itself()
        finally:
            member, self._member = self._member, None
            if member is not None:
                await self._leave(member)
        self._drop(list(self._partitions))
        self._topics, self._matches = [], None

    @staticmethod
    async def _leave(member: GroupMember) -> None:
        try:
            async with asyncio.timeout(LEAVE_S):
                await member.close()
        except TimeoutError:
            logger.info("a group was not told that a consumer has left: group=%s", member.core.group_id)

    async def _matching(self, matches: Matches) -> list[str]:
        found = await self._records.topics()
        return sorted(name for name, topic in found.items() if not topic.is_internal and matches(name))

    async def _follow_pattern(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._matches is None or now_ms - self._matched_ms < PATTERN_MS:
            return
        self._matched_ms, matches = now_ms, self._matches
        topics = await self._matching(matches)
        if topics != self._topics:
            await self._join(topics, matches)

    async def _start(self) -> None:
        """Read new partitions from what the group has committed. Raises KafkaError, OSError."""
        while self._starting:
            asked = list(self._starting)
            committed = await self._committed(asked)
            for key in asked:
                if key in self._starting:  # it was not revoked meanwhile
                    self._reader.assign({key: committed.get(key)})
                    del self._starting[key]

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._reader.drop(partitions)
        self._queue.drop(partitions)
        for key in partitions:
            self._partitions.pop(key, None)
            self._starting.pop(key, None)

    # --- what the group tells ---

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        """The next read begins with them."""
        new = dict.fromkeys(partitions)
        self._partitions.update(new)
        self._starting.update(new)

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        if not is_lost:
            await self._commit_by_itself(partitions)
        self._drop(partitions)

    # --- reading ---

    async def read(self, timeout_ms: int | None, max_bytes: int | None) -> list[bytes]:
        """Return records that have come in time, in JSON. Raises HttpProblem, KafkaError, OSError."""
        async with self._turn:
            await self._be_alive()
            settings = self.settings
            wait_ms = settings.timeout_ms if not timeout_ms or timeout_ms < 0 else min(timeout_ms, settings.timeout_ms)
            limit = settings.max_bytes if not max_bytes or max_bytes < 0 else min(max_bytes, settings.max_bytes)
            rendered: list[bytes] = []
            try:
                await self._read(rendered, wait_ms, limit)
            except (DecodeError, RegistryUnavailable, KafkaError, OSError, LoginRefused) as error:
                if rendered:  # the next read meets it first
                    return rendered
                if isinstance(error, DecodeError):
                    text = f"Kafka error: {error}; POST to positions goes on behind it"
                    raise HttpProblem(500, text, number=KAFKA) from None
                raise
            return rendered

    async def _read(self, rendered: list[bytes], wait_ms: int, limit: int) -> None:
        """Raises DecodeError, RegistryUnavailable, KafkaError, OSError, when those before are in `rendered`."""
        loop, slices = asyncio.get_running_loop(), Slices(self._clock)
        deadline_s = loop.time() + wait_ms / 1000
        size_bytes = 0
        while True:
            while (found := self._queue.first()) is not None:
                record = found.record
                more_bytes = len(record.key or b"") + len(record.value or b"")
                if rendered and size_bytes + more_bytes > limit:
                    return
                text = await self._render(found)
                if self._queue.first() is not found:  # the partition was revoked meanwhile
                    continue
                self._queue.take()
                rendered.append(text)
                size_bytes += more_bytes
                await slices.yield_if_due()
            has_enough = self.settings.min_bytes is not None and size_bytes > self.settings.min_bytes
            left_ms = round((deadline_s - loop.time()) * 1000)
            if has_enough or size_bytes >= limit or left_ms <= 0:
                return
            await self._start()
            self._queue.add(await self._reader.poll_batches(left_ms))

    async def _be_alive(self) -> None:
        """Tell the group that somebody reads, and commit when that is due. Raises what the group has against it."""
        await self._follow_pattern()
        if self._member is not None:
            self._member.polled()
        elif not self._partitions and self._matches is None:
            raise illegal_state("Consumer is not subscribed to any topics or assigned any partitions")
        if self._clock.monotonic_ms() - self._committed_ms >= AUTO_COMMIT_MS:
            await self._commit_by_itself()

    # --- positions ---

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read partitions from these offsets. Raises HttpProblem for one that is not assigned."""
        async with self._turn:
            self._seek(positions)

    async def seek_to(self, time: int, partitions: Collection[TopicPartition]) -> None:
        """Read partitions from the beginning or the end, in the words of ListOffsets. Raises HttpProblem, KafkaError,
        OSError."""
        async with self._turn:
            self._require(partitions)
            found = await self._records.run(offsets.offsets(dict.fromkeys(partitions, time)))
            self._seek(checked(found))

    def _seek(self, positions: Mapping[TopicPartition, int]) -> None:
        self._require(positions)
        self._queue.drop(positions.keys())
        self._reader.drop(positions)
        for key in positions:
            self._starting.pop(key, None)
        self._reader.assign({key: OffsetAndMetadata(offset) for key, offset in positions.items()})

    def _require(self, partitions: Collection[TopicPartition]) -> None:
        for topic, partition in partitions:
            if (topic, partition) not in self._partitions:
                raise illegal_state(f"No current assignment for partition {topic}-{partition}")

    # --- offsets of the group ---

    async def commit(self, wanted: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit offsets; None: what has been read. Raises KafkaError, OSError."""
        async with self._turn:
            await self._commit(self._positions(self._partitions) if wanted is None else wanted)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed, without partitions for which that is nothing. Raises KafkaError, OSError."""
        async with self._turn:
            return await self._committed(partitions)

    async def _committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        asker = _offsets_of(self._coordination, self.settings.group, self._randomness)
        async with asyncio.timeout(self._timeout_s):
            return await asker.committed(partitions)

    async def _commit(self, wanted: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._committed_ms = self._clock.monotonic_ms()
        if not wanted:
            return
        async with asyncio.timeout(self._timeout_s):
            if self._member is not None:
                await self._member.commit(wanted)
                return
            checked(await self._coordination.run(groups.commit_offsets(self.settings.group, wanted)))

    async def _commit_by_itself(self, partitions: Collection[TopicPartition] | None = None) -> None:
        if not self.settings.commits_by_itself:
            return
        try:
            async with asyncio.timeout(AUTO_COMMIT_S):
                await self._commit(self._positions(self._partitions if partitions is None else partitions))
        except (
            KafkaError,
            OSError,
            LoginRefused,
        ) as error:  # whoever has the partitions next reads from the last commit
            logger.warning("a commit of a consumer failed: group=%s error=%s", self.settings.group, error)

    def _positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return behind which records the next read goes on, where that is known."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for key in partitions:
            waiting = self._queue.offset(key)
            position = self._reader.positions.offset(key) if waiting is None else OffsetAndMetadata(waiting)
            if position is not None:
                found[key] = position
        return found


def _offsets_of(cluster: AsyncClusterClient, group: str, randomness: Randomness) -> MemberOffsets:
    """Return what asks for the offsets of a group, in the name of no member."""

    def backoff_ms(attempts: int) -> int:
        return round(_BACKOFF.pause_ms(max(attempts, 1), randomness))

    return MemberOffsets(cluster, ClassicMember(group, [], _MEMBER, backoff_ms), backoff_ms, lambda: None)
