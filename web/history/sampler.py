"""Looks at the cluster again and again, and keeps what it sees as the history of the last hour.

    metadata -> groups -> their commits -> ends of logs -> sizes of logs -> figures of brokers -> a round of the history

Rules: it needs DESCRIBE only. With a principal of its own it looks as that one; in a cluster without logins from the start;
else as a user who is here, the same one for as long as that user is, and not at all while nobody is. Brokers are not asked
again for what failed: the next round looks anew.
Costs are bounded: looking takes at most a tenth of the time, so that a cluster that answers slowly is asked less often, though
once a minute. Partitions are asked for in batches, one after the other; metadata and sizes, whose answers are long, the more
seldom the more partitions there are. Of offsets of groups at most `COMMITS_MAX` are taken in a round. A broker that has not
answered is not asked for anything else in the same round.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from client.admin import groups as group_steps
from client.admin import share_groups
from client.admin import topics as topic_steps
from client.admin.offsets import offsets
from client.admin.replicas import log_dirs
from client.admin.steps import once
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import LATEST
from runtime.error_texts import reason_of
from runtime.slices import Slices
from tools.health.messages import log_directories
from web.history.growth import Growth, lag_by_topic, told_lag_by_topic
from web.history.history import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from client.admin.share_groups import ShareOffset
    from client.admin.steps import Steps
    from protocol.topic_partition import TopicPartition
    from runtime.clock import Clock
    from web.cluster.user_cluster import UserCluster
    from web.cluster.users import UserClusters
    from web.history.history import History
    from web.history.response_times import ResponseTimes

T = TypeVar("T")
WORK_PART: Final = 10
"""One in so many parts of the time is spent on looking."""
PAUSE_MAX_MS: Final = 60_000
ALONE_MS: Final = 1_000
"""How often it looks whether a user has come."""
ANSWER_MS: Final = 5_000
"""How long a broker may take."""
USER_IDLE_MS: Final = 1_800_000
"""A user who has asked for nothing for so long is not here any more."""
PARTITIONS_PER_REQUEST: Final = 1_000
GROUPS_PER_REQUEST: Final = 50
COMMITS_MAX: Final = 200_000
PARTITIONS_PER_ROUND: Final = 2_000
"""Up to so many partitions metadata and sizes are asked for in each round; with twice as many in each second one, and so on."""
_LOST: Final = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE)

logger = logging.getLogger(__name__)


class Sampler:
    """`own` is the cluster as the principal of its own, if there is one. `problem` says why there is nothing new; empty when
    there is."""

    def __init__(
        self, history: History, users: UserClusters, own: UserCluster | None, times: ResponseTimes, clock: Clock
    ) -> None:
        self._history = history
        self._users = users
        self._own = own
        self._times = times
        self._clock = clock
        self._borrowed: UserCluster | None = None
        self._records = Growth()
        self._bytes = Growth()
        self._partitions: dict[int, list[TopicPartition]] = {}
        """By leader."""
        self._partition_count = 0
        self._rounds = 0
        self._is_moved = True
        """Whether an answer has disproved what is known of topics."""
        self._lost: set[int] = set()
        """Brokers that have not answered in this round."""
        self._is_alone = False
        """Whether there was nobody to look as."""
        self.problem = "no round of sampling has ended yet"
        self.groups_left_out = 0

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            started_ms = self._clock.monotonic_ms()
            await self.look()
            spent_ms = self._clock.monotonic_ms() - started_ms
            if self._is_alone:
                await asyncio.sleep(min(self._history.interval_ms, ALONE_MS) / 1000)
                continue
            pause_ms = max(self._history.interval_ms - spent_ms, min(spent_ms * (WORK_PART - 1), PAUSE_MAX_MS))
            await asyncio.sleep(pause_ms / 1000)

    async def look(self) -> None:
        """Make one round."""
        cluster = self._cluster()
        self._is_alone = cluster is None
        if cluster is None:
            self.problem = (
                "plots begin when somebody logs in: barnabas.web.sampling.* names a principal that samples always"
            )
            return
        try:
            await self._round(cluster)
        except (OSError, KafkaError) as error:
            if not self.problem:
                logger.warning("cluster not sampled, retrying: error=%s", reason_of(error))
            self.problem = f"the cluster was not reached: {reason_of(error)}"
            with self._history.round(self._clock.monotonic_ms()):
                pass  # a gap in every series
            return
        self.problem = ""

    def _cluster(self) -> UserCluster | None:
        if self._own is not None:
            return self._own
        here = self._users.recent(USER_IDLE_MS)
        if self._borrowed not in here:
            self._borrowed = here[0] if here else None
            self._is_moved = True
        return self._borrowed

    async def _round(self, cluster: UserCluster) -> None:
        is_whole = self._rounds % (1 + self._partition_count // PARTITIONS_PER_ROUND) == 0
        self._rounds += 1
        if is_whole or self._is_moved:
            await self._find_partitions(cluster)
        commits, shared = await self._offsets_of_groups(cluster)
        ends_ms = self._clock.monotonic_ms()
        ends = await self._ends(cluster)
        sizes_ms = self._clock.monotonic_ms()
        sizes = await self._sizes(cluster) if is_whole else None
        times = await self._times.told()
        slices = Slices(self._clock)
        with self._history.round(self._clock.monotonic_ms()):
            await self._put_growth(self._records, Measure.RECORDS, ends, ends_ms, slices)
            await self._put_lags(commits, ends, slices)
            async for group, offsets_of in slices.over(shared.items()):
                for topic, lag in told_lag_by_topic(offsets_of).items():
                    self._history.put(Measure.LAG, lag, group, topic)
            for broker, by_request in times.items():
                for request, time_ms in by_request.items():
                    self._history.put(Measure.LATENCY, time_ms, broker, request)
            if sizes is None:
                self._history.hold(Measure.BYTES)
                self._history.hold(Measure.SIZE)
            else:
                await self._put_growth(self._bytes, Measure.BYTES, sizes, sizes_ms, slices)
                async for topic, sum_of in slices.over(_by_topic(sizes).items()):
                    self._history.put(Measure.SIZE, sum(sum_of.values()), topic)

    # --- what the cluster says ---

    async def _run(self, cluster: UserCluster, steps: Steps[T]) -> T:
        """Raises ConnectionError, too, when the user whose connections these are has left."""
        if self._own is None and cluster not in self._users.recent(USER_IDLE_MS):
            raise ConnectionError("the user has logged out")
        return await cluster.run(once(steps), ANSWER_MS)

    async def _find_partitions(self, cluster: UserCluster) -> None:
        topics = await self._run(cluster, topic_steps.all_topics())
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for name, topic in topics.items():
            for row in topic.partitions:
                if row.leader_id >= 0:
                    by_leader[row.leader_id].append((name, row.partition_index))
        self._partitions = by_leader
        self._partition_count = sum(map(len, by_leader.values()))
        self._is_moved = False
        self._records.retain(topics)
        self._bytes.retain(topics)

    async def _offsets_of_groups(
        self, cluster: UserCluster
    ) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, dict[TopicPartition, ShareOffset]]]:
        """Return what groups have committed, and how far share groups are."""
        listed = await self._run(cluster, group_steps.list_all())
        self._lost = {broker for broker, error in listed.errors.items() if error.code in _LOST}
        commits: dict[str, dict[TopicPartition, int]] = {}
        shared: dict[str, dict[TopicPartition, ShareOffset]] = {}
        left, asked, there = COMMITS_MAX, 0, 0
        for coordinator, groups in listed.groups.items():
            names = [each.group_id for each in groups if each.protocol_type in ("", group_steps.CONSUMER)]
            sharing = [each.group_id for each in groups if each.group_type.lower() == group_steps.SHARE]
            there += len(names) + len(sharing)
            for batch in _batches(names, GROUPS_PER_REQUEST):
                if left <= 0 or coordinator in self._lost:
                    break
                answers = self._good(await self._run(cluster, group_steps.committed_offsets_of(batch)), coordinator)
                left -= sum(map(len, answers.values()))
                asked += len(batch)
                commits.update(answers)
            for batch in _batches(sharing, GROUPS_PER_REQUEST):
                if left <= 0 or coordinator in self._lost:
                    break
                starts = self._good(await self._run(cluster, share_groups.start_offsets_of(batch)), coordinator)
                left -= sum(map(len, starts.values()))
                asked += len(batch)
                shared.update(starts)
        self.groups_left_out = there - asked
        return commits, shared

    async def _ends(self, cluster: UserCluster) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for leader, batch in self._led_batches(PARTITIONS_PER_REQUEST):
            answers = await self._run(cluster, offsets(dict.fromkeys(batch, LATEST)))
            found.update(self._good(answers, leader))
        return found

    async def _sizes(self, cluster: UserCluster) -> dict[TopicPartition, int]:
        """Return the sizes of leaders' logs: replicas have the same records."""
        found: dict[TopicPartition, int] = {}
        for leader, batch in self._led_batches(PARTITIONS_PER_ROUND):
            answers = await self._run(cluster, log_dirs([leader], batch))
            for response in self._good(answers, leader).values():
                for directory in log_directories(response):
                    found.update(directory.sizes)
        return found

    def _led_batches(self, size: int) -> Iterator[tuple[int, list[TopicPartition]]]:
        for leader, led in self._partitions.items():
            for batch in _batches(led, size):
                if leader not in self._lost:
                    yield leader, batch

    def _good(self, answers: Mapping[Any, T | KafkaError], broker: int) -> dict[Any, T]:
        """Return what is no error of the answers of a broker. An error that may pass says that the broker has not the role any
        more, or is gone."""
        good: dict[Any, T] = {}
        for key, each in answers.items():
            if not isinstance(each, KafkaError):
                good[key] = each
                continue
            self._is_moved |= each.code.retriable
            if each.code in _LOST:
                self._lost.add(broker)
        return good

    # --- what is kept of it ---

    async def _put_growth(
        self, growth: Growth, measure: Measure, numbers: Mapping[TopicPartition, int], now_ms: int, slices: Slices
    ) -> None:
        async for topic, by_partition in slices.over(_by_topic(numbers).items()):
            self._history.put(measure, growth.observed(topic, by_partition, now_ms), topic)

    async def _put_lags(
        self, commits: Mapping[str, Mapping[TopicPartition, int]], ends: Mapping[TopicPartition, int], slices: Slices
    ) -> None:
        async for group, offsets_of in slices.over(commits.items()):
            for topic, lag in lag_by_topic(offsets_of, ends).items():
                self._history.put(Measure.LAG, lag, group, topic)


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), number in numbers.items():
        found[topic][partition] = number
    return found


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    each = iter(items)
    while batch := list(islice(each, size)):
        yield batch
