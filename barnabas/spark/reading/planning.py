"""Resolves what the options of a read say into partitions and offsets, by asking the brokers.

Rules: the forms of offsets, and what they mean, are those of Spark's Kafka source. A planner serves the driver; tasks read
ranges.
Errors: SourceOptionError when options do not fit what is there, ClusterUnavailable, KafkaError.
Source: Spark KafkaOffsetReaderAdmin.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.spark.client.option_values import Offsets, SourceOptionError
from barnabas.spark.reading.read_options import Position, ReadOptions
from client.blocking.cluster_client import ClusterClient
from client.cluster_view import Topic
from protocol.messages.list_offsets import LATEST
from protocol.messages.metadata import MetadataResponsePartition
from protocol.topic_partition import TopicPartition


class Planner:
    """Asks one cluster for the partitions and offsets of one read."""

    def __init__(self, client: ClusterClient, options: ReadOptions) -> None:
        self._client = client
        self._options = options

    def topics(self, *, tolerates_missing: bool = False) -> dict[str, Topic]:
        """The chosen topics, with the chosen partitions of each. Raises what the module says."""
        selection = self._options.selection
        if selection.pattern is not None:
            found = self._client.topics()
        else:
            found = self._client.topics(selection.topics or {topic for topic, _ in selection.partitions})
        existing = {name: each.is_internal for name, each in found.items()}
        chosen = {name: found[name] for name in selection.of_topics(existing, tolerates_missing=tolerates_missing)}
        if not selection.partitions:
            return chosen
        missing = [
            f"{topic}-{number}"
            for topic, number in selection.partitions
            if topic in chosen and number not in chosen[topic].partitions
        ]
        if missing:
            raise SourceOptionError(f"assign names partitions that do not exist: {', '.join(missing)}")
        kept: dict[str, dict[int, MetadataResponsePartition]] = {name: {} for name in chosen}
        for name, number in (key for key in selection.partitions if key[0] in chosen):
            kept[name][number] = chosen[name].partitions[number]
        return {name: Topic(each.topic_id, kept[name], each.is_internal) for name, each in chosen.items()}

    def resolve(self, position: Position, keys: Iterable[TopicPartition], *, is_start: bool) -> Offsets:
        """The offset in each partition. Raises what the module says."""
        keys = list(keys)
        if position.everywhere is not None:
            return self.all_at(position.everywhere, keys)
        if position.offsets is not None:
            check_covers(position.name, position.offsets, keys)
            symbolic = {key: offset for key, offset in position.offsets.items() if offset < 0}
            asked = self._offsets(symbolic)
            return {key: asked.get(key, position.offsets[key]) for key in keys}
        if position.timestamps_ms is not None:
            check_covers(position.name, position.timestamps_ms, keys)
            times = position.timestamps_ms
        else:
            assert position.timestamp_ms is not None
            times = dict.fromkeys(keys, position.timestamp_ms)
        return self._at_times(position.name, times, is_start=is_start)

    def all_at(self, where: int, keys: Iterable[TopicPartition]) -> Offsets:
        """EARLIEST or LATEST of each partition."""
        return self._offsets(dict.fromkeys(keys, where))

    def _at_times(self, name: str, times: Offsets, *, is_start: bool) -> Offsets:
        found = self._offsets(times)
        late = [key for key, offset in found.items() if offset < 0]
        if late and is_start and not self._options.starts_late_at_latest:
            raise late_error(name, late)
        return found | self._offsets(dict.fromkeys(late, LATEST))

    def _offsets(self, wanted: Offsets) -> Offsets:
        return self._client.offsets(wanted, is_committed_only=self._options.reads_committed)


def check_order(start: Position, starts: Offsets, end: Position, ends: Offsets) -> None:
    """A read must not begin behind its end. Raises SourceOptionError."""
    for (topic, number), offset in sorted(starts.items()):
        if offset > ends[topic, number]:
            raise SourceOptionError(
                f"{topic}-{number}: {start.name} is offset {offset}, behind {end.name}, which is offset {ends[topic, number]}"
            )


def late_error(name: str, late: Iterable[TopicPartition]) -> SourceOptionError:
    places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(late))
    return SourceOptionError(
        f"No record has the time of {name} or a later one in {places}. "
        "With startingOffsetsByTimestampStrategy latest a read begins at the end there"
    )


def check_covers(name: str, given: Iterable[TopicPartition], keys: Iterable[TopicPartition]) -> None:
    """Offsets of partitions must name each of them. Raises SourceOptionError."""
    named, existing = set(given), set(keys)
    if named != existing:
        missing = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(existing - named)) or "none"
        unknown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(named - existing)) or "none"
        raise SourceOptionError(
            f"{name} must name every partition that is read, and no other (-2 is earliest, -1 latest). "
            f"Missing: {missing}. Not read: {unknown}"
        )
