"""Reads partitions of a topic up to offsets that were their ends when the reading began, or on and on.

Rules: never silently short: a partition that cannot be read raises its error, one that gives nothing for a minute before its
end does not answer, and the reading is finished only when every partition has been read to its end. Records that are deleted
before they are read are counted, and the reading goes on behind them. Markers of transactions and what was compacted away have
offsets and no records: the client says when it has come to the end of a partition (`enable.partition.eof`). Partitions that are
done are not fetched any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from protocol.messages.list_offsets import EARLIEST, LATEST
from runtime.command_line.failure import Failure
from runtime.command_line.output import Output
from runtime.texts import count_text
from tools.cluster import Cluster
from tools.group_lag import Key, offsets_of, offsets_since
from tools.records.callbacks import called

POLL_S = 0.2
BATCH = 1_000
STUCK_POLLS = 300
"""After a minute without anything, a bounded reading ends with an error."""
ANSWER_S = 10.0
TIMED_OUT: int = KafkaError._TIMED_OUT  # noqa: SLF001  the library's name for its public code
_END_OF_PARTITION = "_PARTITION_EOF"
_OUT_OF_RANGE = "_AUTO_OFFSET_RESET"
_NO_GROUP = "GROUP_AUTHORIZATION_FAILED"
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",  # or records that were deleted meanwhile would be missed in silence
        "fetch.wait.max.ms": 100,
    }
)


@dataclass(slots=True)
class ReadPlan:
    """Where each partition starts, and where it ends; a plan without ends has no end. An empty plan has nothing to read."""

    starts: dict[int, int]
    ends: dict[int, int] = field(default_factory=dict)
    deleted: dict[int, int] = field(default_factory=dict)
    """By partition: how many offsets between the start that was asked and the first that there is."""
    withheld: dict[int, int] = field(default_factory=dict)
    """By partition: how many offsets are behind its end, because a transaction is open."""

    @property
    def is_bounded(self) -> bool:
        return bool(self.ends)

    def bound(self, cluster: Cluster, topic: str, *, is_committed_only: bool) -> None:
        """End at what is there now. Partitions that have nothing between start and end leave the plan. Raises Failure."""
        keys: list[Key] = [(topic, index) for index in self.starts]
        first = known_offsets(cluster.run(offsets_of(keys, EARLIEST)))
        ends, self.withheld = ends_now(cluster, keys, is_committed_only=is_committed_only)
        asked = {index: start for index, start in self.starts.items() if start >= 0}
        self.deleted = {index: first[index] - start for index, start in asked.items() if start < first[index]}
        self.starts = {
            index: max(start, first[index])
            for index, start in self.starts.items()
            if start != OFFSET_END and ends[index] > max(start, first[index])
        }
        self.ends = {index: ends[index] for index in self.starts}

    def limit(self, ends: Mapping[int, int]) -> None:
        """End earlier: before these offsets. Partitions that have nothing left leave the plan, which has ends already."""
        self.ends = {index: min(end, ends.get(index, end)) for index, end in self.ends.items()}
        self.starts = {index: start for index, start in self.starts.items() if self.ends[index] > start}
        self.withheld = {index: count for index, count in self.withheld.items() if index not in ends}
        self.ends = {index: self.ends[index] for index in self.starts}


def earlier_ends(
    cluster: Cluster, topic: str, indexes: Iterable[int], until_ms: int | None, until_offset: int | None
) -> dict[int, int]:
    """Return where `--until-time` and `--until-offset` end the reading of each partition. Raises Failure."""
    ends: dict[int, int] = {}
    if until_ms is not None:
        until = cluster.run(offsets_since([(topic, index) for index in indexes], until_ms))
        ends = {key[1]: offset for key, offset in until.items() if offset is not None}
    if until_offset is not None:
        ends = {index: min(ends.get(index, until_offset), until_offset) for index in indexes}
    return ends


def ends_now(cluster: Cluster, keys: list[Key], *, is_committed_only: bool) -> tuple[dict[int, int], dict[int, int]]:
    """Return the ends of partitions, and how many offsets are behind them where a transaction is open. Raises Failure."""
    ends = known_offsets(cluster.run(offsets_of(keys, LATEST)))
    if not is_committed_only:
        return ends, {}
    # asked last: it can only grow
    committed = known_offsets(cluster.run(offsets_of(keys, LATEST, is_committed_only=True)))
    return committed, {index: end - committed[index] for index, end in ends.items() if end > committed[index]}


def known_offsets(offsets: dict[Key, int | None]) -> dict[int, int]:
    """Raises Failure for a partition whose leader does not answer."""
    known = {}
    for (topic, index), offset in offsets.items():
        if offset is None:
            raise Failure(f"partition {topic}-{index} does not answer; `barnabas cluster health` tells more")
        known[index] = offset
    return known


class Reading:
    """One run over a plan, or over what a group assigns to the consumer (no plan)."""

    def __init__(
        self, consumer: Consumer, topic: str, plan: ReadPlan | None = None, moved: Callable[[], None] = lambda: None
    ) -> None:
        """The consumer is made with `SETTINGS`. `moved` is called when something has come."""
        self._consumer = consumer
        self._topic = topic
        self._starts = dict(plan.starts) if plan is not None else {}
        self._moved = moved
        self._assigned: set[int] = set()
        self._at_end: set[int] = set()
        self._quiet_polls = 0
        self.deleted: dict[int, int] = dict(plan.deleted) if plan is not None else {}
        """By partition: how many offsets were deleted before they were read."""
        self._is_bounded = plan is not None and (plan.is_bounded or not plan.starts)
        self._ends = dict(plan.ends) if plan is not None else {}
        if plan is not None and plan.starts:
            consumer.assign([TopicPartition(topic, index, offset) for index, offset in plan.starts.items()])

    @property
    def started(self) -> set[int]:
        """The partitions of this reading."""
        return set(self._starts)

    @property
    def is_finished(self) -> bool:
        return self._is_bounded and not self._ends

    def left(self) -> frozenset[int] | None:
        """Return the partitions that have records to read still, as far as it is known; None for a member of a group that has
        none. Safe to be called from another thread."""
        of_group = not self._starts and not self._is_bounded
        wanted = frozenset(self._ends if self._is_bounded else self._assigned if of_group else self._starts)
        return None if of_group and not wanted else wanted - self._at_end

    def on_assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """For `subscribe`."""
        self._assigned = self._assigned | {each.partition for each in partitions}
        self._at_end = self._at_end - self._assigned

    def on_revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """For `subscribe`."""
        self._assigned = self._assigned - {each.partition for each in partitions}

    def poll(self, most: int = BATCH) -> list[Any]:
        """Return the next records, none when none came for a moment. Raises KafkaException."""
        messages = called(self._consumer.consume, most, POLL_S)
        self._quiet_polls = 0 if messages else self._quiet_polls + 1
        if messages:
            self._moved()
        if self._is_bounded and self._quiet_polls > STUCK_POLLS:
            raise KafkaException(KafkaError(TIMED_OUT))
        wanted = []
        for message in messages:
            end = self._ends.get(message.partition())
            if message.error() is not None:
                if message.error().name() == _END_OF_PARTITION:
                    self._at_end.add(message.partition())
                if message.error().name() == _OUT_OF_RANGE:
                    self._skip_deleted(message)
                elif message.error().name() == _NO_GROUP and self._starts:
                    continue  # the client looks for the coordinator of a group that this reading does not need
                elif message.error().name() != _END_OF_PARTITION:
                    raise KafkaException(message.error())
                elif end is not None and message.offset() >= end:
                    self._drop(message.partition())
                continue
            self._at_end.discard(message.partition())
            if end is None:
                if not self._is_bounded:
                    wanted.append(message)
                continue
            if message.offset() < end:
                wanted.append(message)
            if message.offset() + 1 >= end:
                self._drop(message.partition())
        return wanted

    def add(self, partitions: Iterable[int]) -> None:
        """Read partitions, too, that have just come, from their beginning on; for a reading without ends."""
        added = [TopicPartition(self._topic, index, OFFSET_BEGINNING) for index in partitions]
        if added:
            self._starts |= {each.partition: OFFSET_BEGINNING for each in added}
            self._consumer.incremental_assign(added)

    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition that is not done."""
        asked = [TopicPartition(self._topic, index) for index in self._ends]
        found = {each.partition: each.offset for each in self._consumer.position(asked)}
        return {index: max(found.get(index, 0), self._starts[index]) for index in sorted(self._ends)}

    def _skip_deleted(self, message: Any) -> None:
        """Go on at the first record that is there. Raises KafkaException when the log ends before the offset."""
        index, offset = message.partition(), message.offset()
        bounds = self._consumer.get_watermark_offsets(TopicPartition(self._topic, index), ANSWER_S)
        if offset < 0 or bounds is None:
            raise KafkaException(message.error() if bounds is not None else KafkaError(TIMED_OUT))
        first, end = bounds
        if offset >= first:
            text = f"{self._topic}-{index} has no offset {offset}: it ends at {end}"
            raise KafkaException(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE, text))
        wanted_end = self._ends.get(index)
        if self._is_bounded and wanted_end is None:
            return  # it was done already
        self.deleted[index] = self.deleted.get(index, 0) + min(first, wanted_end or first) - offset
        if wanted_end is not None and first >= wanted_end:
            self._drop(index)
            return
        self._consumer.incremental_unassign([TopicPartition(self._topic, index)])
        self._consumer.incremental_assign([TopicPartition(self._topic, index, first)])

    def _drop(self, partition: int) -> None:
        del self._ends[partition]
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])


def deleted_text(topic: str, deleted: Mapping[int, int]) -> str:
    """Return how many records were deleted before they were read."""
    places = ", ".join(f"{count} of {topic}-{index}" for index, count in sorted(deleted.items()))
    return f"records that were deleted before they could be read: {places}"


def withheld_text(topic: str, withheld: Mapping[int, int]) -> str:
    """Return what was not read because of open transactions."""
    places = ", ".join(f"{count_text(count, 'offset')} of {topic}-{index}" for index, count in sorted(withheld.items()))
    return (
        f"not read, because they are behind the start of an open transaction: {places}; "
        f"--isolation-level read_uncommitted reads them, `barnabas transactions producers {topic}` shows the transaction"
    )


def tell_gaps(topic: str, deleted: Mapping[int, int], withheld: Mapping[int, int], unreadable: int) -> None:
    """Say on standard error what was not read; `unreadable` are the records whose headers were wanted and could not be read."""
    if deleted:
        Output.note(deleted_text(topic, deleted))
    if withheld:
        Output.note(withheld_text(topic, withheld))
    if unreadable:
        Output.note(
            f"not compared with --header, because a name of a header is no UTF-8: {count_text(unreadable, 'record')}"
        )
