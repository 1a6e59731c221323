"""The rules of a relay as its topic has them, followed while the process runs, with which of them hold now.

A rule holds when its principal has the rights for it, when its source can be read, and when it is in no circle
(`relay.rules.table`). What does not hold is suspended: one log line says why, and its records stay where they are.

Rules: rights and topics are looked up again at intervals, and when a target is in trouble. A cluster that does not answer
changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from client.admin import topics as topic_steps
from client.backoff import Backoff
from client.committing import OffsetAndMetadata
from client.event_loop.reader import PartitionReader
from client.event_loop.whole_log import read_whole
from client.reading.positions import Positions, Reset
from protocol.errors import ErrorCode, KafkaError
from relay.rules.authorisation import judged
from relay.rules.table import RuleTable
from security.access import Operation

if TYPE_CHECKING:
    from client.event_loop.cluster_client import AsyncClusterClient
    from client.reading.positions import ReadRecord
    from config.acl_settings import AclSettings
    from relay.names import RelayNames
    from relay.rules.rule import Rule
    from runtime.clock import Clock
    from runtime.randomness import Randomness

WATCH_S: Final = 5.0
"""How often topics of rules are looked at."""
SHORT_WATCH_S: Final = 1.0
"""The same while something is not as it should be."""
POLL_MS: Final = 1_000
KNOWN_MS: Final = 30_000
"""After this time all brokers know a topic."""
BACKOFF: Final = Backoff(100, 1_000)
NO_OPERATIONS: Final = -(1 << 31)
"""What a broker says that has no authorizer."""

logger = logging.getLogger(__name__)


class RulesFeed:
    """`partitions` is filled with the number of partitions of topics that exist, `offline` with those that have one without a
    leader; `changed` is set when other rules hold."""

    def __init__(
        self,
        cluster: AsyncClusterClient,
        names: RelayNames,
        clock: Clock,
        randomness: Randomness,
        partitions: dict[str, int],
        offline: set[str],
        check_interval_ms: int,
        acls: AclSettings,
    ) -> None:
        self.active: dict[str, Rule] = {}
        self.suspended: dict[str, str] = {}
        self.changed = asyncio.Event()
        self._cluster = cluster
        self._names = names
        self._clock = clock
        self._randomness = randomness
        self._partitions = partitions
        self._offline = offline
        self._check_interval_ms = check_interval_ms
        self._acls = acls
        self._table = RuleTable(names)
        self._topic_ids: dict[str, bytes] = {}  # of sources
        self._checked_ms: int | None = None
        self._position = 0

    async def load(self) -> None:
        """Read the rules that there are, and find out which hold. Raises KafkaError, OSError."""
        key = self._names.rules, 0
        began_ms, attempts = self._clock.monotonic_ms(), 0
        while True:
            try:
                self._position = (await read_whole(self._cluster, self._randomness, {key: None}, self._take))[key]
                break
            except KafkaError as error:  # a topic that another process has just created is not known to all brokers
                is_new = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not is_new or self._clock.monotonic_ms() - began_ms > KNOWN_MS:
                    raise
                attempts += 1
                await asyncio.sleep(BACKOFF.pause_ms(attempts, self._randomness) / 1000)
        await self.look()

    async def follow(self) -> None:
        """Take new rules as they come. Raises KafkaError for what does not pass."""
        reader = PartitionReader(self._cluster, self._randomness, Positions(Reset.EARLIEST), max_wait_ms=POLL_MS)
        try:
            reader.assign({(self._names.rules, 0): OffsetAndMetadata(self._position)})
            while True:
                records = await reader.poll(POLL_MS)
                if records:
                    self._take(records)
                    await self.look_again()
        finally:
            await reader.close()

    async def watch(self) -> None:
        """Look at intervals whether the same rules hold."""
        while True:
            is_all_well = not self._offline and not self.suspended
            await asyncio.sleep(min(WATCH_S if is_all_well else SHORT_WATCH_S, self._check_interval_ms / 1000))
            await self.look_again()

    async def look_again(self) -> None:
        """Find out which rules hold; without an answer nothing changes."""
        try:
            await self.look()
        except (OSError, KafkaError) as error:
            logger.info("rules cannot be checked now: reason=%s", error)

    async def look(self) -> None:
        """Find out which rules hold. Raises KafkaError, OSError."""
        await self._judge()
        active, suspended = self._table.active(), self._table.suspended()
        topics = {name for rule in active.values() for name in (rule.source, *rule.destinations)}
        wanted = sorted({self._names.dead_letters, *topics})
        found = await self._cluster.run(topic_steps.describe(wanted, has_operations=True))
        self._partitions.clear()
        self._offline.clear()
        for name, topic in found.items():
            if not isinstance(topic, KafkaError):
                self._partitions[name] = len(topic.partitions)
                if any(each.leader_id < 0 for each in topic.partitions):
                    self._offline.add(name)
        for source in list(active):
            topic = found[source]
            reason = None
            if isinstance(topic, KafkaError):
                reason = f"its source cannot be read: {topic.message}"
            elif not _may_read(topic.topic_authorized_operations):
                reason = "the relay may not read its source"
            elif self._topic_ids.setdefault(source, topic.topic_id) != topic.topic_id:
                # Only for a moment: what was read of the other topic is forgotten with the session.
                reason = "its source was deleted and made again"
                self._topic_ids[source] = topic.topic_id
            if reason is not None:
                suspended[source] = reason
                del active[source]
        for source, reason in suspended.items():
            if self.suspended.get(source) != reason:
                logger.warning("rule is suspended: topic=%s reason=%s", source, reason)
        self.suspended = suspended
        if active != self.active:
            self.active = active
            self.changed.set()

    async def _judge(self) -> None:
        """Check the rights of the principals of rules that are new, and of all at intervals."""
        now_ms = self._clock.monotonic_ms()
        is_due = self._checked_ms is None or now_ms - self._checked_ms >= self._check_interval_ms
        rules = self._table.rules() if is_due else self._table.not_judged()
        if rules:
            self._table.judge(await self._cluster.run(judged(rules, self._acls)))
        if is_due:
            self._checked_ms = now_ms

    def _take(self, records: list[ReadRecord]) -> None:
        for each in records:
            self._table.replay(each.record.key, each.record.value)


def _may_read(operations: int) -> bool:
    return operations == NO_OPERATIONS or bool(operations >> Operation.READ & 1)
